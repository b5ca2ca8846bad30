import { type AgentInputItem, type ModelSettings, RunContext } from '#agents-core'
import type { ConversationAgent } from './conversation-agent.ts'
import type { ConversationAgents } from './conversation-agents.ts'
import type { Conversation } from './conversation.ts'
import { limitedText } from './limited-output.ts'
import { ApprovalRequired } from './run-failure.ts'
import type { AgencyContext } from './run-scope.ts'
import { runner } from './sdk-runner.ts'
import { endsWithWords, firstRequest, wordsOf } from './simple-turn.ts'

/**
 * Lets the agents of a conversation take turns until one of them has answered.
 *
 * The agents SDK carries out what models call, and checks what they answer. A run of it keeps 25 KB while a model is
 * silent, and costs more CPU than all the rest of a plain answer (docs/performance.md). So the model is asked while no
 * run waits: one begins with an answer that is more than words, and ends at the next request. What only a longer run can
 * do stays with the SDK (simple-turn.ts).
 *
 * @returns The final output.
 * @throws ApprovalRequired a tool waits for an approval.
 */
export async function takeTurns(conversation: Conversation, agents: ConversationAgents): Promise<unknown> {
  const { signal } = conversation
  const context = new RunContext<AgencyContext>(conversation)
  let agent = agents.get(conversation.agent)
  let input: string | AgentInputItem[] = conversation.sdkInput()
  let request = await firstRequest(agent, context)
  const called = new Set<ConversationAgent>()
  for (let maxTurns = conversation.run.maxTurns; ; maxTurns--) {
    if (request) {
      const modelSettings = called.has(agent) ? settingsAfterCall(agent) : request.modelSettings
      const answer = await agent.ask({ ...request, modelSettings, input, signal })
      signal.throwIfAborted()
      const words = endsWithWords(agent) ? wordsOf(answer.output) : undefined
      if (words !== undefined) return words
      called.add(agent)
      agent.beginWith(answer)
    }
    const output = await runSdk(agent, input, { context, maxTurns, signal })
    const kept = agents.takeKept()
    if (!kept) return output
    agent = kept.agent
    request = kept.request
    input = kept.request.input
  }
}

type SdkRun = { readonly context: RunContext<AgencyContext>; readonly maxTurns: number; readonly signal: AbortSignal }

/** A function of its own, because one that waits for a model would keep all that the run has come to. */
async function runSdk(agent: ConversationAgent, input: string | AgentInputItem[], options: SdkRun): Promise<unknown> {
  const result = await runner.run(agent, input, options)
  // Waiting for an approval, the SDK has no answer, and complains when it is asked for one.
  if (result.interruptions?.length) throw new ApprovalRequired(result.interruptions.map(({ name }) => name ?? ''))
  const { finalOutput = '' } = result
  // Then it is what a tool has returned.
  const isOfTool = agent.toolUseBehavior !== 'run_llm_again'
  return isOfTool && typeof finalOutput === 'string' ? limitedText(finalOutput) : finalOutput
}

/** An agent that is handed back to need not call again what it must call once; the SDK knows its own run only. */
function settingsAfterCall({ modelSettings, resetToolChoice }: ConversationAgent): ModelSettings {
  const { toolChoice, ...others } = modelSettings
  return resetToolChoice && toolChoice !== 'none' ? others : modelSettings
}
