import type { FastifyRequest } from 'fastify'
import { ServiceError } from '@bureau/protocol'
import { type GuessLimiter, readBearer, sameSecret } from '@bureau/runtime'

/** What a server lets its callers in by. */
type ServerAccess = {
  readonly token: string
  /** Slows whoever tries tokens. */
  readonly guesses: GuessLimiter
}

/**
 * @throws ServiceError `not_authenticated` without a bearer token, `unauthorized` with a wrong one, `rate_limited` for a
 *   client that has sent too many wrong ones.
 */
export function authenticate(request: FastifyRequest, { token, guesses }: ServerAccess): void {
  const given = readBearer(request.headers.authorization)
  if (given === undefined) throw new ServiceError('not_authenticated')
  if (isServerToken(given, token)) return
  guesses.count(request.ip)
  throw new ServiceError('unauthorized')
}

/**
 * Whether a token is the server's. Several may be configured, with spaces between, so that clients can change over one
 * by one.
 */
function isServerToken(given: string, configured: string): boolean {
  // All are compared: the time that it takes does not show which it is.
  const matches = configured.split(/\s+/).map((token) => token !== '' && sameSecret(given, token))
  return matches.includes(true)
}
