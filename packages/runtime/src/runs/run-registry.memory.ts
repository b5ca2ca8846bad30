import { cancelAndWait } from './cancel-and-wait.ts'
import { type CancelOutcome, type CancelRequest, type LiveRun, REPEAT_MS, type RunRegistry } from './run-registry.ts'

/** Embedded: the runs of this process. */
export class MemoryRunRegistry implements RunRegistry {
  readonly #runs = new Map<string, LiveRun>()
  readonly #cancelled = new Set<string>()

  async register(run: LiveRun): Promise<void> {
    this.#runs.set(run.runId, run)
    void run.ended.then(() => {
      if (!this.#cancelled.has(run.runId)) return this.#forget(run.runId)
      setTimeout(() => this.#forget(run.runId), REPEAT_MS).unref()
    })
  }

  async cancel(request: CancelRequest): Promise<CancelOutcome | undefined> {
    const run = this.#runs.get(request.runId)
    if (!run || run.agency !== request.agency || run.userId !== request.userId) return undefined
    this.#cancelled.add(run.runId)
    return cancelAndWait(run, request)
  }

  async close(): Promise<void> {
    this.#runs.clear()
    this.#cancelled.clear()
  }

  #forget(runId: string): void {
    this.#runs.delete(runId)
    this.#cancelled.delete(runId)
  }
}
