import type { FastifyInstance } from 'fastify'
import type { Metrics } from './metrics.ts'

const STREAM_ROUTE = /^\/([^/]+)\/get_response_stream$/

/** `GET <path>` in the text format of Prometheus. */
export function metricsRoute(app: FastifyInstance, metrics: Metrics, path: string): void {
  app.get(path, async (_request, reply) => {
    reply.type(metrics.registry.contentType).header('cache-control', 'no-store')
    return metrics.text()
  })
}

/** Counts the streamed answers that are open. */
export function countStreams(app: FastifyInstance, metrics: Metrics): void {
  app.addHook('preHandler', (request, reply, done) => {
    const agency = STREAM_ROUTE.exec(request.routeOptions.url ?? '')?.[1]
    if (agency !== undefined) {
      metrics.openStreams.inc({ agency })
      reply.raw.once('close', () => metrics.openStreams.dec({ agency }))
    }
    done()
  })
}
