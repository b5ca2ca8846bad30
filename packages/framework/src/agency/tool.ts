import { ConfigError } from '@bureau/protocol'
import { z } from 'zod'
import type { ProviderTool } from '../models/ai-sdk/language-model.ts'
import { isProviderTool, toHostedTool } from '../models/ai-sdk/provider-tools.ts'
import type { NamedAgent } from './guardrail.ts'
import type { AgencyContext, RunContext } from './run-context.ts'
import { functionSchema } from './tool-schema.ts'

/** One call of a function by a model. */
export type ToolCallDetails = {
  readonly toolCall?: { readonly callId: string; readonly name: string; readonly arguments: string }
  /** Aborts when the run is stopped, or when another call of the same turn has ended it. */
  readonly signal?: AbortSignal
}

/** A tool guardrail's verdict: go on, give the model this message in place of the output, or end the run. */
export type ToolGuardrailVerdict =
  | { readonly type: 'allow' }
  | { readonly type: 'rejectContent'; readonly message: string }
  | { readonly type: 'throwException' }

/** Checks one call of a tool before it is carried out, or its output afterwards. */
export type ToolGuardrail = {
  readonly name: string
  run(data: {
    readonly context: RunContext<unknown>
    readonly agent: NamedAgent
    readonly toolCall: { readonly callId: string; readonly name: string; readonly arguments: string }
    readonly output?: unknown
  }): Promise<{ readonly behavior?: ToolGuardrailVerdict | undefined }>
}

/**
 * A function that a model may call: what `tool()` makes. Function tools of `@openai/agents` have the same members and are
 * taken as they are.
 */
export interface FunctionTool {
  readonly type: 'function'
  readonly name: string
  readonly description: string
  /** JSON Schema of an object. */
  readonly parameters: Readonly<Record<string, unknown>>
  readonly strict: boolean
  /** True: it is offered only when a tool search has found it, which Bureau does not do. */
  readonly deferLoading?: boolean | undefined
  /** Longest time that one call may take, in milliseconds. `invoke` sees to it. */
  readonly timeoutMs?: number | undefined
  readonly inputGuardrails?: readonly ToolGuardrail[] | undefined
  readonly outputGuardrails?: readonly ToolGuardrail[] | undefined
  /** Checks the arguments and carries the call out. Rejects only where the run must fail. */
  invoke(runContext: RunContext<unknown>, argumentsText: string, details?: ToolCallDetails): Promise<unknown>
  isEnabled?(runContext: RunContext<unknown>, agent: NamedAgent): Promise<boolean>
  needsApproval?(runContext: RunContext<unknown>, input: unknown, callId?: string): Promise<boolean>
}

/** A tool that the model's provider carries out. `providerData` is the tool on the wire. */
export type HostedTool = {
  readonly type: 'hosted_tool'
  readonly name: string
  readonly providerData?: Readonly<Record<string, unknown>> | undefined
}

/** What an agent may have among its tools, once classes are made into functions. */
export type AgentTool = FunctionTool | HostedTool

/** A tool in any style. Of tools that a provider's package describes, only that provider's models know. */
export type AnyTool = AgentTool | Tool | ToolClass | ProviderTool

/** What a tool may know of the run that called it. */
export type ToolContext = {
  /** The caller's context for this run; never part of the prompt. Changes are seen by later tools of the same run. */
  readonly userContext: Record<string, unknown>
  /** Null outside a run, as at `POST /tool/<name>`. */
  readonly run: AgencyContext | null
  /** Aborts when the run is cancelled. Null outside a run. */
  readonly signal: AbortSignal | null
}

/** JSON Schema of an object, for tools that do not use zod. */
export type JsonObjectSchema = { readonly type: 'object'; readonly [key: string]: unknown }

