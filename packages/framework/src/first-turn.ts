import type {
  AgentInputItem,
  AgentOutputItem,
  AssistantMessageItem,
  Model,
  ModelRequest,
  RunContext,
  Tool as SdkTool,
} from '#agents-core'
import { modelTraits } from './bound-model.ts'
import { type ConversationAgent, conversationOf, type Preparation } from './conversation-agent.ts'
import type { AgencyContext } from './run-scope.ts'

type DescribedTool = Extract<SdkTool<AgencyContext>, { type: 'function' | 'hosted_tool' }>

/**
 * Asks an agent's model before the agents SDK is involved. Most conversations end with the first answer, and the SDK's
 * loop would cost more than all the rest of them: CPU for the run, memory as long as the model is silent
 * (docs/performance.md).
 *
 * @returns The answer, when it is text and nothing else. Undefined: the SDK must go on, with the same context and input;
 * what is prepared and answered already is not done again.
 */
export async function answerAtOnce(
  agent: ConversationAgent,
  context: RunContext<AgencyContext>,
  input: AgentInputItem[],
): Promise<string | undefined> {
  const conversation = conversationOf(context)
  if (!isSimple(agent) || !modelTraits(conversation, agent.name).isTransport) return undefined
  const request = requestOf(agent, await agent.prepare(context))
  if (!request) return undefined
  const model = agent.model as Model
  const response = await model.getResponse({ ...request, input, signal: conversation.signal })
  conversation.signal.throwIfAborted()
  if (response.output.every(isWords)) return textOf(response.output)
  agent.answered(response)
  return undefined
}

/** Everything else that an agent may ask of a turn is the SDK's to do. */
function isSimple({
  outputType,
  inputGuardrails,
  outputGuardrails,
  prompt,
  modelSettings,
}: ConversationAgent): boolean {
  const { retry, timeoutMs } = modelSettings
  const isGuarded = inputGuardrails.length > 0 || outputGuardrails.length > 0
  return outputType === 'text' && !isGuarded && !prompt && !retry && timeoutMs === undefined
}

/** Undefined: a tool needs more than to be described, or two have one name. */
function requestOf(agent: ConversationAgent, prepared: Preparation): Omit<ModelRequest, 'input'> | undefined {
  const { instructions, handoffs } = prepared
  const tools = prepared.tools.filter(isDescribed)
  const names = [...tools.map(({ name }) => name), ...handoffs.map(({ toolName }) => toolName)]
  if (tools.length < prepared.tools.length || new Set(names).size < names.length) return undefined
  return {
    ...(instructions !== undefined && { systemInstructions: instructions }),
    modelSettings: agent.modelSettings,
    tools,
    outputType: 'text',
    handoffs,
    tracing: false,
  }
}

/** True when a tool says all that a model must know of it. A namespace is no member: the SDK alone can read it. */
function isDescribed(tool: SdkTool<AgencyContext>): tool is DescribedTool {
  if (tool.type === 'hosted_tool') return tool.providerData?.['type'] !== 'tool_search'
  return tool.type === 'function' && Object.getOwnPropertySymbols(tool).length === 0
}

function isWords({ type }: AgentOutputItem): boolean {
  return type === 'message' || type === 'reasoning'
}

/** As the SDK reads it: thoughts may stand between the parts of an answer; without them the last message is the answer. */
function textOf(output: readonly AgentOutputItem[]): string {
  const texts = output.flatMap((item) =>
    item.type === 'message' && item.role === 'assistant' ? [spokenText(item)] : [],
  )
  return output.some(({ type }) => type === 'reasoning') ? texts.join('') : (texts.at(-1) ?? '')
}

function spokenText({ content }: AssistantMessageItem): string {
  return content.map((part) => (part.type === 'output_text' ? part.text : '')).join('')
}
