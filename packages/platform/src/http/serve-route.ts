import { ServiceError } from '@bureau/protocol'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { requireScope } from '../api-keys/caller.ts'
import type { Platform } from '../context.ts'
import { oncePerKey } from '../idempotency/once-per-key.ts'
import { callerOf } from './callers.ts'
import { parseInput } from './parse-input.ts'
import { errorBody } from './render-error.ts'
import type { Answered, Call, Route } from './route.ts'

const DEFAULT_BODY_BYTES = 262_144

/** Registers a route: what it demands is checked in one order for all, then its function answers. */
export function serveRoute(app: FastifyInstance, platform: Platform, route: Route): void {
  app.route({
    method: route.method,
    url: route.url,
    bodyLimit: route.maxBodyBytes ?? DEFAULT_BODY_BYTES,
    config: { open: route.scope === null, admits: route.admits === true, nullableBody: route.nullableBody === true },
    handler: async (request, reply) => {
      const call = readCall(platform, route, request)
      if (route.handle) return route.handle(call, reply)
      return send(reply, await answerOf(route, call))
    },
  })
}

/** @throws ServiceError `insufficient_scope`, `invalid_json`, `invalid_request` or a code of the route's own */
function readCall(platform: Platform, route: Route, request: FastifyRequest): Call {
  const params = request.params as Record<string, string>
  requireStorable({ ...params, ...(request.query as object) })
  const caller = callerOf(request, route.scope !== null)
  if (route.scope !== null) requireScope(caller, route.scope, params['integrationId'])
  if (route.everyIntegration && caller.integrationIds) throw new ServiceError('insufficient_scope')
  const query = route.query && parseInput(route.query, request.query)
  return { platform, caller, params, query, body: readBody(route, request), request }
}

/** No database keeps U+0000. In bodies it was looked for already. @throws ServiceError `invalid_request` */
function requireStorable(parts: Readonly<Record<string, unknown>>): void {
  if (!Object.values(parts).flat().join('').includes('\0')) return
  throw new ServiceError('invalid_request', { message: 'The address must not hold U+0000.' })
}

function readBody(route: Route, { body }: FastifyRequest): unknown {
  if (!route.body) return undefined
  if (body === undefined && !route.bodyOptional) throw new ServiceError('invalid_json')
  return parseInput(route.body, body === undefined ? {} : body, route.codes)
}

async function answerOf(route: Route, call: Call): Promise<Answered> {
  const { answer } = route
  if (!answer) throw new Error(`route ${route.id} has no answer`)
  const key = route.idempotent ? readIdempotencyKey(call.request) : undefined
  if (key === undefined) return answer(call)
  const { platform, caller, request } = call
  const asked = { url: request.url, body: request.body ?? null }
  const { replayed, ...answered } = await oncePerKey(
    platform.store,
    { ownerId: caller.ownerId, apiKeyId: caller.keyId, route: route.id, key },
    asked,
    {
      work: () => answer(call),
      refuse: (refusal) => ({
        status: refusal.status,
        body: errorBody(route.surface ?? 'rest', refusal, request.id),
      }),
      shownOnce: route.shownOnce ?? [],
    },
  )
  return replayed ? { ...answered, headers: { 'Idempotent-Replayed': 'true' } } : answered
}

/** @throws ServiceError `invalid_request` */
export function readIdempotencyKey(request: FastifyRequest): string | undefined {
  const key = request.headers['idempotency-key']
  if (key === undefined) return undefined
  if (typeof key === 'string' && /^[\x20-\x7e]{1,255}$/.test(key)) return key
  throw new ServiceError('invalid_request', { message: 'Idempotency-Key must be 1 to 255 printable ASCII characters.' })
}

function send(reply: FastifyReply, { status, body, headers }: Answered): FastifyReply {
  reply.code(status)
  for (const [name, value] of Object.entries({ ...versionTag(body), ...headers })) reply.header(name, value)
  return body === undefined ? reply.send() : reply.send(body)
}

/** A resource that counts its changes has its version as entity tag. */
function versionTag(body: unknown): Record<string, string> {
  const version = (body as { version?: unknown } | null | undefined)?.version
  return typeof version === 'number' ? { ETag: `"${version}"` } : {}
}
