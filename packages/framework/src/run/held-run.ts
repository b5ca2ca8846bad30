import type { Message } from '@bureau/protocol'
import { advance, type CallDecision, type CallState, type ConversationState, type RunState } from './run-state.ts'

/** A run that waits, as whoever keeps no runs gets it back. */
export type HeldRun = {
  readonly state: RunState
  /** What agents have said to each other in the run, in conversations that wait. */
  readonly nested: readonly Message[]
}

/** What a person has decided about a call. */
export type HeldDecision = CallDecision & {
  readonly call_id: string
  /** Absent: the first call of this id that waits. */
  readonly agent_run_id?: string
}

export type WaitingCall = Pick<CallState, 'call_id' | 'name'> & Pick<ConversationState, 'agent_run_id'>

/** The calls that wait for a person. */
export function waitingCalls({ conversations }: RunState): WaitingCall[] {
  return Object.values(conversations).flatMap(({ calls, agent_run_id }) =>
    calls.flatMap(({ call_id, name, status }) => (status === 'waiting' ? [{ call_id, name, agent_run_id }] : [])),
  )
}

/** Nobody waits for a decision in a conversation that has gone on. */
const OVERTAKEN: CallDecision = { approved: false, reason: 'The user has sent another message instead.', arguments: null }

/**
 * The state after decisions. Those about calls that do not wait change nothing.
 *
 * @param others - `rejectOthers`: calls that nobody has decided about are rejected, because the user has gone on.
 */
export function decideCalls(
  state: RunState,
  decisions: readonly HeldDecision[],
  { rejectOthers }: { readonly rejectOthers: boolean },
): RunState {
  const left = [...decisions]
  let decided = state
  for (const conversation of Object.values(state.conversations)) {
    for (const { call_id, status } of conversation.calls) {
      if (status !== 'waiting') continue
      const at = left.findIndex((each) => isAbout(each, call_id, conversation))
      const decision = at < 0 ? rejectOthers && OVERTAKEN : left.splice(at, 1)[0]!
      if (!decision) continue
      const { approved, reason, arguments: given } = decision
      const event = { type: 'call.decided', call_id, decision: { approved, reason, arguments: given } } as const
      decided = advance(decided, conversation.id, event)
    }
  }
  return decided
}

function isAbout({ call_id, agent_run_id }: HeldDecision, callId: string, conversation: ConversationState): boolean {
  return call_id === callId && (agent_run_id === undefined || agent_run_id === conversation.agent_run_id)
}

/**
 * The run as another one goes on with it that has everything in the history of its request: no item is the run's own any more,
 * so that it ends with what it has added.
 */
export function resumeInHistory(
  { state, nested }: HeldRun,
  history: readonly Message[],
): { readonly state: RunState; readonly history: readonly Message[] } {
  const conversations = Object.values(state.conversations).map((each) => [each.id, ofHistory(each)] as const)
  const known = new Set(history.map(keyOf))
  const turns = Object.values(state.conversations).flatMap(({ turn }) => turn.map(({ item }) => item as Message))
  const missing = [...nested, ...turns.filter(({ type }) => type === 'mcp_approval_request')]
  return {
    state: { ...state, conversations: Object.fromEntries(conversations) },
    history: [...history, ...missing.filter((item) => !known.has(keyOf(item)))],
  }
}

function keyOf({ type, call_id: callId, id, agent_run_id: runId, timestamp }: Message): string {
  return JSON.stringify([type ?? 'message', callId ?? id ?? [runId, timestamp]])
}

/** What the next request sends is the whole conversation again; its places are not those of the process before. */
function ofHistory(conversation: ConversationState): ConversationState {
  return { ...conversation, given: 0, stored: [], items: 0, begun: 0, input: [[0, 0]], turn: [], opened_at: 0 }
}
