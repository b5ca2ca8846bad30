import { isFields, type Message, withoutMetadata } from '@bureau/protocol'

/** Ids that adapters of other model interfaces give to every item. They identify nothing. */
export function isPlaceholder(id: unknown): boolean {
  return id === '__fake_id__' || id === 'FAKE_ID' || id === ''
}

/**
 * Makes ids unique.
 *
 * An item that is repeated with the same id and the same content is left out. With other content it is an item of its
 * own, as in histories that clients number themselves: it stays and loses the id, unless its kind cannot be without
 * one. The list itself when no id is repeated.
 */
export function withUniqueIds<Item extends Message>(items: Item[]): Item[] {
  if (!repeatsIds(items)) return items
  const firsts = new Map<string, Item>()
  const contents = new Map<string, Set<string>>()
  return items.flatMap((item) => {
    if (typeof item.id !== 'string' || isPlaceholder(item.id)) return [item]
    const first = firsts.get(item.id)
    if (!first) {
      firsts.set(item.id, item)
      return [item]
    }
    if (!idIsOptional(item)) return []
    const known = contents.get(item.id) ?? new Set([contentOf(first)])
    contents.set(item.id, known)
    const content = contentOf(item)
    if (known.has(content)) return []
    known.add(content)
    return [withoutId(item)]
  })
}

function repeatsIds(items: readonly Message[]): boolean {
  const known = new Set<string>()
  return items.some(({ id }) => {
    if (typeof id !== 'string' || isPlaceholder(id)) return false
    const { size } = known
    return known.add(id).size === size
  })
}

/** What an item says, as text that is the same for equal contents. */
function contentOf(item: Message): string {
  return JSON.stringify(withoutMetadata(item), (_key, value: unknown) => {
    if (!isFields(value)) return value
    return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
  })
}

/** The item without placeholder ids, and without an id that is only a copy of its call id. */
export function withRealId<Item extends Message>(item: Item): Item {
  if (item.id === undefined) return item
  return isPlaceholder(item.id) || (item.type === 'function_call' && item.id === item.call_id) ? withoutId(item) : item
}

/** Gives the items that have a placeholder id one of their own. The list itself when there is none. */
export function withClientIds(items: Message[]): Message[] {
  if (!items.some(({ id }) => isPlaceholder(id))) return items
  const taken = new Set(items.map((item) => item.id).filter((id) => !isPlaceholder(id)))
  const counts = new Map<string, number>()
  return items.map((item, index) => {
    if (!isPlaceholder(item.id)) return item
    const { call_id: callId } = item
    const isFree = callId !== undefined && !isPlaceholder(callId) && !taken.has(callId)
    const id = isFree ? callId : numberedId(item, index, counts, taken)
    taken.add(id)
    return { ...item, id }
  })
}

function numberedId(
  { agent_run_id: agentRunId }: Message,
  index: number,
  counts: Map<string, number>,
  taken: ReadonlySet<unknown>,
): string {
  const stem = agentRunId === undefined ? 'msg' : `msg_${agentRunId}`
  let number = counts.get(stem) ?? (agentRunId === undefined ? index : 0)
  while (taken.has(`${stem}_${number}`)) number++
  if (agentRunId !== undefined) counts.set(stem, number + 1)
  return `${stem}_${number}`
}

export function withoutId<Item extends Message>(item: Item): Item {
  const { id: _id, ...rest } = item
  // An id is optional in every item type.
  return rest as Item
}

/** True where the provider takes the item without its id. */
export function idIsOptional(item: Message): boolean {
  return item.type === undefined ? typeof item.role === 'string' : ID_IS_OPTIONAL.has(item.type)
}

const ID_IS_OPTIONAL: ReadonlySet<string> = new Set([
  'message',
  'function_call',
  'function_call_output',
  'computer_call_output',
  'custom_tool_call',
  'custom_tool_call_output',
  'shell_call',
  'shell_call_output',
  'apply_patch_call',
  'apply_patch_call_output',
  'tool_search_call',
  'tool_search_output',
  'mcp_approval_response',
  'compaction',
])
