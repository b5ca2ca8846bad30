import type { CallerFunction, CallerOptions } from '@bureau/framework'
import { z } from 'zod'
import { invalidParam, unsupportedParam } from './api-error.ts'
import type { Target } from './select-agent.ts'

export const MAX_FUNCTIONS = 128

/** What models take as the name of a function. */
export const FunctionName = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, _ or -')

/** A JSON Schema of an object. */
export const Parameters = z.looseObject({})

/** A function that the caller carries out, in either API. */
type GivenFunction = {
  readonly name: string
  readonly description?: string | null | undefined
  readonly parameters?: Readonly<Record<string, unknown>> | null | undefined
  readonly strict?: boolean | null | undefined
}

/** Which of the functions may or must be called. `allowed` restricts what is offered. */
export type GivenChoice = {
  readonly mode: 'none' | 'auto' | 'required'
  /** The only one, or those of `allowed_tools`; undefined: all. */
  readonly names?: readonly string[]
  /** The member of the request, for refusals. */
  readonly param: string
}

const NO_PARAMETERS = { type: 'object', properties: {} } as const

/**
 * What an agent is offered of the caller's functions.
 *
 * @throws ApiError 400: two functions share a name, one has a name of the agent's own, or the choice names one that is not there.
 */
export function offeredFunctions(
  given: readonly GivenFunction[],
  choice: GivenChoice,
  target: Target,
): Pick<CallerOptions, 'functions' | 'functionChoice'> {
  requireUsableNames(given, target)
  const { mode, names, param } = choice
  const unknown = names?.find((name) => !given.some((each) => each.name === name))
  if (unknown !== undefined) throw invalidParam(param, `there is no function "${unknown}" among the tools`)
  if (mode === 'required' && given.length === 0) throw invalidParam(param, 'demands a call, and there are no tools')
  const offered = names ? given.filter(({ name }) => names.includes(name)) : given
  if (mode === 'none' || offered.length === 0) return {}
  const only = offered.length === 1 && mode === 'required' ? offered[0]!.name : mode
  return { functions: offered.map(asCallerFunction), ...(mode === 'required' && { functionChoice: only }) }
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
export function requireNoOwnFormat({ served, agent }: Target, param: string): void {
  if (served.agency.agents.get(agent)!.outputType === 'text') return
  throw unsupportedParam(param, `the agent ${agent} has a structured answer of its own; leave this out`)
}
