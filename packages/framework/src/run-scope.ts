/** What tools, guardrails and dynamic instructions see as the context of their run (`runContext.context`). */
export interface AgencyContext {
  readonly runId: string
  /** The agent in control of this conversation. */
  readonly agent: string
  /**
   * The agency's context overlaid with the request's `user_context`. Belongs to this run alone; never part of the prompt.
   */
  readonly userContext: Record<string, unknown>
  /** Aborts when the run is cancelled or its client leaves. */
  readonly signal: AbortSignal
  /** Sends an event of the agency's own to whoever follows the run. It must have a `type` and be JSON. */
  emit(event: { readonly type: string; readonly [key: string]: unknown }): void
  /** Tells the server's log, and nobody else, why a tool failed. Called for tools that throw. */
  toolFailed?(tool: string, error: unknown): void
}
