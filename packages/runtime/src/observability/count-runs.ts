import type { RunObserver, RunSpan, RunStep, StepEnd } from '@bureau/framework'
import type { Metrics } from './metrics.ts'
import type { RunRoot } from './run-steps.ts'

/** Callers can bring models of any name, and models make up tools; more than this many are counted as `other`. */
const MAX_NAMES = 200

const MAX_CHARACTERS = 128

/** Keeps the values of a label few and short: what comes after the first `limit` values is `other`. */
class LabelLimit {
  readonly #limit: number
  readonly #known = new Set<string>()

  constructor(limit: number) {
    this.#limit = limit
  }

  of(given: string): string {
    const value = given.slice(0, MAX_CHARACTERS)
    if (this.#known.has(value)) return value
    if (this.#known.size >= this.#limit) return 'other'
    this.#known.add(value)
    return value
  }
}

/** Each kind has its own places, so that no caller's models can take those of the tools. */
type Names = { readonly models: LabelLimit; readonly tools: LabelLimit }

/** Counts what runs do. `nameOf` gives an agency's name in the routes. */
export function countRuns(metrics: Metrics, nameOf: (agency: RunRoot['agency']) => string): RunObserver {
  const names = { models: new LabelLimit(MAX_NAMES), tools: new LabelLimit(MAX_NAMES) }
  return (run) => {
    const agency = nameOf(run.agency)
    metrics.runsInProgress.inc({ agency })
    return new CountedRun(metrics, agency, names)
  }
}

class CountedRun implements RunSpan {
  readonly #metrics: Metrics
  readonly #agency: string
  readonly #names: Names
  readonly #startedAt = performance.now()
  #spoken = false

  constructor(metrics: Metrics, agency: string, names: Names) {
    this.#metrics = metrics
    this.#agency = agency
    this.#names = names
  }

  child(step: RunStep): RunSpan {
    const { kind } = step
    if (kind === 'model') return this.#step((end) => this.#countModelRequest(step.agent, end))
    if (kind === 'tool') return this.#step((end) => this.#countToolCall(step.agent, step.tool, end))
    return this.#step(() => {})
  }

  firstOutput(): void {
    if (this.#spoken) return
    this.#spoken = true
    this.#metrics.firstTokenSeconds.observe({ agency: this.#agency }, secondsSince(this.#startedAt))
  }

  end({ run, spent = [] }: StepEnd): void {
    const agency = this.#agency
    this.#metrics.runsInProgress.dec({ agency })
    this.#metrics.runSeconds.observe({ agency }, secondsSince(this.#startedAt))
    if (run) this.#metrics.runs.inc({ agency, status: run.status })
    for (const { agent, model, usage } of spent) {
      this.#metrics.countUsage({ agency, agent, model: this.#names.models.of(model) }, usage)
    }
  }

  #step(end: (end: StepEnd) => void): RunSpan {
    return { child: (step) => this.child(step), firstOutput: () => this.firstOutput(), end }
  }

  #countModelRequest(agent: string, { errorCode }: StepEnd): void {
    this.#metrics.modelRequests.inc({ agent, outcome: errorCode ?? 'ok' })
    if (errorCode !== null && errorCode !== 'cancelled') this.#metrics.providerErrors.inc({ code: errorCode })
  }

  #countToolCall(agent: string, name: string, { errorCode }: StepEnd): void {
    const outcome = errorCode === null ? 'ok' : errorCode === 'cancelled' ? 'cancelled' : 'failed'
    this.#metrics.toolCalls.inc({ agent, tool: this.#names.tools.of(name), outcome })
  }
}

function secondsSince(startedAt: number): number {
  return (performance.now() - startedAt) / 1_000
}
