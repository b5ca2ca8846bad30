import type { RunEvent } from '@bureau/protocol'

/** Why a sign-in came to nothing. Part of the wire as `error:<reason>`, except `timeout`, which is a status of its own. */
export type SignInFailure =
  | 'denied'
  | 'timeout'
  | 'cancelled'
  | 'user_mismatch'
  | 'state_mismatch'
  | 'issuer_mismatch'
  | 'exchange_failed'
  | 'not_accepted'
  | 'server_unavailable'
  | 'no_token'
  | 'tool_names_taken'
  | 'nobody_to_ask'

const SENTENCES: Record<SignInFailure, string> = {
  denied: 'the sign-in was refused',
  timeout: 'nobody signed in within the time limit',
  cancelled: 'the run was stopped',
  user_mismatch: 'somebody else answered the sign-in',
  state_mismatch: 'the answer belongs to another sign-in',
  issuer_mismatch: 'the provider names another issuer than the one that it was found under',
  exchange_failed: 'the provider did not accept the sign-in',
  not_accepted: 'the server refused the new token',
  server_unavailable: 'the server or its provider could not be reached',
  no_token: 'the server gave no token',
  tool_names_taken: 'its tools have names that other tools of the agent have',
  nobody_to_ask: 'no user is known who could sign in',
}

/** Words of OAuth that say why a provider refused (RFC 6749, 4.1.2.1; OpenID Connect Core, 3.1.2.6). */
const PROVIDER_WORDS = new Set([
  'access_denied',
  'consent_required',
  'interaction_required',
  'invalid_request',
  'invalid_scope',
  'login_required',
  'server_error',
  'temporarily_unavailable',
  'unauthorized_client',
  'unsupported_response_type',
])

type SignInFailedOptions = {
  /** What the provider said, as one of OAuth's words. */
  readonly providerWord?: string
  /** Follows the sentence. Must hold nothing that came from outside. */
  readonly detail?: string
  readonly cause?: unknown
}

/**
 * A sign-in that came to nothing. The message is fit for the model and for callers; what a provider said, beyond its
 * standard words, is in the cause.
 */
export class SignInFailed extends Error {
  override readonly name = 'SignInFailed'
  readonly reason: SignInFailure
  readonly providerWord: string | undefined

  constructor(reason: SignInFailure, { providerWord, detail, cause }: SignInFailedOptions = {}) {
    const known = providerWord !== undefined && PROVIDER_WORDS.has(providerWord) ? providerWord : detail
    super(`${SENTENCES[reason]}${known === undefined ? '' : ` (${known})`}`, { cause })
    this.reason = reason
    this.providerWord = providerWord
  }
}

/** A user has to go to a provider and come back. */
export type AuthorizationRequest = {
  /** 32 random bytes, base64url: what the provider's redirect must bring back. */
  readonly state: string
  readonly authorizationUrl: URL
  /** The server's name. */
  readonly server: string
  readonly userId: string
  readonly emit: (event: RunEvent) => void
  /** Exchanges the code of the redirect's query for tokens. @throws when the provider does not give any. */
  readonly exchange: (callback: URLSearchParams) => Promise<void>
  /** Aborts when the run is cancelled. */
  readonly signal: AbortSignal
}

/**
 * Asks the user of a run to sign in, waits for the provider's redirect and has the code exchanged. Says so in run events:
 * `oauth.redirect`, then `oauth.status` with `pending` and with the result.
 *
 * @throws SignInFailed, or the reason of the signal.
 */
export type Authorize = (request: AuthorizationRequest) => Promise<void>
