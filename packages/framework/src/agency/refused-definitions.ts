import { ConfigError } from '@bureau/protocol'
import { isLanguageModel } from './language-model.ts'

/** Members of a hosted tool's `providerData.type` that stand for work on the server's own machine. */
const LOCAL_WORK: Readonly<Record<string, string>> = {
  computer: 'computer use',
  shell: 'a shell',
  apply_patch: 'patches',
  local_shell: 'a shell',
}

/**
 * Refuses by name what could only be ignored or fail in the middle of a run.
 *
 * @throws ConfigError a tool or the model of the agent cannot be used.
 */
export function requireUsableTools(agent: {
  readonly name: string
  readonly tools: readonly unknown[]
  readonly model: string | object
}): void {
  const { name, tools, model } = agent
  for (const tool of tools) {
    const problem = problemOf(tool)
    if (problem !== undefined) throw new ConfigError(`Agent "${name}": ${problem}.`)
  }
  if (typeof model !== 'string' && !isUsableModel(model)) {
    throw new ConfigError(
      `Agent "${name}": the model object cannot be used. Give the name of a model, a language model of the AI SDK, or an ` +
        'object with name and request().',
    )
  }
}

function problemOf(tool: unknown): string | undefined {
  if (typeof tool !== 'object' || tool === null) return 'one of its tools is not an object'
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

function isUsableModel(model: object): boolean {
  return typeof (model as { request?: unknown }).request === 'function' || isLanguageModel(model)
}
