import type { WireItem } from '@bureau/protocol'
import { createRunContext, type RunContext } from '../agency/run-context.ts'
import { parseOutput } from '../agency/output-format.ts'
import { CallSuspended } from '../agency/function-tool.ts'
import { invalidAnswer, ModelError } from '../models/model-error.ts'
import { untilAborted } from '../models/retries.ts'
import { GuardrailTripped, RunFailed, RunStopped } from '../run/run-errors.ts'
import { describeFailure, errorCodeOf } from '../run/run-failure.ts'
import type { CallBinding } from '../run/advance-run.ts'
import type { CallState } from '../run/run-state.ts'
import { abandonCalls, carryOutCalls, functionNamed, returned } from './carry-out-calls.ts'
import { answerText } from './ask-agent.ts'
import type { Conversation } from './conversation.ts'
import { answerWithGuidance, checkInput, checkOutput } from './guardrails.ts'
import { handOver } from './hand-over.ts'
import { openCalls } from './open-calls.ts'
import { type PreparedTurn, prepareTurn } from './prepare-turn.ts'
import { type ReadResponse, readResponse } from './read-response.ts'
import { requestModel } from './request-model.ts'
import { callIdOf, functionOutput } from './turn-items.ts'

/**
 * Lets the agents of a conversation take turns until one of them has answered.
 *
 * @returns The final output: text, or an object when the answering agent has a structured output type.
 * @throws ModelError, GuardrailTripped, RunFailed, or the reason of the run's signal. CallSuspended: it waits for a person.
 */
export async function runConversation(conversation: Conversation): Promise<unknown> {
  conversation.begin()
  try {
    // A tool may ignore its signal: the run does not wait for it.
    const answer = await untilAborted(takeTurns(conversation), conversation.signal)
    conversation.endTurn()
    conversation.advance({ type: 'answered', outcome: isNested(conversation) ? answerText(answer) : null })
    conversation.trace?.leave(null)
    return answer
  } catch (thrown) {
    if (thrown instanceof CallSuspended && !conversation.mustStop) {
      suspend(conversation)
      throw thrown
    }
    const error = conversation.mustStop ? new RunStopped('cancelled') : thrown
    abandonCalls(conversation)
    conversation.endTurn()
    conversation.advance({ type: 'failed', outcome: isNested(conversation) ? describeFailure(error).message : null })
    conversation.trace?.leave(errorCodeOf(error))
    throw error
  }
}

/** The turn is not over: what it has produced stays in the run's state until the run goes on. */
function suspend(conversation: Conversation): void {
  const { state, turn, trace } = conversation
  turn.take(state.calls)
  conversation.advance({ type: 'suspended' })
  trace?.leave(null)
}

async function takeTurns(conversation: Conversation): Promise<unknown> {
  const context = createRunContext(conversation, () => conversation.run.usage)
  try {
    for (;;) {
      const turn = await takeTurn(conversation, context)
      if (turn.isAnswered) return turn.answer
    }
  } catch (error) {
    if (!(error instanceof GuardrailTripped) || error.side === 'output') throw error
    conversation.endTurn()
    return answerWithGuidance(conversation, error)
  }
}

type Turn = { readonly isAnswered: false } | { readonly isAnswered: true; readonly answer: unknown }

const GO_ON: Turn = { isAnswered: false }

/** One turn: the agent in control is asked once, and what it asks for is carried out. */
async function takeTurn(conversation: Conversation, context: RunContext): Promise<Turn> {
  const { turn, response } = await (conversation.state.phase === 'calling' ? askedBefore : ask)(conversation, context)
  if (response.kind === 'answer') return acceptAnswer(conversation, context, response.text)
  const outcome = await carryOutCalls(conversation, turn, response)
  if (outcome.isHeld) throw new CallSuspended()
  if (outcome.left.length > 0) return leaveToCaller(conversation, outcome.left, response.handoffs)
  if (response.handoffs.length > 0) {
    await handOver(conversation, turn, response.handoffs)
    return GO_ON
  }
  // An answer that was given before the user has said more answers nothing.
  if (outcome.answer !== undefined && conversation.later.length === 0)
    return acceptAnswer(conversation, context, outcome.answer)
  conversation.endTurn()
  conversation.advance({ type: 'turn.ended' })
  return GO_ON
}

type Asked = { readonly turn: PreparedTurn; readonly response: ReadResponse }

