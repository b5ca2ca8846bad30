import { ProcessRuns } from './process-runs.ts'
import type { CancelOutcome, CancelRequest, LiveRun, RunRegistry } from './run-registry.ts'

/** Embedded: the runs of this process. */
export class MemoryRunRegistry implements RunRegistry {
  readonly #runs = new ProcessRuns()

  async register(run: LiveRun): Promise<void> {
    this.#runs.add(run)
  }

  abandon(run: LiveRun): void {
    this.#runs.abandon(run)
  }

  cancel(request: CancelRequest): Promise<CancelOutcome | undefined> {
    return this.#runs.cancel(request)
  }

  async isElsewhere(): Promise<boolean> {
    return false
  }

  cancelAll(): void {
    this.#runs.cancelAll()
  }

  async close(): Promise<void> {
    this.#runs.clear()
  }
}
