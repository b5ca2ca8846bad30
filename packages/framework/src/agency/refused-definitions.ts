import { ConfigError } from '@bureau/protocol'
import { isLanguageModel } from './language-model.ts'

/** Members of a hosted tool's `providerData.type` that stand for work on the server's own machine. */
const LOCAL_WORK: Readonly<Record<string, string>> = {
  computer: 'computer use',
  shell: 'a shell',
  apply_patch: 'patches',
  local_shell: 'a shell',
}

/** What is wrong with a tool as it is listed. */
export function problemOfTool(tool: unknown): string | undefined {
  if (typeof tool === 'function') {
    if (/^class\b/.test(String(tool))) return undefined
    return `is a function. Make it a tool: ${A_TOOL}`
  }
  if (!isObject(tool)) return `is ${shown(tool)}, not a tool. Make one by tool({ … })`
  if (isAgent(tool))
    return `is the agent "${String(tool['name'])}". Connect agents by the flows of their agency: flows: [[sender, recipient]]`
  // Other SDKs make such objects, which have no name.
  return typeof tool['type'] === 'string' ? undefined : `is an object that tool() has not made. Write ${A_TOOL}`
}

const A_TOOL = 'tool({ name: "…", description: "…", parameters: z.object({ … }), execute: … })'

/** What is wrong with whom an agent hands over to. */
export function problemOfHandoff(target: unknown): string | undefined {
  if (!isObject(target)) return `is ${shown(target)}, not an Agent. Write the variable that holds the agent`
  return isAgent(target) || 'toolName' in target ? undefined : `is an object, not an Agent: new Agent({ … })`
}

/** What is wrong with a tool server of an agent. */
export function problemOfServer(server: unknown): string | undefined {
  if (isObject(server)) return undefined
  return `is ${shown(server)}, not a tool server. Write new MCPServerStreamableHttp({ name, url }) or new MCPServerStdio({ name, command })`
}

/** Of this package or of `@openai/agents`. */
const isAgent = (value: Readonly<Record<string, unknown>>): boolean => 'instructions' in value && 'handoffs' in value

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null

function shown(value: unknown): string {
  if (typeof value === 'function') return 'a function'
  return typeof value === 'string' ? JSON.stringify(value) : String(value)
}

/**
 * Refuses by name what could only be ignored or fail in the middle of a run.
 *
 * @throws ConfigError a tool or the model of the agent cannot be used; every problem is listed.
 */
export function requireUsableTools(agent: {
  readonly name: string
  readonly tools: readonly object[]
  readonly model: string | object
}): void {
  const { name, tools, model } = agent
  const problems = [...tools.map(problemOfUse), problemOfModel(model)].filter((problem) => problem !== undefined)
  if (problems.length > 0) throw new ConfigError(problems.map((problem) => `Agent "${name}": ${problem}.`).join('\n'))
}

const UNUSABLE_MODEL =
  'the model object cannot be used. Give the name of a model, a language model of the AI SDK, or an object with name and request()'

/** Why a tool cannot be called, classes being functions by now. */
export function problemOfUse(tool: object): string | undefined {
  const { type, name, deferLoading, providerData, invoke, on } = tool as Readonly<Record<string, unknown>>
  const called = `the tool "${String(name)}"`
  if (type === 'function') {
    if (typeof invoke !== 'function') return `${called} has no invoke()`
    if (typeof on === 'function') return `${called} is an agent as a tool; use a flow of messages to that agent`
    if (deferLoading === true) return `${called} defers its loading, which needs a tool search; leave deferLoading out`
    if (Object.getOwnPropertySymbols(tool).some(({ description }) => /namespace/i.test(description ?? ''))) {
      return `${called} is in a namespace, which needs a tool search; list it by itself`
    }
    return undefined
  }
  if (type === 'hosted_tool') {
    const hosted = (providerData as { type?: unknown } | undefined)?.type
    if (hosted === 'tool_search') return `${called} is a tool search; list the tools themselves`
    if (hosted === 'programmatic_tool_calling') return `${called} calls tools by programs, which is not supported`
    return undefined
  }
  const work = LOCAL_WORK[String(type)]
  return work === undefined
    ? `${called} is of the unknown type "${String(type)}"`
    : `${called} needs ${work}, which is not supported; use a function tool that does the work`
}

/** Why a value cannot be a model, in words that follow a name and a colon. */
export function problemOfModel(model: unknown): string | undefined {
  if (typeof model === 'string') return undefined
  if (typeof model !== 'object' || model === null) return 'must be the name of a model, or a model object'
  const isUsable = typeof (model as { request?: unknown }).request === 'function' || isLanguageModel(model)
  return isUsable ? undefined : UNUSABLE_MODEL
}
