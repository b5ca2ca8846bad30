import type { RunObserver, RunSpan, RunStep, StepEnd } from '@bureau/framework'

export type RunRoot = Parameters<RunObserver>[0]

/** Several observers as one; undefined when there is none. */
export function observeAll(observers: readonly (RunObserver | undefined)[]): RunObserver | undefined {
  const present = observers.filter((observer) => observer !== undefined)
  if (present.length <= 1) return present[0]
  return (run) => new SharedSpan(present.map((observe) => observe(run)))
}

class SharedSpan implements RunSpan {
  readonly #spans: readonly RunSpan[]

  constructor(spans: readonly RunSpan[]) {
    this.#spans = spans
  }

  child(step: RunStep): RunSpan {
    return new SharedSpan(this.#spans.map((span) => span.child(step)))
  }

  firstOutput(): void {
    for (const span of this.#spans) span.firstOutput()
  }

  end(end: StepEnd): void {
    for (const span of this.#spans) span.end(end)
  }
}

/** An observer that fails as it likes: what it throws is reported, and harms no run. */
export function harmless(observe: RunObserver, onError: (error: unknown) => void): RunObserver {
  const attempt = <Result>(work: () => Result): Result | undefined => {
    try {
      return work()
    } catch (error) {
      onError(error)
      return undefined
    }
  }
  const guarded = (span: RunSpan | undefined): RunSpan => ({
    child: (step) => guarded(attempt(() => span?.child(step))),
    firstOutput: () => attempt(() => span?.firstOutput()),
    end: (end) => attempt(() => span?.end(end)),
  })
  return (run) => guarded(attempt(() => observe(run)))
}
