import type { RunState } from '@bureau/framework'
import type { Message } from '@bureau/protocol'
import type { LogEvent, RunLogReader } from '@bureau/runtime'

/** An item of which readers have seen something. Calls are known by their call id as well. */
export type ShownItem = { readonly id: string; readonly callId: string | undefined }

/** Every item that the events of a log show, up to its last one. */
export async function readShownItems(log: Pick<RunLogReader, 'read' | 'head'>): Promise<ShownItem[]> {
  const shown = new Map<string, ShownItem>()
  const { head } = log
  if (head === 0) return []
  for await (const { first, events } of log.read(0, new AbortController().signal)) {
    for (const event of events) {
      const item = shownBy(event)
      if (item) shown.set(item.id, item)
    }
    if (first + events.length > head) break
  }
  return [...shown.values()]
}

function shownBy(event: LogEvent): ShownItem | undefined {
  if (event.type === 'item.created') return shownItem(event.item.raw_item)
  if (event.type !== 'model.event') return undefined
  if (event.kind !== 'response.output_item.added')
    return event.item_id === undefined ? undefined : { id: event.item_id, callId: undefined }
  const { item } = JSON.parse(event.json) as { item?: Readonly<Record<string, unknown>> }
  return item && shownItem(item)
}

function shownItem({ id, call_id: callId }: Readonly<Record<string, unknown>>): ShownItem | undefined {
  return typeof id === 'string' ? { id, callId: typeof callId === 'string' ? callId : undefined } : undefined
}

/** The ids of those that are not among what was recorded of the run. */
export function withdrawnOf(
  shown: readonly ShownItem[],
  { messages, state }: { readonly messages: readonly Message[]; readonly state: RunState | null },
): string[] {
  const running = Object.values(state?.conversations ?? {}).flatMap(({ turn }) => turn.map(({ item }) => item))
  const kept = new Set([...messages, ...running].flatMap(({ id, call_id: callId }) => [id, callId]))
  return shown
    .filter(({ id, callId }) => !kept.has(id) && (callId === undefined || !kept.has(callId)))
    .map(({ id }) => id)
}