async function ask(conversation: Conversation, context: RunContext): Promise<Asked> {
  const { maxTurns } = conversation.run
  if (conversation.state.turns >= maxTurns) {
    throw new RunFailed('max_turns_exceeded', { cause: new Error(`maxTurns is ${maxTurns}`) })
  }
  conversation.receive(conversation.later.splice(0))
  const inputIsGood = await checkInput(conversation, context)
  const turn = await prepareTurn(conversation, context)
  conversation.advance({ type: 'asked' })
  const response = readResponse(turn, await requestModel(conversation, turn))
  await inputIsGood()
  conversation.signal.throwIfAborted()
  if (response.kind === 'calls') conversation.responded(bindingsOf(turn, response))
  return { turn, response }
}

/** The model has answered in the process before. @throws RunFailed the agency has no longer what is called. */
async function askedBefore(conversation: Conversation, context: RunContext): Promise<Asked> {
  takeCallersOutputs(conversation)
  const { calls } = conversation.state
  const turn = await prepareTurn(conversation, context)
  const response = readResponse(turn, openCalls(conversation))
  const bindings = response.kind === 'calls' ? bindingsOf(turn, response) : []
  const isThere = ({ call_id: id, binding, status }: CallState): boolean =>
    binding === 'none' || status === 'done' || bindings.some((each) => each.call_id === id && each.binding === binding)
  if (!calls.every(isThere)) throw new RunFailed('agency_changed')
  return { turn, response }
}

/** While the turn waited for a person, its caller may have carried out the functions that were called beside. */
function takeCallersOutputs(conversation: Conversation): void {
  for (const { call_id, binding, status } of conversation.state.calls) {
    const isAnswered = conversation.knows({ type: 'function_call_output', call_id })
    if (binding === 'function' && status === 'pending' && isAnswered)
      conversation.advance({ type: 'call.ended', call_id, status: 'done' })
  }
}

/** The caller's functions are the last thing that happens in a run. */
async function leaveToCaller(
  conversation: Conversation,
  calls: readonly WireItem[],
  handoffs: (ReadResponse & { readonly kind: 'calls' })['handoffs'],
): Promise<Turn> {
  for (const { call } of handoffs) await returned(conversation, call, functionOutput(call, NOT_HANDED_OVER))
  conversation.run.leftToCaller.push(...calls.map(({ call_id: id }) => id!))
  return { isAnswered: true, answer: null }
}

const NOT_HANDED_OVER = 'Not carried out: functions of the caller were called in this turn.'

/** Which of the agent's functions each call is for. */
function bindingsOf(
  turn: PreparedTurn,
  { calls, handoffs, hosted }: ReadResponse & { readonly kind: 'calls' },
): CallBinding[] {
  const describe = (call: WireItem, binding: Pick<CallBinding, 'binding' | 'repeatable'>): CallBinding => ({
    call_id: callIdOf(call),
    name: String(call['name']),
    ...binding,
  })
  return [
    ...calls.map((call) => {
      const tool = functionNamed(turn, String(call['name']))
      return describe(call, { binding: tool ? 'function' : 'none', repeatable: tool?.repeatable ?? false })
    }),
    ...handoffs.map(({ call }) => describe(call, { binding: 'handoff', repeatable: false })),
    ...hosted.map((call) => describe(call, { binding: 'hosted', repeatable: false })),
  ]
}

const isNested = ({ callerAgent }: Conversation): boolean => callerAgent !== null

/** An answer that an output guardrail refuses is tried again, as often as the agent allows. */
async function acceptAnswer(conversation: Conversation, context: RunContext, text: string): Promise<Turn> {
  const agent = conversation.agentInControl
  const answer = await parsed(conversation, text)
  try {
    await checkOutput(conversation, context, answer)
    return { isAnswered: true, answer }
  } catch (error) {
    const mayTryAgain = conversation.state.refused_answers < agent.validationAttempts
    if (!(error instanceof GuardrailTripped) || !mayTryAgain) throw error
    conversation.endTurn()
    conversation.receive([{ role: 'system', content: error.guidance }], 'output_guardrail_error')
    conversation.beginAgain()
    await conversation.run.commit()
    return GO_ON
  }
}

/** @throws ModelError the answer does not have the structure that was asked for, perhaps because a limit has cut it. */
async function parsed({ agentInControl, turn }: Conversation, text: string): Promise<unknown> {
  try {
    return await parseOutput(agentInControl.outputType, text)
  } catch (cause) {
    const isCut = turn.items.some(({ item }) => item.type === 'message' && item['status'] === 'incomplete')
    throw isCut
      ? new ModelError('response_incomplete', { detail: 'half a structure', cause })
      : invalidAnswer('the answer does not fit its output type', cause)
  }
}
