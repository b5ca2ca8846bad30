import { ServiceError } from '@bureau/protocol'
import { rateLimited, type RateState, sameSecret } from '@bureau/runtime'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from '../caller.ts'
import type { Platform } from '../context.ts'

/** A look-up of something that is not there counts like this many requests, so that nobody searches for ids. */
const FAILED_LOOKUP_COST = 9

const callers = new WeakMap<FastifyRequest, Caller>()

/** Undefined: nobody whom a key names, or not known yet. */
export const ownerOf = (request: FastifyRequest): string | undefined => callers.get(request)?.ownerId

/** Who asks is known before a body is read: without a key nobody makes us read one. */
export function authenticateCallers(app: FastifyInstance, platform: Platform): void {
  app.addHook('onRequest', async (request, reply) => {
    const { open, operator } = (request.routeOptions.config ?? {}) as { open?: boolean; operator?: boolean }
    if (open) return
    if (operator) return requireOperator(platform, request)
    const caller = await authenticate(platform, request)
    callers.set(request, caller)
    const rate = platform.rates.take(caller.keyId)
    reply.headers(rateHeaders(rate))
    if (rate.retryAfterSeconds > 0) throw rateLimited(rate)
  })
  app.addHook('onResponse', async (request, reply) => countFailedLookup(platform, request, reply))
}

/** @throws ServiceError `invalid_api_key`; `rate_limited` for an address that has sent too many wrong keys */
async function authenticate({ store, guesses }: Platform, request: FastifyRequest): Promise<Caller> {
  const authorization = authorizationOf(request)
  if (store.consumers.isConsumer(authorization)) {
    return store.consumers.authenticate({ authorization, origin: request.headers.origin })
  }
  try {
    return await store.authenticator.authenticate(authorization)
  } catch (error) {
    const isWrong = error instanceof ServiceError && error.code === 'invalid_api_key'
    if (isWrong && request.headers.authorization !== undefined) guesses.count(request.ip)
    throw error
  }
}

/** @throws ServiceError `invalid_api_key`; `rate_limited` for an address that has sent too many wrong keys */
function requireOperator({ config, guesses }: Platform, request: FastifyRequest): void {
  const given = /^Bearer (.+)$/i.exec(authorizationOf(request) ?? '')?.[1]
  if (config.operatorKey !== undefined && given !== undefined && sameSecret(given, config.operatorKey)) return
  if (given !== undefined) guesses.count(request.ip)
  const message = config.operatorKey === undefined ? 'PLATFORM_OPERATOR_KEY is not set: nobody may do this.' : undefined
  throw new ServiceError('invalid_api_key', message === undefined ? {} : { message })
}

/** `RateLimit-Policy` and `RateLimit` as structured fields (draft-ietf-httpapi-ratelimit-headers). */
function rateHeaders({ limits, remaining, resetSeconds }: RateState): Record<string, string> {
  return {
    'RateLimit-Policy': `"key";q=${limits.perMinute};w=60`,
    RateLimit: `"key";r=${remaining};t=${resetSeconds}`,
  }
}

function countFailedLookup(platform: Platform, request: FastifyRequest, { statusCode }: FastifyReply): void {
  const caller = callers.get(request)
  if (caller && (statusCode === 403 || statusCode === 404)) platform.rates.charge(caller.keyId, FAILED_LOOKUP_COST)
}

/** Two headers are one too many: which of them would count? */
function authorizationOf({ raw, headers }: FastifyRequest): string | undefined {
  const sent = raw.rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'authorization')
  return sent.length === 1 ? headers.authorization : undefined
}

const NOBODY: Caller = { ownerId: '', keyId: '', scopes: [], integrationIds: [], expiresAt: null }

/** The caller of a request; of an open route, nobody. */
export function callerOf(request: FastifyRequest, required: boolean): Caller {
  const caller = callers.get(request)
  if (caller) return caller
  if (required) throw new ServiceError('invalid_api_key')
  return NOBODY
}