/** How a tool is called with checked input, wherever the call comes from. */
export type ToolDefinition = {
  readonly name: string
  readonly description: string
  /** `function` or the name of the tool class. */
  readonly kind: 'function' | 'class'
  readonly parameters: z.ZodObject
  /** True: input with unknown members is refused. */
  readonly strict: boolean
  /** True: while one call is running, others of the same agent and run are answered with an error text. */
  readonly oneAtATime: boolean
  readonly execute: (input: Record<string, unknown>, context: ToolContext) => unknown
}

/**
 * A class-based tool: the class name is the tool's name.
 *
 * @example class WordCount extends Tool { description = …; parameters = z.object({ text: z.string() }); run({ text }) {…} }
 */
export abstract class Tool {
  abstract readonly description: string
  abstract readonly parameters: z.ZodObject
  /** True: input with unknown members is refused. Default false: unknown members are ignored. */
  readonly strict: boolean = false
  /** True: while one call is running, others of the same agent and run are answered with an error text. Default false. */
  readonly oneAtATime: boolean = false
  abstract run(input: z.output<this['parameters']>, context: ToolContext): unknown
}

export type ToolClass = new () => Tool

const definitions = new WeakMap<object, ToolDefinition>()

/** The definition behind a tool made by `tool()` or a tool class; undefined for function tools of other making. */
export function definitionOf(tool: object): ToolDefinition | undefined {
  return definitions.get(tool)
}

/**
 * A function tool. `parameters` is a zod object; the model's input is checked against it before `execute` is called.
 *
 * What `execute` returns goes to the model: a string as it is, `{ type: 'image', image }` and `{ type: 'file', file }` as
 * pictures and files, anything else as JSON. When it throws, the model is told so and the run goes on.
 */
export function tool<Parameters extends z.ZodObject>(options: {
  readonly name: string
  readonly description: string
  readonly parameters: Parameters
  /** True (default): input with unknown members is refused. */
  readonly strict?: boolean
  /** True: while one call is running, others of the same agent and run are answered with an error text. Default false. */
  readonly oneAtATime?: boolean
  /** Longest time one call may take, in milliseconds. Default: none. */
  readonly timeoutMs?: number
  readonly execute: (input: z.output<Parameters>, context: ToolContext) => unknown
}): FunctionTool {
  return makeTool(
    {
      name: options.name,
      description: options.description,
      kind: 'function',
      parameters: options.parameters,
      strict: options.strict ?? true,
      oneAtATime: options.oneAtATime ?? false,
      // The definition is called with what `parameters` has parsed.
      execute: (input, context) => options.execute(input as z.output<Parameters>, context),
    },
    options.timeoutMs,
  )
}

/** Tools in any style, as agents have them. */
export function toAgentTools(tools: readonly AnyTool[]): AgentTool[] {
  return tools.map((each) => {
    if (typeof each === 'function') return classTool(new each())
    if (isProviderTool(each)) return toHostedTool(each)
    return each instanceof Tool ? classTool(each) : each
  })
}

function classTool(instance: Tool): FunctionTool {
  return makeTool({
    name: instance.constructor.name,
    description: instance.description,
    kind: 'class',
    parameters: instance.parameters,
    strict: instance.strict,
    oneAtATime: instance.oneAtATime,
    execute: (input, context) => instance.run(input, context),
  })
}

function makeTool(definition: ToolDefinition, timeoutMs?: number): FunctionTool {
  requireUsable(definition)
  const { name, description } = definition
  const busy = new Set<string>()
  const made = functionTool({
    name,
    description,
    ...functionSchema(definition.parameters),
    timeoutMs,
    whenFailed: (error) =>
      `An error occurred while running the tool. Please try again. Error: ${error instanceof Error ? error.message : String(error)}`,
    execute: async (input, runContext, details) => {
      const run = runContext?.context ?? null
      const signal = details?.signal ?? run?.signal ?? null
      const call = (): Promise<unknown> =>
        callTool(definition, input, { userContext: run?.userContext ?? {}, run, signal })
      return definition.oneAtATime && run ? callAlone(busy, run, { name, call }) : call()
    },
  })
  definitions.set(made, definition)
  return made
}

