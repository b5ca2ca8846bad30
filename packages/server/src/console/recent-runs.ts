import type { OnToolFailure, RunObserver, RunSpan } from '@bureau/framework'
import type { RecentRun, RecentRunDetail } from '@bureau/protocol'
import type { StartRun } from '@bureau/runtime'
import { RecordedRun } from './recorded-run.ts'

const MAX_RUNS = 200
/** Of all runs together, counted in characters: about as many bytes. */
const MAX_LENGTH = 67_108_864

type Recording = {
  readonly observer: RunObserver
  readonly onFailure: (error: unknown) => void
  readonly onToolFailure: OnToolFailure
}

type RunFilter = { readonly agency?: string | undefined; readonly status?: RecentRun['status'] | undefined }

/**
 * What the latest 200 runs of this process have done, for its operator: in memory, 64 MiB at most, gone with the process.
 * When there is no more room the oldest are forgotten, and one that still runs is no longer recorded.
 */
export class RecentRuns {
  readonly #showsPrompts: boolean
  /** The oldest comes first. */
  readonly #runs = new Map<string, RecordedRun>()
  /** Of all that is kept. */
  #length = 0

  /** @param showsPrompts - True: what models are sent is recorded too. */
  constructor({ showsPrompts }: { readonly showsPrompts: boolean }) {
    this.#showsPrompts = showsPrompts
  }

  /** Records the run that is about to begin. */
  record(asked: Pick<StartRun, 'agency' | 'agencyName' | 'input' | 'userId' | 'resume'>): Recording {
    let recorded: RecordedRun | undefined
    const observer = (step: Parameters<RunObserver>[0]): RunSpan => {
      recorded = new RecordedRun(step, asked, { showsPrompts: this.#showsPrompts, onGrown: (by) => this.#grow(by) })
      if (asked.resume) this.#goOnFrom(recorded.origin)
      this.#runs.set(step.runId, recorded)
      this.#makeRoom()
      return recorded.span
    }
    return {
      observer,
      onFailure: (error) => recorded?.failed(error),
      onToolFailure: (error, facts) => recorded?.toolFailed(error, facts),
    }
  }

  /** Newest first. */
  list({ agency, status }: RunFilter): RecentRun[] {
    return [...this.#runs.values()]
      .map((run) => run.summary)
      .filter((run) => (agency ?? run.agency) === run.agency && (status ?? run.status) === run.status)
      .toReversed()
  }

  find(runId: string): RecentRunDetail | undefined {
    return this.#runs.get(runId)?.detail
  }

  /** What waited there is decided, and what still waits is held by the run that goes on. */
  #goOnFrom(origin: string): void {
    for (const run of this.#runs.values()) if (run.origin === origin) run.wentOn()
  }

  #grow(by: number): void {
    this.#length += by
    this.#makeRoom()
  }

  #makeRoom(): void {
    for (const [runId, run] of this.#runs) {
      if (this.#runs.size <= MAX_RUNS && this.#length <= MAX_LENGTH) return
      this.#runs.delete(runId)
      run.stop()
      this.#length -= run.length
    }
  }
}
