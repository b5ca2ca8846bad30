import type { AgentOutputItem, AssistantMessageItem, ModelRequest, RunContext, Tool as SdkTool } from '#agents-core'
import type { ConversationAgent } from './conversation-agent.ts'
import type { AgencyContext } from './run-scope.ts'

/** False for an agent that asks more of a turn than instructions, tools and words: the rest is the SDK's to do. */
export function isSimple(agent: ConversationAgent): boolean {
  const { bound, outputType, inputGuardrails, outputGuardrails, prompt, modelSettings } = agent
  const { retry, timeoutMs } = modelSettings
  const isGuarded = inputGuardrails.length > 0 || outputGuardrails.length > 0
  return bound.isTransport && outputType === 'text' && !isGuarded && !prompt && !retry && timeoutMs === undefined
}

/** What is kept about the tools of such types belongs to a run of the SDK. */
const SEARCHES = new Set<unknown>(['tool_search', 'programmatic_tool_calling'])

type AnyTool = SdkTool<AgencyContext> | ModelRequest['tools'][number]
type DescribedTool = Extract<SdkTool<AgencyContext>, { type: 'function' | 'hosted_tool' }>

/** True when a tool says all that a model must know of it. A namespace is no member: the SDK alone can read it. */
export function isDescribed(tool: AnyTool): tool is DescribedTool {
  if (tool.type === 'hosted_tool') return !SEARCHES.has(tool.providerData?.['type'])
  return tool.type === 'function' && Object.getOwnPropertySymbols(tool).length === 0
}

/** A turn's request as the SDK would make it. Undefined: it must. */
export async function simpleRequest(
  agent: ConversationAgent,
  runContext: RunContext<AgencyContext>,
): Promise<Omit<ModelRequest, 'input'> | undefined> {
  if (!isSimple(agent)) return undefined
  const { instructions, tools, handoffs } = await agent.prepare(runContext)
  const names = [...tools.map(({ name }) => name), ...handoffs.map(({ toolName }) => toolName)]
  // Of two tools with one name the SDK chooses one.
  if (!tools.every(isDescribed) || new Set(names).size < names.length) return undefined
  return {
    ...(instructions !== undefined && { systemInstructions: instructions }),
    modelSettings: agent.modelSettings,
    tools,
    outputType: 'text',
    handoffs,
    tracing: false,
  }
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
