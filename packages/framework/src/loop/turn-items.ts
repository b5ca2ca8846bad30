import type { EventSource, WireItem } from '@bureau/protocol'
import { type ConversationState, inCallOrder } from '../run/run-state.ts'

/** An item of the running turn, not stored yet. */
export type TurnItem = {
  readonly item: WireItem
  readonly source: EventSource
  readonly timestamp: number
  readonly origin?: string | undefined
}

/** What a conversation has produced since its model was asked: it is stored when the turn ends. */
export class RunningTurn {
  #items: TurnItem[] = []

  get items(): readonly TurnItem[] {
    return this.#items
  }

  add(item: TurnItem): void {
    this.#items.push(item)
  }

  /** The output of a call; undefined while it has none. */
  outputOf({ call_id: callId }: WireItem): WireItem | undefined {
    return this.#items.find(({ item }) => item.type === 'function_call_output' && item.call_id === callId)?.item
  }

  /** All of it, in order; the next turn begins. */
  take(calls: ConversationState['calls']): TurnItem[] {
    const inOrder = inCallOrder(this.#items, calls)
    this.#items = []
    return inOrder
  }
}

/** As the run's state has it. */
export function turnItemState({ item, timestamp, origin }: TurnItem): ConversationState['turn'][number] {
  return { item, timestamp, ...(origin !== undefined && { origin }) }
}

/** The item with which a call is answered. */
export function functionOutput(call: WireItem, output: unknown): WireItem {
  return { type: 'function_call_output', call_id: call.call_id!, output }
}

/** A note of the framework's for the agents of a conversation. */
export function systemNote(text: string): WireItem {
  return { role: 'system', type: 'message', content: text }
}

/** The id of a call. A tool server of the provider names its calls by the id of their request. */
export function callIdOf({ call_id: callId, id }: WireItem): string {
  return callId ?? id ?? ''
}

/** Tells an item of a conversation apart from the others. */
export function keyOf({ type, call_id: callId, id }: WireItem): string {
  return `${type ?? 'message'} ${callId ?? id ?? ''}`
}
