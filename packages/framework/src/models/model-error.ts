import { RUN_ERRORS, type RunErrorCode } from '@bureau/protocol'

/** Codes of a failed model request. */
export type ModelErrorCode = Extract<
  RunErrorCode,
  `upstream_${string}` | 'context_length_exceeded' | 'response_incomplete'
>

type ModelErrorOptions = {
  readonly status?: number
  /** In place of the code's own sentence. It goes to the caller. */
  readonly message?: string
  readonly detail?: string
  readonly cause?: unknown
}

/**
 * A model request that failed. The message is fit for the caller: what the provider said may hold keys, prompts or
 * account names and stays in `detail` and `cause`, for the log.
 */
export class ModelError extends Error {
  override readonly name = 'ModelError'
  readonly code: ModelErrorCode
  /** The provider's HTTP status, when it answered. */
  readonly status: number | undefined
  readonly detail: string | undefined

  constructor(code: ModelErrorCode, options: ModelErrorOptions = {}) {
    const status = options.status === undefined ? '' : ` (HTTP ${options.status})`
    super(options.message ?? RUN_ERRORS[code].message.replace(/\.$/, `${status}.`), { cause: options.cause })
    this.code = code
    this.status = options.status
    this.detail = options.detail?.slice(0, MAX_DETAIL_CHARACTERS).replaceAll(KEYS, '[key]')
  }
}

/** Keys as vendors write them: some providers quote the one that they refuse, and details go to logs. */
const KEYS = /\b(?:(?:sk|pk|rk|xai)-|gsk_|AIza|Bearer\s+)[\w.-]{8,}/g

const MAX_DETAIL_CHARACTERS = 2_000

/** What the provider has sent is not an answer. */
export function invalidAnswer(detail: string, cause?: unknown): ModelError {
  return new ModelError('upstream_invalid_response', { detail, cause })
}

/** How providers say that the input is too long. */
const CONTEXT_LENGTH = /context_length_exceeded|maximum context length|prompt is too long|input is too long/i

/** Longest event of a provider's stream, in characters or bytes, as its reader counts: pictures are the largest. */
export const MAX_EVENT_SIZE = 16_777_216

export function eventTooLarge(): ModelError {
  return new ModelError('upstream_event_too_large')
}

/** @throws ModelError `upstream_event_too_large` so much has come of an event that has not ended. */
export function requireBoundedEvent(pending: number): void {
  if (pending > MAX_EVENT_SIZE) throw eventTooLarge()
}

/** More than any model says at once. Items are compared with each other, so that many of them would keep the process busy. */
const MAX_ITEMS = 2_000

/** @throws ModelError an answer has so many items. */
export function requireFewItems(count: number): void {
  if (count > MAX_ITEMS) throw invalidAnswer(`the answer has more than ${MAX_ITEMS} items`)
}

/** A mistake of whoever configures the agent, which "not valid" would not lead to. */
const NOT_FOUND = 'The model provider does not know the model, or its address is wrong (HTTP 404).'

/** What a provider's HTTP error status and error code mean. */
export function modelErrorOfStatus(status: number, detail: string): ModelError {
  if (status === 401 || status === 403) return new ModelError('upstream_auth_failed', { status, detail })
  if (status === 408 || status === 504) return new ModelError('upstream_timeout', { status, detail })
  if (status === 429 && /\binsufficient_quota\b/.test(detail)) {
    return new ModelError('upstream_quota_exhausted', { status, detail })
  }
  if (status === 429) return new ModelError('upstream_rate_limited', { status, detail })
  if (status >= 500) return new ModelError('upstream_unavailable', { status, detail })
  if (status === 404) return new ModelError('upstream_invalid_request', { status, detail, message: NOT_FOUND })
  if (CONTEXT_LENGTH.test(detail)) return new ModelError('context_length_exceeded', { status, detail })
  return new ModelError('upstream_invalid_request', { status, detail })
}
