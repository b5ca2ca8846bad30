/** How a sign-in stands. Everything but `pending` is final. */
export type FlowStatus = 'pending' | 'authorized' | 'timeout' | `error:${string}`

export type NewFlow = {
  /** Unguessable: whoever knows it may answer the flow. */
  readonly state: string
  readonly authUrl: string
  /** The tool server's name. */
  readonly server: string
  /** The user who has to sign in. */
  readonly userId: string
}

/** One sign-in, from the redirect to the provider until it has ended. */
export type AuthorizationFlow = NewFlow & {
  readonly status: FlowStatus
  /** Milliseconds since the epoch. */
  readonly createdAt: number
}

/** What the provider's redirect brought. */
export type FlowAnswer = {
  readonly state: string
  /** The user of the browser that brought it; null when the server does not ask. */
  readonly userId: string | null
  /** A code, with the whole query that it came in, or the reason why there is none. */
  readonly outcome: { readonly query: string } | { readonly error: string }
}

/** Whether an answer was taken; `flow` is what it is now. */
export type Completed =
  | { readonly accepted: true; readonly flow: AuthorizationFlow }
  | { readonly accepted: false; readonly because: 'unknown' }
  | {
      readonly accepted: false
      /** `abandoned`: the run that asked is gone, so nobody would exchange the code. */
      readonly because: 'settled' | 'user_mismatch' | 'abandoned'
      readonly flow: AuthorizationFlow
    }

/** What a wait came to: the query with the code, or how the flow ended without one. */
export type Waited = { readonly query: string } | { readonly status: Exclude<FlowStatus, 'pending' | 'authorized'> }

/**
 * Brings the answer of an identity provider, which any process may receive, to the run that waits for it.
 *
 * A flow is forgotten 15 minutes after it was opened.
 */
export interface OAuthStateRegistry {
  /** Makes a flow known as `pending`. An earlier flow of the same state is replaced. Resolves before users may learn it. */
  open(flow: NewFlow): Promise<void>

  /**
   * Takes the provider's answer, once. An error ends the flow. A code does not yet: the waiting run exchanges it, and
   * `settle` says how that went; until then the flow is `pending` and takes no other answer.
   *
   * When both users are known and differ, a code ends the flow as `error:user_mismatch` and is not kept; an error changes
   * nothing, because a stranger must not be able to end the flow.
   */
  complete(answer: FlowAnswer): Promise<Completed>

  /**
   * Waits for the answer. After `timeoutMs` the flow becomes `timeout`. An unknown flow is `error:unknown_state`.
   *
   * @throws the reason of the signal; the flow stays as it is.
   */
  wait(state: string, options: { readonly timeoutMs: number; readonly signal: AbortSignal }): Promise<Waited>

  /** Ends a flow that is pending; others stay as they are. An unknown state becomes a flow with that status only. */
  settle(state: string, status: Exclude<FlowStatus, 'pending'>): Promise<void>

  /** Waits until the flow has ended, at most `timeoutMs`, and answers how it is then. Undefined: unknown. */
  settled(state: string, timeoutMs: number): Promise<AuthorizationFlow | undefined>

  /** Undefined: unknown. A pending flow whose run is gone with its process is `error:abandoned`. */
  find(state: string): Promise<AuthorizationFlow | undefined>

  close(): Promise<void>
}

/** How long a flow is remembered, in milliseconds. */
export const FLOW_LIFETIME_MS = 900_000
