import type { EventSource, WireItem } from '@bureau/protocol'
import { isToolCall } from './item-events.ts'

/** An item of the running turn, not stored yet. */
export type TurnItem = {
  readonly item: WireItem
  readonly source: EventSource
  readonly timestamp: number
  origin?: string
}

/** Tools that run at the same time finish in any order; the history has the order in which they were called. */
export function outputsInCallOrder(turn: readonly TurnItem[]): TurnItem[] {
  const calls = turn.filter(({ item }) => isToolCall(item)).map(({ item }) => item.call_id)
  const outputs = turn
    .filter(({ item }) => isOutput(item))
    .toSorted((a, b) => calls.indexOf(a.item.call_id) - calls.indexOf(b.item.call_id))
  return turn.map((entry) => (isOutput(entry.item) ? outputs.shift()! : entry))
}

export function isOutput(item: WireItem): boolean {
  return item.type?.endsWith('_output') ?? false
}

/** True for an output that is more than a text. */
export function holdsMedia({ output }: WireItem): boolean {
  return Array.isArray(output) && output.some((part) => part?.type === 'input_image' || part?.type === 'input_file')
}

/** What identifies an item across the SDK's copies of it. Items without an id have no canonical form to look up. */
export function keyOf(item: WireItem): string | undefined {
  const id = item.call_id ?? item.id
  return id === undefined ? undefined : `${item.type ?? 'message'} ${id}`
}
