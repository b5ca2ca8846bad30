import { setTimeout as sleep } from 'node:timers/promises'
import fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import type { Agency, RunObserver } from '@bureau/framework'
import { ConfigError } from '@bureau/protocol'
import { type Logger, serveRoutes } from '@bureau/runtime'
import type { Callers } from '../http/callers.ts'
import { renderError } from '../http/render-error.ts'
import { ROUTE_SETTINGS, type ServerRoute } from '../http/route.ts'
import { countRuns } from './count-runs.ts'
import { countSession, type SessionObserver } from './count-sessions.ts'
import { logSteps } from './log-steps.ts'
import type { Metrics } from './metrics.ts'
import { countStreams, type MetricsOptions, metricsRoute } from './metrics.routes.ts'
import { type OpenTracing, openTracing, type TracingOptions } from './open-tracing.ts'
import { observeAll } from './run-steps.ts'
import type { TracedRuns, traceRuns } from './trace-runs.ts'

type ObservabilityOptions = {
  readonly tracing: boolean | TracingOptions | undefined
  readonly metrics: boolean | MetricsOptions | undefined
  readonly version: string
  /** The standard OTEL_EXPORTER_OTLP_ENDPOINT of the environment: switches tracing on where no option says otherwise. */
  readonly endpoint: string | undefined
  /** Whoever reads metrics needs it, like everywhere. */
  readonly callers: Callers
  readonly agencies: ReadonlyMap<string, Agency>
  readonly log: Logger
}

type Parts = {
  readonly tracing: OpenTracing | undefined
  readonly traceRuns: typeof traceRuns | undefined
  readonly metrics: Metrics | undefined
}

const METRICS_PATH = /^(?:\/[A-Za-z0-9_.~-]+)+$/
const CLOSE_TIMEOUT_MS = 2_000

/** What a server tells its operators of its runs. */
export class Observability {
  readonly #options: ObservabilityOptions
  readonly #tracing: OpenTracing | undefined
  readonly #traceRuns: typeof traceRuns | undefined
  readonly #metrics: Metrics | undefined
  readonly #counting: RunObserver | undefined

  /** @throws ConfigError an option is not valid, or tracing needs packages that are not installed. */
  static async open(options: ObservabilityOptions): Promise<Observability> {
    const { path = '/metrics' } = metricsOptions(options) ?? {}
    if (!METRICS_PATH.test(path)) throw new ConfigError(`metrics.path: "${path}" must be a path such as /metrics.`)
    const tracing = await openTracingOf(options)
    // Loaded only where they are used: they make up a good part of the start.
    const spans = tracing && (await import('./trace-runs.ts'))
    const counters = metricsOptions(options) && (await import('./metrics.ts'))
    const parts = { tracing, traceRuns: spans?.traceRuns, metrics: counters && new counters.Metrics() }
    return new Observability(options, parts)
  }

  private constructor(options: ObservabilityOptions, parts: Parts) {
    this.#options = options
    this.#tracing = parts.tracing
    this.#traceRuns = parts.traceRuns
    this.#metrics = parts.metrics
    this.#counting = this.#metrics && countRuns(this.#metrics, (agency) => this.#nameOf(agency))
  }

  /** Watches the runs of one request, or runs without a request, beside `recorder`; undefined when nobody wants to know. */
  observer(request?: FastifyRequest, recorder?: RunObserver): RunObserver | undefined {
    const requestLog = request?.log as Logger | undefined
    const log = requestLog?.isLevelEnabled('debug') ? logSteps(requestLog) : undefined
    const traceParent = request?.headers['traceparent']
    const tracing = this.#tracing && this.#traceRuns?.(this.#traced(this.#tracing), traceParent)
    return observeAll([this.#counting, tracing, log, recorder])
  }

  /** Watches a voice session, from now on; undefined when nobody wants to know. */
  session(agency: string): SessionObserver | undefined {
    return this.#metrics && countSession(this.#metrics, agency)
  }

  /** Adds the metrics route, and closes everything with the server. */
  install(app: FastifyInstance): void {
    const { path = '/metrics', port } = metricsOptions(this.#options) ?? {}
    if (this.#metrics) {
      countStreams(app, this.#metrics)
      const routes = [metricsRoute(this.#metrics, path)]
      if (port === undefined) serveRoutes(app, routes, ROUTE_SETTINGS)
      else this.#listen(app, { routes, path, port })
    }
    app.addHook('onClose', async () => {
      this.#metrics?.close()
      // A collector that cannot be reached must not keep the process alive.
      await Promise.race([this.#tracing?.close().catch(() => {}), sleep(CLOSE_TIMEOUT_MS, undefined, { ref: false })])
    })
  }

  #listen(app: FastifyInstance, { routes, path, port }: { routes: ServerRoute[]; path: string; port: number }): void {
    const { callers, log } = this.#options
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

  #traced({ tracer }: OpenTracing): TracedRuns {
    const { tracing } = this.#options
    const traceContent = typeof tracing === 'object' && tracing.traceContent === true
    return { tracer, traceContent, nameOf: (agency) => this.#nameOf(agency) }
  }

  #nameOf(agency: Agency): string {
    for (const [name, each] of this.#options.agencies) if (each === agency) return name
    return agency.name
  }
}

function metricsOptions({ metrics }: ObservabilityOptions): MetricsOptions | undefined {
  return typeof metrics === 'object' ? metrics : metrics ? {} : undefined
}

/** Tracing that only the environment asks for must not keep a server from starting. */
async function openTracingOf({
  tracing,
  endpoint,
  version,
  log,
}: ObservabilityOptions): Promise<OpenTracing | undefined> {
  const options = typeof tracing === 'object' ? tracing : {}
  if (tracing) return openTracing({ ...(endpoint !== undefined && { endpoint }), ...options }, version)
  if (tracing === false || endpoint === undefined) return undefined
  return openTracing({ endpoint }, version).catch((error: unknown) => {
    log.warn({ err: error }, 'OTEL_EXPORTER_OTLP_ENDPOINT is set, but traces cannot be sent')
    return undefined
  })
}
