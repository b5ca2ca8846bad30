import { ServiceError } from '@bureau/protocol'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from '../caller.ts'
import type { Platform } from '../context.ts'

/** How often a token behind an open stream is looked at again: it may have been revoked. */
const LOOK_EVERY_MS = 5_000

/**
 * Aborts when the consumer token of a request has ended or was revoked, because a stream may outlive both; undefined for API
 * keys, whose streams go on.
 */
export function lifeOfToken(
  { store }: Platform,
  { caller, request }: { readonly caller: Caller; readonly request: FastifyRequest },
  reply: FastifyReply,
): AbortSignal | undefined {
  const { consumerId, expiresAt } = caller
  if (consumerId === undefined || expiresAt === null) return undefined
  const life = new AbortController()
  const end = (): void => life.abort(new ServiceError('invalid_consumer_token'))
  const { authorization, origin } = request.headers
  const look = (): void => {
    store.consumers.authenticate({ authorization, origin }).catch((error: unknown) => {
      // While the database cannot be reached, what was allowed goes on.
      if (error instanceof ServiceError && error.status < 500) end()
    })
  }
  const over = setTimeout(end, expiresAt.getTime() - Date.now())
  const looking = setInterval(look, LOOK_EVERY_MS)
  reply.raw.once('close', () => {
    clearTimeout(over)
    clearInterval(looking)
  })
  return life.signal
}
