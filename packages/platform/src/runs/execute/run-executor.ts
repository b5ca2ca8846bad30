import type { CancelMode } from '@bureau/protocol'
import { COALESCE_MS, type EventChunk, FlushTimer, type Logger, type RunLogs, RunRecorder } from '@bureau/runtime'
import type { PlatformStore } from '../../platform-store.ts'
import { appendEventChunk, readEventChunks } from '../../run-records/event-chunks.ts'
import { RECOVERY_GAP } from '../recover/recover-lost-runs.ts'
import { recordOutcome } from '../settle/record-outcome.ts'
import { listOwnRuns } from '../recover/list-own-runs.ts'
import type { Ending } from '../settle/write-outcome.ts'
import { ActiveRun, type ReservedRun } from './active-run.ts'
import { RunProgress } from './run-progress.ts'

type RunExecutorOptions = {
  readonly store: PlatformStore
  readonly logs: RunLogs
  readonly log: Logger
  /** Works on a run until it has ended and its end is recorded. Never throws. */
  readonly execute: (run: ActiveRun) => Promise<void>
}

const STORE_MS = 1_000
const STORES_PER_TICK = 50

/** The runs that this process executes: starts them, finds them, stops them. */
export class RunExecutor {
  readonly #options: RunExecutorOptions
  readonly #runs = new Map<string, ActiveRun>()
  readonly #coalesce = new FlushTimer(COALESCE_MS)
  readonly #storing: NodeJS.Timeout
  #draining = false
  #nextToStore = 0

  constructor(options: RunExecutorOptions) {
    this.#options = options
    this.#storing = setInterval(() => this.#storeLogs(), STORE_MS).unref()
  }

  get size(): number {
    return this.#runs.size
  }

  /** True: no more runs are to be admitted. */
  get draining(): boolean {
    return this.#draining
  }

  /** Begins a run that was just reserved. Its log can be read when this returns. */
  start(reserved: ReservedRun): ActiveRun {
    const run = new ActiveRun(reserved, (active) => this.#equip(active))
    this.#runs.set(reserved.runId, run)
    void this.#options.execute(run).finally(() => {
      this.#runs.delete(reserved.runId)
      run.close()
    })
    return run
  }

  /**
   * Looks after runs that are this process's in the records and that it does not know. A reserved run is begun:
   * the answer to its COMMIT was lost. A running one is ended: something of ours went wrong, and its chat must
   * not stay occupied.
   */
  async adopt(bootId: string): Promise<void> {
    const { store, log } = this.#options
    for (const run of await store.db.run(listOwnRuns, bootId)) {
      const { ownerId, runId, state, lastEventSeq } = run
      if (this.#runs.has(runId)) continue
      log.warn({ runId, state }, 'a run of this process was not known to it')
      if (state === 'reserved') this.start({ ...run, bootId })
      else await store.db.run(recordOutcome, { ownerId, runId, bootId, ending: lostEnding(lastEventSeq) })
    }
  }

  find(runId: string): ActiveRun | undefined {
    return this.#runs.get(runId)
  }

  /** Tells a run of this process to stop; does nothing about any other. */
  cancel(runId: string, mode: CancelMode): void {
    this.#runs.get(runId)?.cancel(mode)
  }

  /** The runs of an earlier start of this process belong to others now. */
  fence(bootId: string): void {
    for (const run of this.#runs.values()) if (run.reserved.bootId === bootId) run.fence()
  }

  /** Admits no more and lets runs finish, at most `drainMs`; what is left then fails with `server_shutdown`. */
  async drain(drainMs: number): Promise<void> {
    this.#draining = true
    await Promise.race([this.#allEnded(), aborted(AbortSignal.timeout(drainMs))])
    for (const run of this.#runs.values()) run.fail('server_shutdown')
    await this.#allEnded()
    clearInterval(this.#storing)
  }

  async #allEnded(): Promise<void> {
    await Promise.all([...this.#runs.values()].map((run) => run.ended))
  }

  #equip(run: ActiveRun): { log: ActiveRun['log']; recorder: RunRecorder; progress: RunProgress } {
    const { store, logs } = this.#options
    const { ownerId, runId, bootId } = run.reserved
    const writer = { ownerId, runId, bootId }
    const onError = (error: unknown): void =>
      this.#options.log.warn({ err: error, runId }, 'a write of a run is repeated')
    const progress = new RunProgress({ db: store.db, writer, onFenced: () => run.fence(), onError })
    const log = logs.create({
      runId,
      chunks: {
        append: async (chunk) => this.#appendChunk(run, chunk),
        read: async (afterSeq) => (await store.db.run(readEventChunks, { ownerId, runId, afterSeq })).chunks,
      },
      snapshot: () => ({ new_messages: progress.messages, ...(recorder.partial && { partial: recorder.partial }) }),
    })
    const onOutputLimit = (): void => run.fail('output_limit_exceeded')
    const recorder = new RunRecorder({ log, timer: this.#coalesce, onOutputLimit })
    return { log, recorder, progress }
  }

  async #appendChunk(run: ActiveRun, chunk: EventChunk): Promise<void> {
    const { ownerId, runId, bootId } = run.reserved
    const outcome = await this.#options.store.db.run(appendEventChunk, { ownerId, runId, bootId, chunk })
    if (outcome === 'fenced') run.fence()
  }

  /**
   * Stores what is new of the logs: of each run every second, and of many runs in turn, so that a crowd of streams does
   * not keep the database from everything else. A chunk that could not be stored is stored with the next ones.
   */
  #storeLogs(): void {
    const runs = [...this.#runs.values()]
    const turn = runs.slice(this.#nextToStore, this.#nextToStore + STORES_PER_TICK)
    this.#nextToStore = this.#nextToStore + STORES_PER_TICK >= runs.length ? 0 : this.#nextToStore + STORES_PER_TICK
    for (const { log } of turn) log.store().catch(() => {})
  }
}

/** As of a run whose process died: its last events are made from the record. */
function lostEnding(lastEventSeq: number): Ending {
  return {
    state: 'failed',
    error: { code: 'runner_lost' },
    items: [],
    partial: null,
    calls: [],
    lastEventSeq: lastEventSeq + RECOVERY_GAP + 2,
    eventChunk: null,
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
