/**
 * Why a request to an address from outside was refused or did not succeed.
 *
 * `invalid_url` and `unsupported_scheme` are static, `blocked` is a decision of the address policy (URL, resolved
 * address or redirect), `failed` covers names, connections, TLS, statuses and broken bodies.
 */
export type EgressReason = 'invalid_url' | 'unsupported_scheme' | 'blocked' | 'failed' | 'too_large' | 'timeout'

type EgressErrorOptions = {
  /** The HTTP status, when the peer answered with an unwanted one. */
  readonly status?: number
  /** For the log only: may name addresses. */
  readonly detail?: string
  readonly cause?: unknown
}

/**
 * An outbound request that was refused or failed.
 *
 * `message` is fit for the caller: it never holds a resolved address, a credential or a query string. `detail` and
 * `cause` go to the log.
 */
export class EgressError extends Error {
  override readonly name = 'EgressError'
  readonly reason: EgressReason
  readonly status: number | undefined
  readonly detail: string | undefined

  constructor(reason: EgressReason, message: string, options: EgressErrorOptions = {}) {
    super(message, { cause: options.cause })
    this.reason = reason
    this.status = options.status
    this.detail = options.detail
  }
}
