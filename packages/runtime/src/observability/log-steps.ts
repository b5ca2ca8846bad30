import type { Logger } from '../log.ts'
import type { RunObserver, RunSpan, RunStep, StepEnd } from '@bureau/framework'

/** Logs what a run does, at level `debug`: who worked, on which model, with which tools, how long and how it went. */
export function logSteps(log: Logger): RunObserver {
  return (run) => {
    log.debug({ runId: run.runId, agent: run.agent }, 'run started')
    return new LoggedStep(log, run.runId, run)
  }
}

type PartOfRun = Exclude<RunStep, { kind: 'run' }>

const MESSAGES: Readonly<Record<PartOfRun['kind'], { done: string; failed: string }>> = {
  agent: { done: 'agent done', failed: 'agent stopped' },
  model: { done: 'model answered', failed: 'model request failed' },
  tool: { done: 'tool returned', failed: 'tool failed' },
}

class LoggedStep implements RunSpan {
  readonly #log: Logger
  readonly #runId: string
  readonly #step: RunStep
  readonly #startedAt = performance.now()

  constructor(log: Logger, runId: string, step: RunStep) {
    this.#log = log
    this.#runId = runId
    this.#step = step
  }

  child(step: RunStep): RunSpan {
    return new LoggedStep(this.#log, this.#runId, step)
  }

  firstOutput(): void {
    // The duration of the whole answer is logged; its first token is a matter for metrics and traces.
  }

  end({ errorCode, response }: StepEnd): void {
    const step = this.#step
    if (step.kind === 'run') return // The end of every run is logged anyway, whoever watches.
    const fields = {
      runId: this.#runId,
      ...namesOf(step),
      durationMs: Math.round(performance.now() - this.#startedAt),
      ...(errorCode !== null && { errorCode }),
      ...(response && { usage: response.usage }),
    }
    this.#log.debug(fields, errorCode === null ? MESSAGES[step.kind].done : MESSAGES[step.kind].failed)
  }
}

function namesOf(step: PartOfRun): Record<string, string> {
  switch (step.kind) {
    case 'agent':
      return { agent: step.agent, ...(step.callerAgent !== null && { callerAgent: step.callerAgent }) }
    case 'model':
      return { agent: step.agent, model: step.model }
    case 'tool':
      return { agent: step.agent, tool: step.tool }
  }
}
