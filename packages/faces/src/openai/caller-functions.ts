import type { CallerFunction, CallerOptions } from '@bureau/framework'
import { z } from 'zod'
import { invalidParam, unsupportedParam } from './api-error.ts'
import type { Target } from './select-agent.ts'

export const MAX_FUNCTIONS = 128

/** What models take as the name of a function. */
export const FunctionName = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, _ or -')

/** A JSON Schema of an object. */
export const Parameters = z.looseObject({})

/** The members of a function that the caller carries out, wherever an API has them. */
export const FUNCTION_MEMBERS = {
  name: FunctionName,
  description: z.string().nullish(),
  parameters: Parameters.nullish(),
  strict: z.boolean().nullish(),
}
type GivenFunction = z.output<z.ZodObject<typeof FUNCTION_MEMBERS>>

/** What type a tool of the request must have. */
export const FunctionType = z.literal('function', 'only function tools are taken: the agent has its own')

export const ChoiceMode = z.enum(['none', 'auto', 'required'])
export const AllowedMode = z.enum(['auto', 'required'])

/** The members of a JSON Schema for the answer, wherever an API has them. */
export const FORMAT_MEMBERS = { name: FunctionName, schema: z.looseObject({}), strict: z.boolean().nullish() }

/** Members that both APIs have, and that mean the same in both. */
export const COMMON_MEMBERS = {
  model: z.string().max(512).nullish().describe('An agency, or agency/agent.'),
  stream: z.boolean().nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  user: z.string().max(1_024).nullish().describe('Of the platform: the consumer that is charged.'),
  user_context: z
    .record(z.string(), z.unknown())
    .nullish()
    .describe('Readable by the agents’ tools; never in the prompt.'),
}

/** Which of the functions may or must be called, as the Responses API has it. `allowed_tools` restricts what is offered. */
type GivenChoice =
  | z.output<typeof ChoiceMode>
  | { readonly type: 'function'; readonly name: string }
  | {
      readonly type: 'allowed_tools'
      readonly mode: z.output<typeof AllowedMode>
      readonly tools: readonly { readonly name: string }[]
    }

/** What a request of either API asks of the model of the addressed agent. */
type GivenOptions = {
  readonly tools?: readonly GivenFunction[] | null | undefined
  readonly tool_choice?: GivenChoice | null | undefined
  readonly parallel_tool_calls?: boolean | null | undefined
  readonly maxOutputTokens: number | null | undefined
  readonly format:
    | { readonly type: 'text' | 'json_object' }
    | ({ readonly type: 'json_schema' } & z.output<z.ZodObject<typeof FORMAT_MEMBERS>>)
    | null
    | undefined
  /** The member of the request that has the format, for refusals. */
  readonly formatParam: string
}

/**
 * What an agent is given of what a request asks for.
 *
 * @throws ApiError 400: two functions share a name, one has a name of the agent's own, the choice names a function that is missing, or
 *   the agent's own form of answers would be replaced.
 */
export function callerOptionsOf(given: GivenOptions, target: Target): CallerOptions {
  const { tools, tool_choice: choice, parallel_tool_calls: parallel, maxOutputTokens, format } = given
  if (format && format.type !== 'text') requireNoOwnFormat(target, given.formatParam)
  return {
    ...offeredFunctions(tools ?? [], choice ?? 'auto', target),
    ...(parallel != null && { parallelCalls: parallel }),
    ...(maxOutputTokens != null && { maxOutputTokens }),
    ...(format?.type === 'json_object' && { format: { type: 'json_object' } }),
    ...(format?.type === 'json_schema' && { format: { ...format, strict: format.strict ?? false } }),
  }
}

const NO_PARAMETERS = { type: 'object', properties: {} } as const

function offeredFunctions(
  given: readonly GivenFunction[],
  choice: GivenChoice,
  target: Target,
): Pick<CallerOptions, 'functions' | 'functionChoice'> {
  requireUsableNames(given, target)
  const { mode, names } = readChoice(choice)
  const unknown = names?.find((name) => !given.some((each) => each.name === name))
  if (unknown !== undefined) throw invalidParam('tool_choice', `there is no function "${unknown}" among the tools`)
  if (mode === 'required' && given.length === 0) {
    throw invalidParam('tool_choice', 'demands a call, and there are no tools')
  }
  const offered = names ? given.filter(({ name }) => names.includes(name)) : given
  if (mode === 'none' || offered.length === 0) return {}
  const only = offered.length === 1 && mode === 'required' ? offered[0]!.name : mode
  return { functions: offered.map(asCallerFunction), ...(mode === 'required' && { functionChoice: only }) }
}

type Choice = {
  readonly mode: z.output<typeof ChoiceMode>
  /** The only one, or those of `allowed_tools`; undefined: all. */
  readonly names?: readonly string[]
}

function readChoice(choice: GivenChoice): Choice {
  if (typeof choice === 'string') return { mode: choice }
  if (choice.type === 'function') return { mode: 'required', names: [choice.name] }
  return { mode: choice.mode, names: choice.tools.map(({ name }) => name) }
}

function asCallerFunction({ name, description, parameters, strict }: GivenFunction): CallerFunction {
  return { name, description: description ?? '', parameters: parameters ?? NO_PARAMETERS, strict: strict ?? false }
}

function requireUsableNames(given: readonly GivenFunction[], { served, agent: name }: Target): void {
  if (given.length === 0) return
  const agent = served.agency.agents.get(name)!
  const own = new Set([
    ...agent.tools.map((tool) => tool.name),
    ...served.agency.messageToolsOf(name).map((tool) => tool.name),
    ...served.agency.handoffsFrom(name).map(({ toolName }) => toolName),
  ])
  const seen = new Set<string>()
  for (const [index, { name: each }] of given.entries()) {
    if (own.has(each)) throw invalidParam(`tools[${index}]`, `the agent ${name} has a tool "${each}" of its own`)
    if (seen.has(each)) throw invalidParam(`tools[${index}]`, `there are two functions named "${each}"`)
    seen.add(each)
  }
}

/** @throws ApiError 400: the agent's own form cannot be replaced. */
function requireNoOwnFormat({ served, agent }: Target, param: string): void {
  if (served.agency.agents.get(agent)!.outputType === 'text') return
  throw unsupportedParam(param, `the agent ${agent} has a structured answer of its own; leave this out`)
}
