import { ServiceError } from '@bureau/protocol'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from '../api-keys/caller.ts'
import type { Platform } from '../context.ts'
import { rateHeaders } from './rate-limiter.ts'

/** A look-up of something that is not there counts like this many requests, so that nobody searches for ids. */
const FAILED_LOOKUP_COST = 9

const callers = new WeakMap<FastifyRequest, Caller>()

/** Who asks is known before a body is read: without a key nobody makes us read one. */
export function authenticateCallers(app: FastifyInstance, platform: Platform): void {
  app.addHook('onRequest', async (request, reply) => {
    if ((request.routeOptions.config as { open?: boolean } | undefined)?.open) return
    const caller = await platform.store.authenticator.authenticate(authorizationOf(request))
    callers.set(request, caller)
    for (const [name, value] of Object.entries(rateHeaders(platform.rates.take(caller.keyId))))
      reply.header(name, value)
  })
  app.addHook('onResponse', async (request, reply) => countFailedLookup(platform, request, reply))
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

const NOBODY: Caller = { ownerId: '', keyId: '', scopes: [], integrationIds: [] }

/** The caller of a request; of an open route, nobody. */
export function callerOf(request: FastifyRequest, required: boolean): Caller {
  const caller = callers.get(request)
  if (caller) return caller
  if (required) throw new ServiceError('invalid_api_key')
  return NOBODY
}
