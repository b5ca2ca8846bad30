import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Usage } from '@bureau/protocol'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'

const LATENCY_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const RUN_SECONDS = [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800]
const LOOP_RESOLUTION_MS = 20
const NANOSECONDS = 1e9

/** The metrics of one server. Numbers change once for each run, model request or tool call, never for each token. */
export class Metrics {
  readonly registry = new Registry()
  readonly #loop = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS })
  readonly runs = this.#counter('bureau_runs_total', 'Runs that have ended.', ['agency', 'status'])
  readonly runsInProgress = this.#gauge('bureau_runs_in_progress', 'Runs that are being worked on.', ['agency'])
  readonly openStreams = this.#gauge('bureau_open_streams', 'Streamed answers that are open.', ['agency'])
  readonly tokens = this.#counter(
    'bureau_tokens_total',
    'Tokens, as the providers count them. Cached ones are part of input, reasoning of output.',
    ['agency', 'agent', 'model', 'type'],
  )
  readonly cost = this.#counter('bureau_cost_usd_total', 'Estimated cost in US dollars; 0 where a price is unknown.', [
    'agency',
    'agent',
    'model',
  ])
  readonly sessions = this.#gauge('bureau_realtime_sessions', 'Voice sessions that are open.', ['agency'])
  readonly modelRequests = this.#counter(
    'bureau_model_requests_total',
    'Requests to models, by how they ended: ok or an error code.',
    ['agent', 'outcome'],
  )
  readonly providerErrors = this.#counter(
    'bureau_provider_errors_total',
    'Requests to models that failed, by error code.',
    ['code'],
  )
  readonly toolCalls = this.#counter(
    'bureau_tool_calls_total',
    'Calls of tools, by how they ended: ok, failed or cancelled.',
    ['agent', 'tool', 'outcome'],
  )
  readonly runSeconds = this.#histogram('bureau_run_duration_seconds', 'How long runs took.', RUN_SECONDS)
  readonly sessionSeconds = this.#histogram(
    'bureau_realtime_session_duration_seconds',
    'How long voice sessions took.',
    RUN_SECONDS,
  )
  readonly firstTokenSeconds = this.#histogram(
    'bureau_time_to_first_token_seconds',
    'From the start of a run to the first piece of any answer.',
    LATENCY_SECONDS,
  )

  readonly eventLoopLag = this.#measured(
    'bureau_event_loop_lag_seconds',
    'Delay of the event loop since the last reading.',
    ['quantile'],
    (gauge) => this.#measureLoop(gauge),
  )
  readonly memory = this.#measured('bureau_process_memory_bytes', 'Memory of the process.', ['kind'], measureMemory)

  constructor() {
    this.#loop.enable()
  }

  /** What one agent has spent on one model. */
  countUsage(labels: Record<'agency' | 'agent' | 'model', string>, usage: Usage): void {
    this.tokens.inc({ ...labels, type: 'input' }, usage.input_tokens)
    this.tokens.inc({ ...labels, type: 'cached' }, usage.cached_tokens)
    this.tokens.inc({ ...labels, type: 'output' }, usage.output_tokens)
    this.tokens.inc({ ...labels, type: 'reasoning' }, usage.reasoning_tokens ?? 0)
    this.cost.inc(labels, usage.total_cost)
  }

  /** In the text format of Prometheus. */
  text(): Promise<string> {
    return this.registry.metrics()
  }

  close(): void {
    this.#loop.disable()
    this.registry.clear()
  }

  #counter<Label extends string>(name: string, help: string, labelNames: readonly Label[]): Counter<Label> {
    return new Counter({ name, help, labelNames, registers: [this.registry] })
  }

  #gauge<Label extends string>(name: string, help: string, labelNames: readonly Label[]): Gauge<Label> {
    return new Gauge({ name, help, labelNames, registers: [this.registry] })
  }

  #histogram(name: string, help: string, buckets: number[]): Histogram<'agency'> {
    return new Histogram({ name, help, buckets, labelNames: ['agency'], registers: [this.registry] })
  }

  #measureLoop(gauge: Gauge<'quantile'>): void {
    const loop = this.#loop
    for (const quantile of [0.5, 0.99]) gauge.set({ quantile }, loop.percentile(quantile * 100) / NANOSECONDS || 0)
    gauge.set({ quantile: 1 }, loop.max / NANOSECONDS)
    loop.reset()
  }

  /** A gauge that is worked out when it is read. */
  #measured<Label extends string>(
    name: string,
    help: string,
    labelNames: Label[],
    measure: (gauge: Gauge<Label>) => void,
  ): Gauge<Label> {
    return new Gauge({
      name,
      help,
      labelNames,
      registers: [this.registry],
      collect() {
        measure(this)
      },
    })
  }
}

function measureMemory(gauge: Gauge<'kind'>): void {
  const { rss, heapUsed, external } = process.memoryUsage()
  gauge.set({ kind: 'resident' }, rss)
  gauge.set({ kind: 'heap' }, heapUsed)
  gauge.set({ kind: 'external' }, external)
}
