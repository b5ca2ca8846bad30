import {
  type AuthorizationRequest,
  type Authorize,
  type OAuthAccess,
  SignInFailed,
  type SignInFailure,
} from '@bureau/framework'
import type { Logger } from '../log.ts'
import type { AuthorizationFlow, FlowStatus, OAuthStateRegistry, Waited } from './oauth-state-registry.ts'

/** Longest time that a user may take to sign in, in milliseconds (seed, Limits). */
const SIGN_IN_TIMEOUT_MS = 600_000
/** How long a callback waits to say whether the sign-in worked out. */
const OUTCOME_TIMEOUT_MS = 20_000
const MAX_REASON_LENGTH = 300

/**
 * How runs ask their users to sign in: through a registry, since any process may receive the provider's answer.
 *
 * `timeoutMs` bounds each wait, because it keeps an HTTP response open. Default 600_000 (10 minutes).
 */
export function authorizeThrough(registry: OAuthStateRegistry, timeoutMs = SIGN_IN_TIMEOUT_MS): Authorize {
  return async (request) => {
    const { state, server, userId } = request
    const authUrl = request.authorizationUrl.href
    const report = async (status: Exclude<FlowStatus, 'pending'>): Promise<void> => {
      // When the registry is away the flow ends by its age.
      await registry.settle(state, status).catch(() => {})
      request.emit({ type: 'oauth.status', state, server, status })
    }
    await registry.open({ state, authUrl, server, userId })
    request.emit({ type: 'oauth.redirect', state, server, auth_url: authUrl })
    request.emit({ type: 'oauth.status', state, server, status: 'pending' })
    try {
      const waited = await registry.wait(state, { timeoutMs, signal: request.signal })
      await exchangeCode(waited, request)
    } catch (error) {
      await report(statusOf(error, request.signal))
      throw error
    }
    await report('authorized')
  }
}

async function exchangeCode(waited: Waited, { exchange }: AuthorizationRequest): Promise<void> {
  if ('status' in waited) throw failureOf(waited.status)
  try {
    await exchange(new URLSearchParams(waited.query))
  } catch (cause) {
    throw cause instanceof SignInFailed ? cause : new SignInFailed('exchange_failed', { cause })
  }
}

function failureOf(status: Exclude<FlowStatus, 'pending' | 'authorized'>): SignInFailed {
  if (status === 'timeout') return new SignInFailed('timeout')
  const reason = status.slice('error:'.length)
  if (reason === 'user_mismatch') return new SignInFailed('user_mismatch')
  const [providerWord = ''] = reason.split(':')
  return new SignInFailed('denied', { providerWord, cause: new Error(reason) })
}

/** What events and `/auth/status` show: `error:<reason>`. A provider's own words are there already. */
function statusOf(error: unknown, signal: AbortSignal): Exclude<FlowStatus, 'pending'> {
  if (signal.aborted) return 'error:cancelled'
  if (!(error instanceof SignInFailed)) return 'error:internal_error'
  if (error.reason === 'timeout') return 'timeout'
  return error.reason === 'denied' ? `error:${(error.cause as Error).message}` : `error:${error.reason}`
}

/** The query of a provider's redirect. */
type CallbackQuery = {
  readonly state: string
  readonly code?: string | undefined
  readonly error?: string | undefined
  readonly error_description?: string | undefined
}

/** What became of a callback. `flow` is how the sign-in stands when the answer is given. */
export type CallbackOutcome =
  | { readonly kind: 'ended' | 'pending'; readonly flow: AuthorizationFlow }
  | { readonly kind: 'no_code' | 'unknown' }
  | { readonly kind: 'settled' | 'user_mismatch' | 'abandoned'; readonly flow: AuthorizationFlow }

type ReceiveCallback = {
  readonly query: CallbackQuery
  /** The whole query as it came: the issuer in it is checked by whoever exchanges the code. */
  readonly search: string
  /** The user of the browser; null when the server does not ask. */
  readonly userId: string | null
}

/** Hands a provider's redirect to the run that waits for it, wherever it is, and watches how the sign-in ends. */
export async function receiveCallback(
  registry: OAuthStateRegistry,
  received: ReceiveCallback,
): Promise<CallbackOutcome> {
  const { query, search, userId } = received
  const { state, error, code } = query
  if (error === undefined && !code) return { kind: (await registry.find(state)) ? 'no_code' : 'unknown' }
  const outcome = error === undefined ? { query: search } : { error: reasonOf(query) }
  const completed = await registry.complete({ state, userId, outcome })
  if (!completed.accepted) {
    return completed.because === 'unknown' ? { kind: 'unknown' } : { kind: completed.because, flow: completed.flow }
  }
  const flow = (await registry.settled(state, OUTCOME_TIMEOUT_MS)) ?? completed.flow
  return { kind: flow.status === 'pending' ? 'pending' : 'ended', flow }
}

/** `<error>[: <description>]`, short and without control characters: it is shown to people and is part of events. */
function reasonOf({ error, error_description: description }: CallbackQuery): string {
  const text = description ? `${error}: ${description}` : error || 'unknown_error'
  return text
    .replace(/[\s\p{Cc}\p{Cf}]+/gu, ' ')
    .slice(0, MAX_REASON_LENGTH)
    .toWellFormed()
}

/** Failures that are a user's own doing. */
const BY_USERS: ReadonlySet<SignInFailure> = new Set(['denied', 'timeout', 'cancelled'])

/** Tells the log of sign-ins that came to nothing. */
export function logFailures(log: Logger): OAuthAccess['onFailure'] {
  return (error, facts) => log[BY_USERS.has(error.reason) ? 'info' : 'warn']({ err: error, ...facts }, 'sign-in failed')
}
