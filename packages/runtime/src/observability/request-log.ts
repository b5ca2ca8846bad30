import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

const REQUEST_ID_HEADER = 'x-request-id'
export const REQUEST_ID_LABEL = 'requestId'

const ACCEPTED_ID = /^[A-Za-z0-9._-]{8,64}$/

type FactsOf = (request: FastifyRequest, reply: FastifyReply) => Readonly<Record<string, unknown>>

/** Probes come every few seconds and have nothing new. */
const PROBES = new Set(['/healthz', '/readyz', '/metrics', '/v1/admin/metrics'])

/** The caller's own id for a request, if it is fit for a log; otherwise a new one. */
export function requestIdOf(request: Pick<IncomingMessage, 'headers'>, newId: () => string = randomUUID): string {
  const given = request.headers[REQUEST_ID_HEADER]
  return typeof given === 'string' && ACCEPTED_ID.test(given) ? given : newId()
}

/**
 * Every answer carries its request's id, refusals and streams too, and one line is logged when it has been sent or its
 * client has left. Neither query nor body nor the address of an unknown route is logged: callers put keys there.
 *
 * Must be registered before any other hook that may answer.
 *
 * @param factsOf - What is known of a request besides, when it has been answered.
 */
export function logRequests(app: FastifyInstance, factsOf: FactsOf = () => ({})): void {
  app.addHook('onRequest', (request, reply, done) => {
    reply.header(REQUEST_ID_HEADER, request.id)
    const startedAt = performance.now()
    const { raw } = reply
    raw.once('close', () => {
      const { url: route } = request.routeOptions
      const fields = {
        method: request.method,
        ...(route !== undefined && { route }),
        status: raw.statusCode,
        durationMs: Math.round(performance.now() - startedAt),
        ...factsOf(request, reply),
        ...(!raw.writableFinished && { clientLeft: true }),
      }
      if (route !== undefined && PROBES.has(route)) request.log.debug(fields, 'request')
      else request.log.info(fields, 'request')
    })
    done()
  })
}
