import { z } from 'zod'
import { type ApprovalPolicy, ApprovalPolicyChecks, readPolicy, type ReadPolicy } from './approval-policy.ts'
import type { ProviderTool } from './language-model.ts'
import { isProviderTool, toHostedTool } from './provider-tools.ts'
import { AnyFunction, checkedBy, Milliseconds, type OptionChecks, readOptions } from '../options.ts'
import { type FunctionTool, functionTool, type HostedTool, TOOL_FAILURE, ToolInputError } from './function-tool.ts'
import type { AgencyContext, RunContext, ToolContext } from './run-context.ts'
import { functionSchema, isOldZod, OLD_ZOD, unsendable } from './tool-schema.ts'

/** What an agent may have among its tools, once classes are made into functions. */
export type AgentTool = FunctionTool | HostedTool

/** A tool in any style. Of tools that a provider's package describes, only that provider's models know. */
export type AnyTool = AgentTool | Tool | ToolClass | ProviderTool

/**
 * Finds out what became of a call whose process has died: what `execute` would have returned, or undefined when the call
 * was never made; it is made then.
 */
type Lookup = (idempotencyKey: string, context: ToolContext) => unknown

/** How a tool is called with checked input, wherever the call comes from. */
export type ToolDefinition = {
  readonly name: string
  readonly description: string
  /** `function` or the name of the tool class. */
  readonly kind: 'function' | 'class'
  readonly parameters: z.ZodObject
  /** True: input with unknown members is refused. */
  readonly strict: boolean
  /** What the input must fit: `parameters`, closed where the tool is strict. Made once, as it costs more than a check. */
  readonly input: z.ZodObject
  /** True: while one call is running, others of the same agent and run are answered with an error text. */
  readonly oneAtATime: boolean
  /** Undefined: no call waits for a person. */
  readonly approval: ReadPolicy | undefined
  readonly repeatable: boolean
  readonly lookup: Lookup | undefined
  /** The text of the function or the class. */
  readonly source: string
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
  /** As in `tool()`. */
  readonly needsApproval?: ApprovalPolicy<z.output<this['parameters']>>
  /** True: a call that was cut off by a crash of the server may be made again. Default false: it is made once at most. */
  readonly repeatable: boolean = false
  /** Finds out what became of a call that was cut off by a crash of the server. */
  lookup?(idempotencyKey: string, context: ToolContext): unknown
  abstract run(input: z.output<this['parameters']>, context: ToolContext): unknown
}

export type ToolClass = new () => Tool

const definitions = new WeakMap<object, ToolDefinition>()

/** The definition behind a tool made by `tool()` or a tool class; undefined for function tools of other making. */
export function definitionOf(tool: object): ToolDefinition | undefined {
  return definitions.get(tool)
}

type ToolOptions<Parameters extends z.ZodObject> = {
  readonly name: string
  readonly description: string
  readonly parameters: Parameters
  /** True (default): input with unknown members is refused. */
  readonly strict?: boolean
  /** True: while one call is running, others of the same agent and run are answered with an error text. Default false. */
  readonly oneAtATime?: boolean
  /**
   * True: a call that was cut off by a crash of the server may be made again, under the same `idempotencyKey`. Default
   * false: it is made once at most, and the model reads that its result is unknown.
   */
  readonly repeatable?: boolean
  /**
   * Finds out what became of a call that was cut off by a crash of the server: returns what `execute` would have returned,
   * or undefined when the call was never made; it is made then.
   */
  readonly lookup?: Lookup
  /** Longest time one call may take, in milliseconds. Default: none. */
  readonly timeoutMs?: number
  /**
   * Whether a person must approve a call before it is carried out; the run waits for it. A call whose input does not fit
   * `parameters` is answered at once, because it would fail. Default false.
   */
  readonly needsApproval?: ApprovalPolicy<z.output<Parameters>>
  readonly execute: (input: z.output<Parameters>, context: ToolContext) => unknown
}

/** What model providers accept as a function name. */
export const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/

/** What both ways to write a tool have. */
const NAMED_CHECKS = {
  name: z.string().regex(TOOL_NAME, 'a name has 1 to 64 of A-Z a-z 0-9 _ -'),
  parameters: checkedBy((parameters) => {
    if (parameters instanceof z.ZodObject) return unsendable(parameters)
    return isOldZod(parameters) ? OLD_ZOD : 'must be a zod object, such as z.object({ city: z.string() })'
  }),
  needsApproval: ApprovalPolicyChecks.optional(),
}

