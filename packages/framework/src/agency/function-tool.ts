import { z } from 'zod'
import type { NamedAgent } from './guardrail.ts'
import { linkedAbort } from './linked-abort.ts'
import type { RunContext } from './run-context.ts'

/** One call of a function by a model. */
type ToolCallDetails = {
  readonly toolCall?: { readonly callId: string; readonly name: string; readonly arguments: string }
  /** Aborts when the run is stopped, or when another call of the same turn has ended it. */
  readonly signal?: AbortSignal
  /** As in `ToolContext`. */
  readonly idempotencyKey?: string
}

/** A tool guardrail's verdict: go on, give the model this message in place of the output, or end the run. */
type ToolGuardrailVerdict =
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
  /** True: a call whose result was lost with its process is made again, under the same `idempotencyKey`. Default false. */
  readonly repeatable?: boolean | undefined
  readonly inputGuardrails?: readonly ToolGuardrail[] | undefined
  readonly outputGuardrails?: readonly ToolGuardrail[] | undefined
  /** Checks the arguments and carries the call out. Rejects only where the run must fail. */
  invoke(runContext: RunContext<unknown>, argumentsText: string, details?: ToolCallDetails): Promise<unknown>
  /** The result of a call that was begun and whose process has died; undefined when it was not made. */
  lookup?: ((runContext: RunContext<unknown>, idempotencyKey: string) => Promise<unknown>) | undefined
  isEnabled?(runContext: RunContext<unknown>, agent: NamedAgent): Promise<boolean>
  /** Whether a person must approve this call before it is carried out. */
  needsApproval?(runContext: RunContext<unknown>, input: unknown, callId?: string): Promise<boolean>
  /** What is wrong with arguments that a person has given in place of the model's. Absent: nobody may change them. */
  checkEdit?(input: unknown): Promise<string | undefined>
}

/** A tool that the model's provider carries out. `providerData` is the tool on the wire. */
export type HostedTool = {
  readonly type: 'hosted_tool'
  readonly name: string
  readonly providerData?: Readonly<Record<string, unknown>> | undefined
}

/** What a model gets in place of a result when a tool has thrown. Function tools of `@openai/agents` say no more. */
export const TOOL_FAILURE = 'An error occurred while running the tool. Please try again.'

type Described = 'name' | 'description' | 'parameters' | 'strict' | 'timeoutMs' | 'repeatable' | 'lookup'

type FunctionToolOptions = Pick<FunctionTool, Described> & {
  /** Returns the error text for the model when a call fails. If it throws, the run fails. */
  readonly whenFailed: (error: unknown, runContext: RunContext) => string | Promise<string>
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
        return whenFailed(new SyntaxError('Invalid JSON input for tool'), runContext)
      }
      try {
        if (timeoutMs === undefined) return await execute(input, runContext, details)
        return await inTime(timeoutMs, details, (timed) => execute(input, runContext, timed), described.name)
      } catch (error) {
        if (error instanceof CallSuspended) throw error
        // The model gets the error in its own input; nothing has failed here.
        if (!(error instanceof ToolInputError)) runContext.context.toolFailed?.(described.name, error)
        return whenFailed(error, runContext)
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
  const late = linkedAbort(details.signal)
  const { promise, resolve } = Promise.withResolvers<string>()
  const timer = setTimeout(() => {
    late.abort(new Error('the call has taken too long'))
    resolve(`Tool '${name}' timed out after ${timeoutMs}ms.`)
  }, timeoutMs)
  try {
    return await Promise.race([call({ ...details, signal: late.signal }), promise])
  } finally {
    clearTimeout(timer)
  }
}

/** A call that has not ended and goes on later, because an agent that works for it waits. No tool of a user's throws it. */
export class CallSuspended extends Error {
  override readonly name = 'CallSuspended'
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
