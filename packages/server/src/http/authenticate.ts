import type { FastifyRequest } from 'fastify'
import { ServiceError } from '@bureau/protocol'
import { readBearer, sameSecret } from '@bureau/runtime'

/** @throws ServiceError `not_authenticated` without a bearer token, `unauthorized` with a wrong one. */
export function authenticate(request: FastifyRequest, expected: string | undefined): void {
  if (expected === undefined) return
  const given = readBearer(request.headers.authorization)
  if (given === undefined) throw new ServiceError('not_authenticated')
  if (!isServerToken(given, expected)) throw new ServiceError('unauthorized')
}

/**
 * Whether a token is the server's. Several may be configured, with spaces between, so that clients can change over one
 * by one.
 */
export function isServerToken(given: string, configured: string): boolean {
  // All are compared: how long it takes says nothing of which it is.
  const matches = configured.split(/\s+/).map((token) => token !== '' && sameSecret(given, token))
  return matches.includes(true)
}
