import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'

const REQUEST_ID_HEADER = 'x-request-id'
export const REQUEST_ID_LABEL = 'requestId'

const ACCEPTED_ID = /^[A-Za-z0-9._-]{8,64}$/

/** Probes come every few seconds and have nothing new. */
const PROBES = new Set(['/healthz', '/readyz', '/metrics'])

/** The caller's own id for a request, if it is fit for a log; otherwise a new one. */
export function requestIdOf(request: Pick<IncomingMessage, 'headers'>): string {
  const given = request.headers[REQUEST_ID_HEADER]
  return typeof given === 'string' && ACCEPTED_ID.test(given) ? given : randomUUID()
}

/**
 * Every answer carries its request's id, refusals and streams too, and one line is logged when it has been sent or its
 * client has left. Neither query nor body nor the address of an unknown route is logged: callers put keys there.
 *
 * Must be registered before any other hook that may answer.
 */
export function logRequests(app: FastifyInstance): void {
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
        ...(!raw.writableFinished && { clientLeft: true }),
      }
      if (route !== undefined && PROBES.has(route)) request.log.debug(fields, 'request')
      else request.log.info(fields, 'request')
    })
    done()
  })
}