const ToolChecks = z.strictObject({
  ...NAMED_CHECKS,
  description: z.string(),
  strict: z.boolean().optional(),
  oneAtATime: z.boolean().optional(),
  repeatable: z.boolean().optional(),
  lookup: AnyFunction.optional(),
  timeoutMs: Milliseconds.optional(),
  execute: AnyFunction,
} satisfies OptionChecks<ToolOptions<z.ZodObject>>)

/**
 * A function tool. `parameters` is a zod object; the model's input is checked against it before `execute` is called.
 *
 * What `execute` returns goes to the model: a string as it is, `{ type: 'image', image }` and `{ type: 'file', file }` as
 * pictures and files, anything else as JSON. When it throws, the model gets the error and the run goes on.
 *
 * @throws ConfigError an option is not valid.
 */
export function tool<Parameters extends z.ZodObject>(options: ToolOptions<Parameters>): FunctionTool {
  readOptions(typeof options?.name === 'string' ? `tool "${options.name}"` : 'tool', ToolChecks, options)
  return makeTool(
    {
      name: options.name,
      description: options.description,
      kind: 'function',
      parameters: options.parameters,
      strict: options.strict ?? true,
      oneAtATime: options.oneAtATime ?? false,
      approval: readPolicy(options.needsApproval),
      repeatable: options.repeatable ?? false,
      lookup: options.lookup,
      source: String(options.execute),
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
  const { needsApproval, parameters } = instance
  const { name } = instance.constructor
  readOptions(`tool "${name}"`, ClassChecks, { name, parameters, needsApproval })
  return makeTool({
    name,
    description: instance.description,
    kind: 'class',
    parameters,
    strict: instance.strict,
    oneAtATime: instance.oneAtATime,
    approval: readPolicy(needsApproval),
    repeatable: instance.repeatable,
    lookup: instance.lookup?.bind(instance),
    source: String(instance.constructor),
    execute: (input, context) => instance.run(input, context),
  })
}

/** Of a class, only what would go unnoticed when it is wrong. */
const ClassChecks = z.strictObject(NAMED_CHECKS)

function makeTool(described: Omit<ToolDefinition, 'input'>, timeoutMs?: number): FunctionTool {
  const { name, description, parameters, strict, repeatable, lookup } = described
  const definition: ToolDefinition = { ...described, input: strict ? parameters.strict() : parameters }
  const busy = new Set<string>()
  const made = functionTool({
    name,
    description,
    ...functionSchema(parameters),
    timeoutMs,
    repeatable,
    lookup:
      lookup && (async (runContext, key) => lookup(key, contextOf(runContext as RunContext, { idempotencyKey: key }))),
    whenFailed: (error) => `${TOOL_FAILURE} Error: ${error instanceof Error ? error.message : String(error)}`,
    execute: async (input, runContext, details) => {
      const context = contextOf(runContext, details)
      const { run } = context
      const call = (): Promise<unknown> => callTool(definition, input, context)
      return definition.oneAtATime && run ? callAlone(busy, run, { name, call }) : call()
    },
  })
  const tool = { ...made, ...approvalOf(definition) }
  definitions.set(tool, definition)
  return tool
}

/** Nobody is asked about a call that would fail. */
function approvalOf({ approval, input: schema }: ToolDefinition): Pick<FunctionTool, 'needsApproval' | 'checkEdit'> {
  if (!approval) return {}
  return {
    needsApproval: async (runContext, input) => {
      const parsed = await schema.safeParseAsync(input ?? {})
      // Whoever offers the tools of an agency gives them an agency's context.
      return parsed.success && (await approval.when(parsed.data, contextOf(runContext as RunContext)))
    },
    ...(approval.edit && {
      checkEdit: async (input) => {
        const parsed = await schema.safeParseAsync(input)
        return parsed.success ? undefined : z.prettifyError(parsed.error)
      },
    }),
  }
}

function contextOf(
  runContext: RunContext | undefined,
  { signal, idempotencyKey }: { readonly signal?: AbortSignal; readonly idempotencyKey?: string } = {},
): ToolContext {
  const run = runContext?.context ?? null
  return {
    userContext: run?.userContext ?? {},
    run,
    signal: signal ?? run?.signal ?? null,
    idempotencyKey: idempotencyKey ?? null,
  }
}

/** One call of an agent at a time. The others are refused with a note, and the model may repeat them. */
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

/**
 * Checks the input and calls the tool.
 *
 * @throws ToolInputError the input does not fit `parameters`; the message names each field.
 */
export async function callTool(definition: ToolDefinition, input: unknown, context: ToolContext): Promise<unknown> {
  const parsed = await definition.input.safeParseAsync(input ?? {})
  if (!parsed.success) throw new ToolInputError(parsed.error)
  return definition.execute(parsed.data, context)
}
