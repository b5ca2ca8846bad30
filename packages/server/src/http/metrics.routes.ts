import { ConfigError } from '@bureau/protocol'
import { type Logger, type Metrics, type Observability, serveRoutes } from '@bureau/runtime'
import fastify, { type FastifyInstance } from 'fastify'
import type { MetricsOptions } from '../options.ts'
import type { Callers } from './callers.ts'
import { renderError } from './render-error.ts'
import { rawRoute, ROUTE_SETTINGS, type ServerRoute } from './route.ts'

const METRICS_PATH = /^(?:\/[A-Za-z0-9_.~-]+)+$/
const STREAM_ROUTE = /^\/([^/]+)\/get_response_stream$/

/** What an option of a server means; undefined: no metrics. @throws ConfigError the path is none. */
export function readMetricsOption(metrics: boolean | MetricsOptions | undefined): MetricsOptions | undefined {
  const options = typeof metrics === 'object' ? metrics : metrics ? {} : undefined
  const { path = '/metrics' } = options ?? {}
  if (!METRICS_PATH.test(path)) throw new ConfigError(`metrics.path: "${path}" must be a path such as /metrics.`)
  return options
}

/** Whoever reads metrics needs the token, like everywhere. */
type Serving = { readonly observability: Observability; readonly callers: Callers; readonly log: Logger }

/** Serves metrics, on the app's port or on one of their own. */
export function serveMetrics(app: FastifyInstance, options: MetricsOptions | undefined, serving: Serving): void {
  const { observability, callers, log } = serving
  const { metrics } = observability
  if (!options || !metrics) return
  const { path = '/metrics', port } = options
  countStreams(app, metrics)
  const routes = [metricsRoute(metrics, path)]
  if (port === undefined) return serveRoutes(app, routes, ROUTE_SETTINGS)
  const separate = fastify({ forceCloseConnections: true })
  separate.setErrorHandler(renderError)
  separate.addHook('onRequest', async (request) => callers.check(request))
  serveRoutes(separate, routes, ROUTE_SETTINGS)
  app.addHook('onReady', async () => {
    const url = await separate.listen({ host: callers.host, port })
    log.info({ url: `${url}${path}` }, 'metrics are served')
  })
  app.addHook('onClose', () => separate.close())
}

/** `GET <path>` in the text format of Prometheus. */
function metricsRoute(metrics: Metrics, path: string): ServerRoute {
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
function countStreams(app: FastifyInstance, metrics: Metrics): void {
  app.addHook('preHandler', (request, reply, done) => {
    const agency = STREAM_ROUTE.exec(request.routeOptions.url ?? '')?.[1]
    if (agency !== undefined) {
      metrics.openStreams.inc({ agency })
      reply.raw.once('close', () => metrics.openStreams.dec({ agency }))
    }
    done()
  })
}
