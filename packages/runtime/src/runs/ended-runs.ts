import type { RunEnded } from '@bureau/protocol'
import { Lingering } from '../run-log/lingering.ts'
import { isOwner, type OwnedRun } from './run-registry.ts'

/** How long the end of a run is kept for a cancel that comes after it, in milliseconds. */
export const KEPT_MS = 60_000
const MAX_RUNS = 10_000
const MAX_BYTES = 67_108_864

export type EndedRunsOptions = {
  /** Called with the id of a run when its end is no longer kept. */
  readonly onForgotten?: (runId: string) => void
  /** Default 10_000. */
  readonly maxRuns?: number
  /** Of all ends together, as JSON. Default 67_108_864 (64 MiB). */
  readonly maxBytes?: number
}

type EndedRun = OwnedRun & { readonly json: Buffer }

/**
 * The ends of runs that somebody stopped or left, for a minute: a cancel that comes too late still gets the messages.
 *
 * When there are too many of them the oldest are forgotten first.
 */
export class EndedRuns {
  readonly #runs = new Map<string, EndedRun>()
  readonly #lingering = new Lingering(KEPT_MS)
  readonly #options: Required<EndedRunsOptions>
  #bytes = 0

  constructor(options: EndedRunsOptions = {}) {
    this.#options = { onForgotten: () => {}, maxRuns: MAX_RUNS, maxBytes: MAX_BYTES, ...options }
  }

  /** Keeps the end of a run, once. An end that is larger than all of them together may be is forgotten at once. */
  keep({ runId, agency, userId }: OwnedRun, ended: RunEnded): void {
    const { onForgotten, maxRuns, maxBytes } = this.#options
    if (this.has(runId)) return
    // As text, because objects would hold on to what the run was made of, and their size is not known.
    const json = Buffer.from(JSON.stringify(ended))
    if (json.length > maxBytes) return onForgotten(runId)
    this.#runs.set(runId, { runId, agency, userId, json })
    this.#lingering.add(() => this.#forget(runId))
    this.#bytes += json.length
    for (const oldest of this.#runs.keys()) {
      if (this.#runs.size <= maxRuns && this.#bytes <= maxBytes) break
      this.#forget(oldest)
    }
  }

  /** Undefined: no end of this run is kept, or the run is somebody else's. */
  find(wanted: OwnedRun): RunEnded | undefined {
    const run = this.#runs.get(wanted.runId)
    return run && isOwner(run, wanted) ? (JSON.parse(run.json.toString()) as RunEnded) : undefined
  }

  has(runId: string): boolean {
    return this.#runs.has(runId)
  }

  /** Those whose ends are kept. */
  runs(): Iterable<OwnedRun> {
    return this.#runs.values()
  }

  /** Without `onForgotten`. */
  clear(): void {
    this.#runs.clear()
    this.#bytes = 0
  }

  #forget(runId: string): void {
    const run = this.#runs.get(runId)
    if (!run) return
    this.#runs.delete(runId)
    this.#bytes -= run.json.length
    this.#options.onForgotten(runId)
  }
}
