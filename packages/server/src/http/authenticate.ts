import type { FastifyRequest } from 'fastify'
import { ConfigError, ServiceError } from '@bureau/protocol'
import { type GuessLimiter, readBearer, sameSecret } from '@bureau/runtime'

/** What a server lets its callers in by. */
type ServerAccess = {
  readonly tokens: readonly string[]
  /** Slows whoever tries tokens. */
  readonly guesses: GuessLimiter
}

/**
 * @throws ServiceError `not_authenticated` without a bearer token, `unauthorized` with a wrong one, `rate_limited` for a
 *   client that has sent too many wrong ones.
 */
export function authenticate(request: FastifyRequest, { tokens, guesses }: ServerAccess): void {
  const given = readBearer(request.headers.authorization)
  if (given === undefined) throw new ServiceError('not_authenticated')
  if (isServerToken(given, tokens)) return
  guesses.count(request.ip)
  throw new ServiceError('unauthorized')
}

/**
 * All are compared: the time that it takes does not show which it is. Node reads a header as Latin-1, and most clients write other
 * letters as UTF-8.
 */
function isServerToken(given: string, tokens: readonly string[]): boolean {
  const asUtf8 = Buffer.from(given, 'latin1').toString()
  const matches = tokens.flatMap((token) => [sameSecret(given, token), sameSecret(asUtf8, token)])
  return matches.includes(true)
}

/** Most words of a sentence are shorter. */
const MIN_LENGTH_OF_SEVERAL = 8

/**
 * The server's tokens: one, or several with spaces between, so that clients can change over one by one.
 *
 * @throws ConfigError there is none, or they look like a sentence, each word of which would open the server.
 */
export function readServerTokens(variable: string, value: string): readonly string[] {
  const tokens = value.split(/\s+/).filter((token) => token !== '')
  if (tokens.length === 0) throw new ConfigError(`${variable}: must not be blank.`)
  if (tokens.length > 1 && tokens.some(({ length }) => length < MIN_LENGTH_OF_SEVERAL)) {
    throw new ConfigError(
      `${variable}: must not have spaces in it, unless it is several tokens of ${MIN_LENGTH_OF_SEVERAL} characters and more: each of them opens the server.`,
    )
  }
  return tokens
}
