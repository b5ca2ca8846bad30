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

function isOutput(item: WireItem): boolean {
  return item.type?.endsWith('_output') ?? false
}

/** The item with which a call is answered. */
export function functionOutput(call: WireItem, output: unknown): WireItem {
  return { type: 'function_call_output', call_id: call.call_id!, output }
}

/** A note of the framework's for the agents of a conversation. */
export function systemNote(text: string): WireItem {
  return { role: 'system', type: 'message', content: text }
}
