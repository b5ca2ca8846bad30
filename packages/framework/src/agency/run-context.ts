import type { Usage } from '@bureau/protocol'
import type { SharedState } from './shared-state.ts'

/** What tools, guardrails and dynamic instructions see as the context of their run (`runContext.context`). */
export interface AgencyContext {
  readonly runId: string
  /** The agent in control of this conversation. */
  readonly agent: string
  /**
   * The agency's context overlaid with the request's `user_context`. Belongs to this run alone; never part of the prompt.
   */
  readonly userContext: Record<string, unknown>
  /** What the page that asks and the agents of the run both see and change. */
  readonly sharedState: SharedState
  /** Aborts when the run is cancelled or its client leaves. */
  readonly signal: AbortSignal
  /** Sends an event of the agency's own to whoever follows the run. It must have a `type` and be JSON. */
  emit(event: { readonly type: string; readonly [key: string]: unknown }): void
  /** Tells the server's log, and nobody else, why a tool failed. Called for tools that throw. */
  toolFailed?(tool: string, error: unknown): void
}

/** What a tool may know of the run that called it. */
export type ToolContext = {
  /** The caller's context for this run; never part of the prompt. Changes are seen by later tools of the same run. */
  readonly userContext: Record<string, unknown>
  /** Null outside a run, as at `POST /tool/<name>`. */
  readonly run: AgencyContext | null
  /** Aborts when the run is cancelled. Null outside a run. */
  readonly signal: AbortSignal | null
  /**
   * Names this call, and no other, also when it is made again after a crash: 43 characters of A-Z a-z 0-9 _ -. For other
   * services that take such a key. Null outside a run.
   */
  readonly idempotencyKey: string | null
}

/**
 * What every callback of an agency gets first: tools, guardrails, dynamic instructions, handoffs. It has the members of the
 * run context of `@openai/agents` that its tools and guardrails read.
 */
export interface RunContext<Context = AgencyContext> {
  readonly context: Context
  /** The tokens of the run so far, in the words of `@openai/agents`. */
  readonly usage: RunContextUsage
}

type RunContextUsage = {
  readonly requests: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly totalTokens: number
}

/** @param usage - Read when somebody asks. */
export function createRunContext(context: AgencyContext, usage: () => Usage): RunContext {
  return new ContextOfRun(context, usage)
}

/** A class, because V8 keeps each object that is written with a getter, and all that this reaches, until a full collection. */
class ContextOfRun implements RunContext {
  readonly context: AgencyContext
  readonly #usage: () => Usage

  constructor(context: AgencyContext, usage: () => Usage) {
    this.context = context
    this.#usage = usage
  }

  get usage(): RunContextUsage {
    const { request_count: requests, input_tokens, output_tokens, total_tokens } = this.#usage()
    return { requests, inputTokens: input_tokens, outputTokens: output_tokens, totalTokens: total_tokens }
  }
}
