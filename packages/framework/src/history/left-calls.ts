import { type Message, type WireItem, withoutMetadata } from '@bureau/protocol'

const REFUSAL = 'Not carried out: the user has sent another message instead.'

/**
 * Outputs for the calls that the last run has left to a person or to its caller, and that nobody has decided about: the model must
 * know that they were not carried out. What was being made when a run ended has an output. What an agent of ours has called is
 * meant, since all else of a history is as it was made.
 *
 * @param next - What the user says now; it may hold the outputs.
 */
export function answersToLeftCalls(thread: readonly Message[], next: readonly WireItem[]): WireItem[] {
  const turn = thread.slice(thread.findLastIndex(({ role }) => role === 'user') + 1)
  const calls = turn.filter(({ type, agent_run_id: run }) => run !== undefined && CALLS.has(type))
  if (calls.length === 0) return []
  const answered = new Set(
    [...turn.map(withoutMetadata), ...next].filter(({ type }) => ANSWERS.has(type)).map(answeredId),
  )
  return calls.filter((call) => !answered.has(callId(call))).map(refusal)
}

const CALLS = new Set<unknown>(['function_call', 'mcp_approval_request'])
const ANSWERS = new Set<unknown>(['function_call_output', 'mcp_approval_response'])

function callId({ type, call_id: id, id: requestId }: Message): unknown {
  return type === 'function_call' ? id : requestId
}

function answeredId({ call_id: id, approval_request_id: requestId }: WireItem): unknown {
  return id ?? requestId
}

function refusal({ type, call_id, id }: Message): WireItem {
  if (type === 'function_call') return { type: 'function_call_output', call_id: call_id!, output: REFUSAL }
  return { type: 'mcp_approval_response', approval_request_id: id, approve: false, reason: REFUSAL }
}