export type FunctionToolOptions = Pick<FunctionTool, 'name' | 'description' | 'parameters' | 'strict' | 'timeoutMs'> & {
  /** What the model is told of a call that has failed. */
  readonly whenFailed: (error: unknown) => string
  readonly execute: (input: unknown, runContext: RunContext, details: ToolCallDetails) => Promise<unknown>
}

/** A function tool of the framework's own making: arguments are parsed, time is limited, and failures become text. */
export function functionTool({ timeoutMs, whenFailed, execute, ...described }: FunctionToolOptions): FunctionTool {
  return {
    type: 'function',
    ...described,
    ...(timeoutMs !== undefined && { timeoutMs }),
    async invoke(anyContext, argumentsText, details = {}) {
      // Whoever offers the tools of an agency gives them an agency's context.
      const runContext = anyContext as RunContext
      let input: unknown
      try {
        input = JSON.parse(argumentsText || '{}')
      } catch {
        return whenFailed(new SyntaxError('Invalid JSON input for tool'))
      }
      try {
        if (timeoutMs === undefined) return await execute(input, runContext, details)
        return await inTime(timeoutMs, details, (timed) => execute(input, runContext, timed), described.name)
      } catch (error) {
        return whenFailed(error)
      }
    },
  }
}

/** The call goes on if it ignores its signal, but nobody waits for it. */
async function inTime(
  timeoutMs: number,
  details: ToolCallDetails,
  call: (details: ToolCallDetails) => Promise<unknown>,
  name: string,
): Promise<unknown> {
  const late = new AbortController()
  const signal = details.signal ? AbortSignal.any([details.signal, late.signal]) : late.signal
  const { promise, resolve } = Promise.withResolvers<string>()
  const timer = setTimeout(() => {
    late.abort(new Error('the call has taken too long'))
    resolve(`Tool '${name}' timed out after ${timeoutMs}ms.`)
  }, timeoutMs)
  try {
    return await Promise.race([call({ ...details, signal }), promise])
  } finally {
    clearTimeout(timer)
  }
}

/** One call of an agent at a time. The model is told of the others, and may repeat them. */
async function callAlone(
  busy: Set<string>,
  { runId, agent }: AgencyContext,
  { name, call }: { readonly name: string; readonly call: () => Promise<unknown> },
): Promise<unknown> {
  const caller = `${runId} ${agent}`
  if (busy.has(caller)) {
    return `Error: concurrency violation. ${name} runs one call at a time, and another call is still running. Wait for its result.`
  }
  busy.add(caller)
  try {
    return await call()
  } finally {
    busy.delete(caller)
  }
}

/** @throws ConfigError */
function requireUsable({ name, parameters }: ToolDefinition): void {
  if (!TOOL_NAME.test(name)) throw new ConfigError(`tool "${name}": a name has 1 to 64 of A-Z a-z 0-9 _ -`)
  if (!(parameters instanceof z.ZodObject)) throw new ConfigError(`tool "${name}": parameters must be a zod object`)
}

/** What model providers accept as a function name. */
export const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/

/**
 * Checks the input and calls the tool.
 *
 * @throws ToolInputError the input does not fit `parameters`; the message names each field.
 */
export async function callTool(definition: ToolDefinition, input: unknown, context: ToolContext): Promise<unknown> {
  const schema = definition.strict ? definition.parameters.strict() : definition.parameters
  const parsed = await schema.safeParseAsync(input ?? {})
  if (!parsed.success) throw new ToolInputError(parsed.error)
  return definition.execute(parsed.data, context)
}

/** Input that does not fit a tool's parameters. */
export class ToolInputError extends Error {
  override readonly name = 'ToolInputError'
  readonly issues: z.core.$ZodIssue[]

  constructor(error: z.ZodError) {
    super(z.prettifyError(error))
    this.issues = error.issues
  }
}
