import type { Message } from '@bureau/protocol'
import { isPlaceholder } from './ids.ts'

/**
 * Removes what a provider refuses because its other half is missing: calls without an output, outputs without a call,
 * unanswered and unasked approvals, and reasoning whose result is gone. Order is kept.
 *
 * Lists of the same conversation, `before` these items or `after` them, may hold the other half. The list itself is returned when
 * nothing in it depends on anything.
 */
export function withoutOrphans<Item extends Message>(items: Item[], around: Around = {}): Item[] {
  // Most conversations have nothing but words in them.
  if (!items.some(isPart)) return items
  const entries = items.map((item) => ({ item, kept: true }))
  dropHalfPairs(entries, around)
  dropLooseReasoning(entries)
  return entries.filter(({ kept }) => kept).map(({ item }) => item)
}

type LooseHalf = { readonly at: number; readonly side: Half['side'] }

/**
 * The first new item that a provider refuses because its other half is missing: it answers what neither the history nor an item
 * before it asks, or it is a call that no item after it answers. Nobody has to answer a request for an approval.
 */
export function looseHalf(items: readonly Message[], history: readonly Message[]): LooseHalf | undefined {
  const halves = items.map(halfOf)
  if (!halves.some((half) => half)) return undefined
  const asked = countHalves(history)
  const answers = new Map(halves.map((half, at) => [half?.side === 'output' ? half.key : undefined, at]))
  for (const [at, half] of halves.entries()) {
    if (!half) continue
    const { key, side } = half
    const isAnswered = answers.get(key)! > at || items[at]!.type!.startsWith('mcp_approval_request')
    if (side === 'output' ? !asked.get(key)?.call : !isAnswered) return { at, side }
    if (side === 'call') asked.set(key, { call: 1, output: 0 })
  }
  return undefined
}

type Around = { readonly before?: readonly Message[]; readonly after?: readonly Message[] }

type Entry = { readonly item: Message; kept: boolean }

/** One half of a pair. Both halves have the same key; an empty key cannot have a partner. */
type Half = { readonly key: string; readonly side: 'call' | 'output' }

/** A call id that is used several times keeps as many calls as outputs. */
function dropHalfPairs(entries: readonly Entry[], { before = [], after = [] }: Around): void {
  const counts = countHalves(entries.map(({ item }) => item))
  const [earlier, later] = [countHalves(before), countHalves(after)]
  const left = { call: new Map<string, number>(), output: new Map<string, number>() }
  for (const [key, { call, output }] of counts) {
    left.call.set(key, Math.min(call, output + surplus(later.get(key), 'output')))
    left.output.set(key, Math.min(output, call + surplus(earlier.get(key), 'call')))
  }
  for (const entry of entries) {
    const half = halfOf(entry.item)
    if (!half) continue
    const { key, side } = half
    const open = key === '' ? 0 : (left[side].get(key) ?? 0)
    entry.kept = open > 0
    left[side].set(key, open - 1)
  }
}

type Count = { call: number; output: number }

function countHalves(items: readonly Message[]): Map<string, Count> {
  const counts = new Map<string, Count>()
  for (const item of items) {
    const half = halfOf(item)
    if (!half) continue
    const count = counts.get(half.key) ?? { call: 0, output: 0 }
    count[half.side]++
    counts.set(half.key, count)
  }
  return counts
}

function surplus({ call, output }: Count = { call: 0, output: 0 }, side: Half['side']): number {
  return Math.max(0, side === 'call' ? call - output : output - call)
}

/**
 * Reasoning must be followed by what the model produced from it, in the same conversation. Notes and tool outputs may
 * come in between; a message of the user may not, because then the model never got that far.
 */
function dropLooseReasoning(entries: readonly Entry[]): void {
  const isFollowed = new Map<string, boolean>()
  for (const entry of entries.toReversed()) {
    const { item } = entry
    const thread = threadOf(item)
    if (item.type === 'reasoning') entry.kept &&= isFollowed.get(thread) ?? false
    else if (halfOf(item)?.side === 'output' || item.role === 'system' || item.role === 'developer') continue
    isFollowed.set(thread, entry.kept && item.role !== 'user')
  }
}

const CALLS = [
  'function_call',
  'computer_call',
  'apply_patch_call',
  'custom_tool_call',
  'shell_call',
  'local_shell_call',
]

type Side = { readonly family: string; readonly side: Half['side'] }

/** Every kind that comes in pairs: by `call_id`, approvals by the id of the request. */
const SIDES: ReadonlyMap<unknown, Side> = new Map<unknown, Side>([
  ...CALLS.map((call) => [call, { family: call, side: 'call' }] as const),
  ...CALLS.map((call) => [`${call}_output`, { family: call, side: 'output' }] as const),
  ['tool_call_item', { family: 'tool', side: 'call' }],
  ['tool_call_output_item', { family: 'tool', side: 'output' }],
  ['handoff_call_item', { family: 'handoff', side: 'call' }],
  ['handoff_output_item', { family: 'handoff', side: 'output' }],
  ['mcp_approval_request', { family: 'approval', side: 'call' }],
  ['mcp_approval_request_item', { family: 'approval', side: 'call' }],
  ['mcp_approval_response', { family: 'approval', side: 'output' }],
  ['mcp_approval_response_item', { family: 'approval', side: 'output' }],
])

/** Whether something else must be there for the item to be good for anything. */
function isPart({ type }: Message): boolean {
  return type === 'reasoning' || SIDES.has(type)
}

function halfOf(item: Message): Half | undefined {
  const found = SIDES.get(item.type)
  if (!found) return undefined
  const id = partnerId(item, found.family, found.side)
  return { key: typeof id === 'string' && !isPlaceholder(id) ? `${found.family} ${id}` : '', side: found.side }
}

function partnerId(item: Message, family: string, side: Half['side']): unknown {
  if (family === 'approval') return side === 'call' ? item.id : item['approval_request_id']
  // The provider's own form of this output names the call in its id.
  return family === 'local_shell_call' && side === 'output' ? (item.call_id ?? item.id) : item.call_id
}

/** Items of other conversations may come in between; items without metadata belong to the user's. */
function threadOf(item: Message): string {
  const { agent, callerAgent, parent_run_id: parentRunId } = item
  if (callerAgent == null) return ''
  const pair = (agent ?? '') < callerAgent ? [agent, callerAgent] : [callerAgent, agent]
  return JSON.stringify([...pair, parentRunId])
}
