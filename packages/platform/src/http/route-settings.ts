import { ServiceError } from '@bureau/protocol'
import type { Answered, RouteSettings } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import { requireScope } from '../caller.ts'
import type { Platform } from '../context.ts'
import { oncePerKey } from '../idempotency/once-per-key.ts'
import { callerOf } from './callers.ts'
import { parseInput } from './parse-input.ts'
import { errorBody } from './render-error.ts'
import type { Call, Given, Route, Rules } from './route.ts'

/** What the rows of the platform demand of a request: storable addresses, scopes, valid input, one answer per `Idempotency-Key`. */
export function routeSettings(platform: Platform): RouteSettings<Given, Rules> {
  return {
    configOf: ({ scope, operator = false, consumer, admits = false, nullableBody = false, anyBody = false }) => ({
      open: scope === null && !operator,
      operator,
      admits,
      nullableBody,
      anyBody,
      forConsumers: consumer !== undefined,
    }),
    admit: (route, request) => {
      requireStorable({ ...(request.params as object), ...(request.query as object) })
      return { platform, caller: allowedCaller(route, request) }
    },
    parse: (schema, input, { route, name }) => {
      if (name === 'query') return parseInput(schema, input)
      if (input === undefined) throw new ServiceError('invalid_json')
      return parseInput(schema, input, route.codes)
    },
    answer: (route, call, work) => {
      const key = route.idempotent && readIdempotencyKey(call.request)
      return key === undefined ? work() : answerOnce(route, call, { key, work })
    },
  }
}

/** @throws ServiceError `insufficient_scope` */
function allowedCaller({ scope, consumer, everyIntegration }: Route, request: FastifyRequest): Given['caller'] {
  const caller = callerOf(request, scope !== null)
  const { integrationId } = request.params as Record<string, string>
  if (caller.consumerScopes && !caller.consumerScopes.some((each) => each === consumer)) {
    const message = consumer
      ? `This consumer token may not do that: it needs the scope ${consumer}, and has ${caller.consumerScopes.join(', ')}.`
      : 'A consumer token may not do that.'
    throw new ServiceError('insufficient_scope', { message })
  }
  if (scope !== null) requireScope(caller, scope, integrationId)
  if (everyIntegration && caller.integrationIds) {
    const message = 'This API key may not do that: it is for some integrations, and this is about all of them.'
    throw new ServiceError('insufficient_scope', { message })
  }
  return caller
}

/** No database keeps U+0000. In bodies it was looked for already. @throws ServiceError `invalid_request` */
function requireStorable(parts: Readonly<Record<string, unknown>>): void {
  if (!Object.values(parts).flat().join('').includes('\0')) return
  throw new ServiceError('invalid_request', { message: 'The address must not hold U+0000.' })
}

type Keyed = { readonly key: string; readonly work: () => Promise<Answered> }

async function answerOnce(route: Route, { platform, caller, request }: Call, { key, work }: Keyed): Promise<Answered> {
  const { replayed, ...answered } = await oncePerKey(
    platform.store,
    { ownerId: caller.ownerId, apiKeyId: caller.keyId, route: route.id, key },
    { url: request.url, body: request.body ?? null },
    {
      work,
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
