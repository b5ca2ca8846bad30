import type { WireItem } from '@bureau/protocol'
import type { CallState } from '../run/run-state.ts'
import type { Conversation } from './conversation.ts'
import { callIdOf } from './turn-items.ts'

const CALLS = new Set<unknown>(['function_call', 'mcp_approval_request'])

/** How far a call of the running turn has come. */
export function callState({ state }: Conversation, call: WireItem): CallState | undefined {
  return state.calls.find(({ call_id: id }) => id === callIdOf(call))
}

/**
 * The calls of the running turn in the model's order. Those of a turn that has waited may be in the history that the client has
 * sent.
 */
export function openCalls({ state, items, turn }: Conversation): WireItem[] {
  const ids = new Set(state.calls.map(({ call_id: id }) => id))
  const isOpen = (item: WireItem): boolean => CALLS.has(item.type) && ids.delete(callIdOf(item))
  const inTurn = turn.items.map(({ item }) => item).filter(isOpen)
  return [...items.toReversed().filter(isOpen).toReversed(), ...inTurn]
}

/** The output that a call of the running turn has; undefined while it has none. */
export function outputOf(conversation: Conversation, call: WireItem): WireItem | undefined {
  const inTurn = conversation.turn.outputOf(call)
  const status = callState(conversation, call)?.status
  if (inTurn || (status !== 'done' && status !== 'unknown')) return inTurn
  return conversation.items.findLast(({ type, call_id: id }) => type === 'function_call_output' && id === call.call_id)
}
