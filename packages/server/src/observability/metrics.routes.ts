import type { FastifyInstance } from 'fastify'
import { rawRoute, type ServerRoute } from '../http/route.ts'
import type { Metrics } from './metrics.ts'

export type MetricsOptions = {
  /** Default `/metrics`. */
  readonly path?: string
  /** A port for metrics alone, on the server's host. Default: the server's own port. */
  readonly port?: number
}

const STREAM_ROUTE = /^\/([^/]+)\/get_response_stream$/

/** `GET <path>` in the text format of Prometheus. */
export function metricsRoute(metrics: Metrics, path: string): ServerRoute {
  const { contentType } = metrics.registry
  return rawRoute(
    {
      method: 'GET',
      url: path,
      id: 'metrics',
      tag: 'operation',
      summary: 'Metrics',
      success: { 200: { contentType, description: 'In the text format of Prometheus.' } },
      errors: [],
    },
    async (_call, reply) => {
      reply.type(contentType).header('cache-control', 'no-store')
      return metrics.text()
    },
  )
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
