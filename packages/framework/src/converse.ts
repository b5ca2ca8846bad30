import { InputGuardrailTripwireTriggered, OutputGuardrailTripwireTriggered, RunContext, Runner } from '#agents-core'
import type { WireItem } from '@bureau/protocol'
import type { Agent } from './agent.ts'
import { boundModel } from './bound-model.ts'
import type { Conversation } from './conversation.ts'
import { type ConversationAgent, ConversationAgents, conversationOf } from './conversation-agent.ts'
import { answerAtOnce } from './first-turn.ts'
import { guidanceOf, sayGuidance } from './guardrail-guidance.ts'
import { RunStopped } from './run-control.ts'
import type { AgencyContext } from './run-scope.ts'
import { tracedModel } from './traced-model.ts'

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
  const agents = new ConversationAgents(conversation.run.agency, (agent) =>
    tracedModel(conversation, agent, boundModel(conversation, agent)),
  )
  conversation.announceAgent()
  for (let attempt = 0; ; attempt++) {
    try {
      return await runOnce(conversation, agents.get(conversation.agent))
    } catch (error) {
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

/** The agents SDK's loop, for all runs: whatever belongs to one is found through its conversation. */
const runner = new Runner({
  modelProvider: { getModel: noModelByName },
  tracingDisabled: true,
  traceIncludeSensitiveData: false,
  toolNotFoundBehavior: 'return_error_to_model',
})
runner.on('agent_tool_start', (...[context, { name }, { name: tool }, { toolCall }]) => {
  const content = (): unknown => ('arguments' in toolCall ? toolCall.arguments : null)
  if ('callId' in toolCall) conversationOf(context).trace?.toolStarted(name, { tool, callId: toolCall.callId, content })
})
runner.on('agent_tool_end', (...[context, { name }, , result, { toolCall }]) => {
  if (!('callId' in toolCall)) return
  const conversation = conversationOf(context)
  conversation.trace?.toolEnded(name, toolCall.callId, result)
  conversation.toolReturned(toolCall.callId, result)
})
runner.on('agent_handoff', (context, from, to) => {
  const conversation = conversationOf(context)
  const reminder = conversation.run.agency.agents.get(from.name)?.handoffReminder
  conversation.handedOver(from.name, to.name, reminder)
})

async function runOnce(conversation: Conversation, agent: ConversationAgent): Promise<unknown> {
  const { signal } = conversation
  const answer = await untilAborted(answerOf(conversation, agent), signal).catch((error: unknown) => {
    // The SDK may wrap what an agent throws.
    throw conversation.mustStop ? new RunStopped('cancelled') : error
  })
  conversation.endTurn()
  return answer
}

async function answerOf(conversation: Conversation, agent: ConversationAgent): Promise<unknown> {
  const context = new RunContext<AgencyContext>(conversation)
  const input = conversation.sdkInput()
  const text = await answerAtOnce(agent, context, input)
  if (text !== undefined) return text
  const { run, signal } = conversation
  const result = await runner.run(agent, input, { context, maxTurns: run.maxTurns, signal })
  // Waiting for an approval, the SDK has no answer, and complains when it is asked for one.
  return result.interruptions?.length ? '' : (result.finalOutput ?? '')
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

function noModelByName(name?: string): never {
  throw new Error(`no model is looked up by name in a run (${name ?? ''})`)
}
