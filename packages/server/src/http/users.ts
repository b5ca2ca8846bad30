import { ServiceError } from '@bureau/protocol'
import type { GuessLimiter } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'

/** Somebody whom the server knows. */
export type User = {
  /** Stable and not secret: tokens, runs and kept conversations belong to it. 1 to 1,024 characters. */
  readonly id: string
  /** Anything else that tools may know of the user: `userContext.user` holds it all. */
  readonly [claim: string]: unknown
}

/**
 * Says who sends a request, from its headers: a session, a signed token, whatever the application has. Null: nobody may, and
 * the answer is 401. What it throws is a 500, unless the error has a `statusCode` of its own; its message is for the caller
 * when it says so by `expose: true`, as errors of the package `http-errors` do. The body has not been read.
 */
export type Authenticate = (request: FastifyRequest) => User | null | Promise<User | null>

const UserShape = z.looseObject({
  id: z
    .string()
    .trim()
    .min(1)
    .max(1_024)
    .refine((id) => id.isWellFormed()),
})

const users = new WeakMap<FastifyRequest, User>()

/** Who has sent the request; undefined where the server does not know its users. */
export function userOf(request: FastifyRequest): User | undefined {
  return users.get(request)
}

/**
 * Lets a request of a user's in, and remembers whose it is. Lines that are logged for it have `userId`.
 *
 * @throws ServiceError `not_authenticated`, `forbidden`, `unauthorized`, or `rate_limited` for an address that is refused too
 *   often. @throws What `authenticate` throws.
 */
export async function admitUser(
  request: FastifyRequest,
  authenticate: Authenticate,
  guesses: GuessLimiter,
): Promise<void> {
  const user = await identify(request, authenticate).catch((error: unknown) => {
    throw refusalOf(error)
  })
  if (!user) {
    if (request.headers.authorization === undefined) throw new ServiceError('not_authenticated', { message: UNKNOWN })
    guesses.count(request.ip)
    throw new ServiceError('unauthorized', { headers: INVALID_TOKEN })
  }
  users.set(request, user)
  request.log = request.log.child({ userId: user.id })
}

/** By this clients know that their token is not valid any more, and get another one (RFC 6750, section 3.1). */
const INVALID_TOKEN = { 'www-authenticate': 'Bearer error="invalid_token"' }

/** The application may know its users by something else than a token. */
const UNKNOWN = 'This server does not know who sends the request: sign in, or send your token.'

const CODES: Readonly<Record<number, 'not_authenticated' | 'forbidden'>> = {
  401: 'not_authenticated',
  403: 'forbidden',
}

/** A refusal of the application's own, which has a status; anything else is a defect. */
function refusalOf(error: unknown): unknown {
  if (!(error instanceof Error) || !('statusCode' in error)) return error
  const code = CODES[Number(error.statusCode)]
  if (code === undefined) return error
  const isForCaller = 'expose' in error && error.expose === true
  return new ServiceError(code, { ...(isForCaller && { message: error.message }), cause: error })
}

/**
 * The user of a request, also of one that every sender may send.
 *
 * @throws TypeError `authenticate` returns something that is not a user. @throws What `authenticate` throws.
 */
export async function identify(request: FastifyRequest, authenticate: Authenticate): Promise<User | null> {
  const known = users.get(request)
  if (known) return known
  const answer: unknown = await authenticate(request)
  if (answer === null || answer === undefined) return null
  const { success, data } = UserShape.safeParse(answer)
  if (!success) throw new TypeError('authenticate must return null, or a user with an id of 1 to 1,024 characters')
  return data
}
