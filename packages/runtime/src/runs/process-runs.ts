import { setTimeout as sleep } from 'node:timers/promises'
import { BriefMap } from '../brief-map.ts'
import { EndedRuns, type EndedRunsOptions } from './ended-runs.ts'
import { type CancelOutcome, type CancelRequest, isOwner, type LiveRun, type OwnedRun } from './run-registry.ts'

/** The runs of this process that a cancel can find: live ones, and the ends of those that were stopped. */
export class ProcessRuns {
  readonly #live = new BriefMap<string, LiveRun>()
  /** Live runs whose end will be kept. */
  readonly #stopped = new Set<string>()
  readonly #ended: EndedRuns
  readonly #onForgotten: (runId: string) => void

  /** @param options - `onForgotten` is called with the id of every run that is no longer known. */
  constructor(options: EndedRunsOptions = {}) {
    this.#ended = new EndedRuns(options)
    this.#onForgotten = options.onForgotten ?? (() => {})
  }

  /** Knows the run until it ends. */
  add(run: LiveRun): void {
    this.#live.set(run.runId, run)
    void run.ended.then((ended) => {
      this.#live.delete(run.runId)
      if (this.#stopped.delete(run.runId)) this.#ended.keep(run, ended)
      else this.#onForgotten(run.runId)
    })
  }

  /** As in `RunRegistry`. */
  abandon(run: LiveRun): void {
    run.control.cancel('immediate')
    this.#stopped.add(run.runId)
    // It may have ended before its client had read the end.
    if (!this.#live.has(run.runId)) this.add(run)
  }

  /** As in `RunRegistry`, but only for runs of this process. */
  async cancel(request: CancelRequest): Promise<CancelOutcome | undefined> {
    const run = this.#live.get(request.runId)
    if (!run) {
      const ended = this.#ended.find(request)
      return ended && { ended }
    }
    if (!isOwner(run, request)) return undefined
    this.#stopped.add(run.runId)
    return cancelAndWait(run, request)
  }

  /** As in `RunRegistry`. */
  cancelAll(): void {
    for (const { control } of this.#live.values()) control.cancel('immediate')
  }

  runs(): OwnedRun[] {
    return [...this.#live.values(), ...this.#ended.runs()]
  }

  has(runId: string): boolean {
    return this.#live.has(runId) || this.#ended.has(runId)
  }

  /** Forgets all runs, without `onForgotten`. */
  clear(): void {
    this.#live.clear()
    this.#stopped.clear()
    this.#ended.clear()
  }
}

/** Cancels a run of this process and waits for its end. */
async function cancelAndWait(
  run: LiveRun,
  { mode, timeoutMs }: Pick<CancelRequest, 'mode' | 'timeoutMs'>,
): Promise<CancelOutcome> {
  run.control.cancel(mode)
  const waiting = new AbortController()
  const timeout = sleep(timeoutMs, null, { signal: waiting.signal, ref: false })
  timeout.catch(() => {}) // Stopped below, once the run has ended.
  const ended = await Promise.race([run.ended, timeout])
  waiting.abort()
  return ended || !run.soFar ? { ended } : { ended, soFar: run.soFar() }
}
