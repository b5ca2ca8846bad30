import { ServiceError } from '@bureau/protocol'
import type { RunLogReader } from '@bureau/runtime'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from '../caller.ts'
import type { Platform } from '../context.ts'

/** How often a token behind an open stream is looked at again: it may have been revoked. */
const LOOK_EVERY_MS = 5_000

type Asking = { readonly caller: Caller; readonly request: FastifyRequest }

/**
 * Aborts when the consumer token of a request has ended or was revoked, because a stream may outlive both; undefined for API
 * keys, whose streams go on.
 */
export function lifeOfToken(platform: Platform, asking: Asking, reply: FastifyReply): AbortSignal | undefined {
  const watched = watchToken(platform, asking)
  if (!watched) return undefined
  reply.raw.once('close', watched.stop)
  if (reply.raw.destroyed) watched.stop()
  return watched.signal
}

type Read = RunLogReader['read']

/** The same for whoever reads a log. @throws ServiceError `invalid_consumer_token` the token has ended or was revoked. */
export function readWithToken(platform: Platform, asking: Asking, read: Read): Read {
  return async function* (after, signal) {
    const watched = watchToken(platform, asking)
    if (!watched) return yield* read(after, signal)
    try {
      yield* read(after, AbortSignal.any([signal, watched.signal]))
    } catch (error) {
      throw watched.signal.aborted ? watched.signal.reason : error
    } finally {
      watched.stop()
    }
  }
}

type Watched = { readonly signal: AbortSignal; readonly stop: () => void }

function watchToken({ store }: Platform, { caller, request }: Asking): Watched | undefined {
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
  const stop = (): void => {
    clearTimeout(over)
    clearInterval(looking)
  }
  return { signal: life.signal, stop }
}
