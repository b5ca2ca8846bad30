import type { AgentOutputItem, AssistantMessageItem, ModelRequest, RunContext, Tool as SdkTool } from '#agents-core'
import type { ConversationAgent } from './conversation-agent.ts'
import type { AgencyContext } from './agency/run-context.ts'

/** False: the agent has a model, a prompt or settings with which the SDK does more than make a request. */
function isPlain({ bound, prompt, modelSettings: { retry, timeoutMs } }: ConversationAgent): boolean {
  return bound.isTransport && !prompt && !retry && timeoutMs === undefined
}

/** True when an answer in words is the end of the conversation: it has no structure, and nobody checks it. */
export function endsWithWords({ outputType, outputGuardrails }: ConversationAgent): boolean {
  return outputType === 'text' && outputGuardrails.length === 0
}

/** Whether a request of the SDK may be made when its run has ended. */
export function canBeKept(agent: ConversationAgent, request: ModelRequest): boolean {
  const isGuardedMeanwhile = agent.inputGuardrails.some(({ runInParallel }) => runInParallel !== false)
  return isPlain(agent) && endsWithWords(agent) && !isGuardedMeanwhile && request.tools.every(isDescribed)
}

/** What is kept about the tools of such types belongs to a run of the SDK. */
const SEARCHES = new Set<unknown>(['tool_search', 'programmatic_tool_calling'])

type AnyTool = SdkTool<AgencyContext> | ModelRequest['tools'][number]
type DescribedTool = Extract<SdkTool<AgencyContext>, { type: 'function' | 'hosted_tool' }>

/** True when a tool says all that a model must know of it. A namespace is no member: the SDK alone can read it. */
function isDescribed(tool: AnyTool): tool is DescribedTool {
  if (tool.type === 'hosted_tool') return !SEARCHES.has(tool.providerData?.['type'])
  return tool.type === 'function' && !tool.deferLoading && Object.getOwnPropertySymbols(tool).length === 0
}

/** The first request of a conversation, as the SDK would make it. Undefined: it must. */
export async function firstRequest(
  agent: ConversationAgent,
  runContext: RunContext<AgencyContext>,
): Promise<Omit<ModelRequest, 'input'> | undefined> {
  const format = formatOf(agent)
  if (!isPlain(agent) || agent.inputGuardrails.length > 0 || !format) return undefined
  const { instructions, tools, handoffs } = await agent.prepare(runContext)
  const names = [...tools.map(({ name }) => name), ...handoffs.map(({ toolName }) => toolName)]
  // Of two tools with one name the SDK chooses one.
  if (!tools.every(isDescribed) || new Set(names).size < names.length) return undefined
  return {
    ...(instructions !== undefined && { systemInstructions: instructions }),
    modelSettings: agent.modelSettings,
    tools,
    outputType: format,
    handoffs,
    tracing: false,
  }
}

/** Only the SDK can write the schema of a structured answer, so it makes the first request for each. */
const formats = new WeakMap<object, ModelRequest['outputType']>()

function formatOf({ outputType }: ConversationAgent): ModelRequest['outputType'] | undefined {
  return outputType === 'text' ? outputType : formats.get(outputType)
}

export function learnFormat({ outputType }: ConversationAgent, request: ModelRequest): void {
  if (outputType !== 'text') formats.set(outputType, request.outputType)
}

/** The answer of a response that is words alone; undefined when it has anything else, and so something to be done. */
export function wordsOf(output: readonly AgentOutputItem[]): string | undefined {
  if (!output.every(({ type }) => type === 'message' || type === 'reasoning')) return undefined
  const texts = output.flatMap((item) => (item.type === 'message' && item.role === 'assistant' ? [textOf(item)] : []))
  // As the SDK reads it: thoughts may stand between the parts of an answer; without them the last message is the answer.
  return output.some(({ type }) => type === 'reasoning') ? texts.join('') : (texts.at(-1) ?? '')
}

function textOf({ content }: AssistantMessageItem): string {
  return content.map((part) => (part.type === 'output_text' ? part.text : '')).join('')
}
