import { InputGuardrailTripwireTriggered, OutputGuardrailTripwireTriggered } from '#agents-core'
import type { WireItem } from '@bureau/protocol'
import type { Agent } from '../agency/agent.ts'
import type { Conversation } from './conversation.ts'
import { ConversationAgents } from './prepare-turn.ts'
import { guidanceOf, sayGuidance } from './guardrails.ts'
import { RunStopped } from '../run/run-control.ts'
import { takeTurns } from '../turns.ts'

/**
 * Lets a conversation's agent work on what it has received until it has an answer.
 *
 * @returns The final output: text, or an object when the answering agent has a structured output type.
 * @throws ModelError, the guardrail and turn-limit errors of the agents SDK, or the reason of the run's signal.
 */
export async function converse(conversation: Conversation): Promise<unknown> {
  try {
    const answer = await untilAnswered(conversation)
    conversation.trace?.leave()
    return answer
  } catch (error) {
    conversation.trace?.leave(error)
    throw error
  }
}

async function untilAnswered(conversation: Conversation): Promise<unknown> {
  const first = conversation.run.agency.agents.get(conversation.agent)!
  const agents = new ConversationAgents(conversation)
  conversation.announceAgent()
  for (let attempt = 0; ; attempt++) {
    try {
      const answer = await untilAborted(takeTurns(conversation, agents), conversation.signal)
      conversation.endTurn()
      return answer
    } catch (thrown) {
      // The SDK may wrap what an agent throws.
      const error = conversation.mustStop ? new RunStopped('cancelled') : thrown
      conversation.endTurn()
      if (error instanceof InputGuardrailTripwireTriggered) return answerGuardrail(conversation, first, error)
      const answering = conversation.run.agency.agents.get(conversation.agent)!
      const again = error instanceof OutputGuardrailTripwireTriggered && attempt < answering.validationAttempts
      if (!again) throw error
      conversation.receive([systemNote(guidanceOf(error))], 'output_guardrail_error')
      conversation.enter(conversation.agent)
    }
  }
}

/** The guidance becomes the answer, unless the agent asked for an error. */
function answerGuardrail(conversation: Conversation, agent: Agent, error: InputGuardrailTripwireTriggered): string {
  const guidance = guidanceOf(error)
  if (!agent.raiseInputGuardrailError) return sayGuidance(conversation, guidance)
  conversation.receive([systemNote(guidance)], 'input_guardrail_error')
  conversation.emit({ type: 'error', content: guidance })
  throw error
}

function systemNote(text: string): WireItem {
  return { role: 'system', content: text }
}

/** A tool may ignore its signal; the run does not wait for it. */
async function untilAborted<T>(working: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const abort = (): void => reject(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  try {
    return await Promise.race([working, promise])
  } catch (error) {
    working.catch(() => {})
    promise.catch(() => {})
    signal.throwIfAborted()
    throw error
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
