import type { IncomingHttpHeaders } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Agency, RunObserver } from '@bureau/framework'
import type { FastifyRequest } from 'fastify'
import type { Logger } from '../log.ts'
import { countRuns } from './count-runs.ts'
import { countSession, type SessionObserver } from './count-sessions.ts'
import { logSteps } from './log-steps.ts'
import type { Metrics } from './metrics.ts'
import { type OpenTracing, openTracing, type TracingOptions } from './open-tracing.ts'
import { harmless, observeAll } from './run-steps.ts'
import type { TracedRuns, traceRuns } from './trace-runs.ts'

type ObservabilityOptions = {
  readonly tracing?: boolean | TracingOptions | undefined
  /** Whether anything is counted. */
  readonly metrics: boolean
  readonly version: string
  /** The standard OTEL_EXPORTER_OTLP_ENDPOINT of the environment: switches tracing on where no option says otherwise. */
  readonly endpoint: string | undefined
  readonly agencies: ReadonlyMap<string, Agency>
  readonly log: Logger
}

/** What asks for runs: steps are logged with its log, at `debug`, and its `traceparent` header names the trace. */
type Asking = Pick<FastifyRequest, 'log'> & { readonly headers?: IncomingHttpHeaders }

type Parts = {
  readonly tracing: OpenTracing | undefined
  readonly traceRuns: typeof traceRuns | undefined
  readonly metrics: Metrics | undefined
}

const CLOSE_TIMEOUT_MS = 2_000

/** What a server tells its operators of its runs. */
export class Observability {
  /** Undefined: nothing is counted. */
  readonly metrics: Metrics | undefined
  readonly #options: ObservabilityOptions
  readonly #tracing: OpenTracing | undefined
  readonly #traceRuns: typeof traceRuns | undefined
  readonly #counting: RunObserver | undefined

  /** @throws ConfigError an option is not valid, or tracing needs packages that are not installed. */
  static async open(options: ObservabilityOptions): Promise<Observability> {
    const tracing = await openTracingOf(options)
    // Loaded only where they are used: they make up a good part of the start.
    const spans = tracing && (await import('./trace-runs.ts'))
    const counters = options.metrics && (await import('./metrics.ts'))
    const metrics = counters ? new counters.Metrics() : undefined
    return new Observability(options, { tracing, traceRuns: spans?.traceRuns, metrics })
  }

  private constructor(options: ObservabilityOptions, { tracing, traceRuns, metrics }: Parts) {
    this.#options = options
    this.#tracing = tracing
    this.#traceRuns = traceRuns
    this.metrics = metrics
    this.#counting = metrics && countRuns(metrics, (agency) => this.#nameOf(agency))
  }

  /** Watches the runs of one request, or of none, beside `recorder`; undefined when nobody wants to know. */
  observer(asking?: Asking, recorder?: RunObserver): RunObserver | undefined {
    const log = asking?.log as Logger | undefined
    const logging = log?.isLevelEnabled('debug') ? logSteps(log) : undefined
    return observeAll([
      this.#harmless('counted', this.#counting),
      this.#harmless('traced', this.#tracingOf(asking)),
      this.#harmless('logged', logging),
      this.#harmless('recorded', recorder),
    ])
  }

  /** Watches a voice session, from now on; undefined when nobody wants to know. */
  session(agency: string): SessionObserver | undefined {
    return this.metrics && countSession(this.metrics, agency)
  }

  async close(): Promise<void> {
    this.metrics?.close()
    // A collector that cannot be reached must not keep the process alive.
    await Promise.race([this.#tracing?.close().catch(() => {}), sleep(CLOSE_TIMEOUT_MS, undefined, { ref: false })])
  }

  /** What an observer throws, as a program's own tracer may, is logged, and nothing else. */
  #harmless(done: string, observer: RunObserver | undefined): RunObserver | undefined {
    return observer && harmless(observer, (err) => this.#options.log.warn({ err }, `a run could not be ${done}`))
  }

  #tracingOf(asking: Asking | undefined): RunObserver | undefined {
    return this.#tracing && this.#traceRuns?.(this.#traced(this.#tracing), asking?.headers?.['traceparent'])
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

/** Tracing that only the environment asks for must not keep a server from starting. */
async function openTracingOf(options: ObservabilityOptions): Promise<OpenTracing | undefined> {
  const { tracing, endpoint, version, log } = options
  const given = typeof tracing === 'object' ? tracing : {}
  const onLost = (error: unknown): void => log.warn({ err: error }, 'traces could not be sent')
  if (tracing) return openTracing({ ...(endpoint !== undefined && { endpoint }), ...given }, version, onLost)
  if (tracing === false || endpoint === undefined) return undefined
  return openTracing({ endpoint }, version, onLost).catch((error: unknown) => {
    log.warn({ err: error }, 'OTEL_EXPORTER_OTLP_ENDPOINT is set, but traces cannot be sent')
    return undefined
  })
}
