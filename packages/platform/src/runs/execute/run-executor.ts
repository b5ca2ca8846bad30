import { RUN_STATE_VERSION } from '@bureau/framework'
import type { CancelMode } from '@bureau/protocol'
import {
  BriefMap,
  COALESCE_MS,
  type EventChunk,
  FlushTimer,
  type Logger,
  type LogResume,
  type RunLogs,
  RunRecorder,
  StoredRunLog,
} from '@bureau/runtime'
import type { PlatformStore } from '../../platform-store.ts'
import { appendEventChunk, storedChunks } from '../../run-records/event-chunks.ts'
import { listOwnRuns } from '../recover/list-own-runs.ts'
import { EVENTS_OF_ATTEMPT, MAX_STALLED } from '../recover/take-up-policy.ts'
import { type TakenRun, takeUpRun } from '../recover/take-up-run.ts'
import type { RunContext } from '../admit/read-run-context.ts'
import { ActiveRun, HAND_OVER_MS, type ReservedRun } from './active-run.ts'
import { RunProgress } from './run-progress.ts'
import { readShownItems, type ShownItem } from './shown-items.ts'

type RunExecutorOptions = {
  readonly store: PlatformStore
  readonly logs: RunLogs
  readonly log: Logger
  /** Works on a run until it has ended and its end is recorded; without a context, it reads that first. Never throws. */
  readonly execute: (run: ActiveRun, context: RunContext | null) => Promise<void>
}

const STORE_MS = 1_000
const STORES_PER_TICK = 50

/** A run that was given to this process and that it is about to begin. */
type Taking = { readonly stalled: number; readonly begun: Promise<void> }

/** The runs that this process executes: starts them, finds them, stops them. */
export class RunExecutor {
  readonly #options: RunExecutorOptions
  readonly #runs = new BriefMap<string, ActiveRun>()
  readonly #coalesce = new FlushTimer(COALESCE_MS)
  readonly #storing: NodeJS.Timeout
  readonly #taking = new Map<string, Taking>()
  /** Earlier starts of this process: their runs belong to others. */
  readonly #fenced = new Set<string>()
  /** What begins while runs are handed over is handed over at once; when the process is closed, it is not worked on at all. */
  #phase: 'open' | 'draining' | 'handing over' | 'closed' = 'open'
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
    return this.#phase !== 'open'
  }

  /** Begins a run that was just admitted, with its context, or taken up. Its log can be read when this returns. */
  start(reserved: ReservedRun, context: RunContext | null): ActiveRun {
    const run = new ActiveRun(reserved, (active) => this.#equip(active))
    this.#runs.set(reserved.runId, run)
    if (this.#phase === 'closed' || this.#fenced.has(reserved.bootId)) run.fence()
    if (this.#phase === 'handing over') {
      run.handOver()
      run.control.handedOver()
    }
    void this.#options.execute(run, context).finally(() => {
      this.#runs.delete(reserved.runId)
      run.close()
    })
    return run
  }

  /**
   * Looks after runs that are this process's in the records and that it does not know: the answer to a COMMIT was lost,
   * or something of ours went wrong. This process goes on with them, as with those of others.
   */
  async adopt(bootId: string): Promise<void> {
    const { store, log } = this.#options
    for (const run of await store.db.run(listOwnRuns, bootId)) {
      if (this.#runs.has(run.runId) || this.#taking.has(run.runId)) continue
      log.warn({ runId: run.runId }, 'a run of this process was not known to it')
      const taken = await store.db.run(takeUpRun, { ...run, bootId, version: RUN_STATE_VERSION })
      if (taken.outcome === 'taken') this.takeUp(taken.run)
    }
  }

  /** Goes on with a run that was given to this process. */
  takeUp({ before, ...reserved }: TakenRun): void {
    const { runId } = reserved
    const earlier = this.#taking.get(runId)
    const begin = async (): Promise<void> => {
      // After an earlier loss of this process it may still be at work on it, or about to be.
      await earlier?.begun
      await this.#runs.get(runId)?.ended
      const takenUp = before && { ...before, ...(await this.#earlierLog(reserved, before)) }
      if (!this.#fenced.has(reserved.bootId)) this.start({ ...reserved, ...(takenUp && { takenUp }) }, null)
    }
    const begun = begin()
      .catch((error: unknown) => this.#options.log.error({ err: error, runId }, 'a run could not be taken up'))
      .finally(() => this.#taking.get(runId) === taking && this.#taking.delete(runId))
    const taking: Taking = { stalled: before?.stalled ?? 0, begun }
    this.#taking.set(runId, taking)
  }

  /** True: it works, or is about to work, on a run that other processes have died over, and that has made no step yet. */
  get hasSuspect(): boolean {
    const withoutStep = [...this.#runs.values()].filter(({ progress }) => progress.steps === 0)
    const candidates = [...this.#taking.values(), ...withoutStep.map(({ reserved }) => reserved.takenUp)]
    return candidates.some((run) => run?.stalled === MAX_STALLED - 1)
  }

  /** What is left of the log of the process before, and where that of this one begins. */
  async #earlierLog(
    { ownerId, runId }: ReservedRun,
    { attempt, lastEventSeq }: NonNullable<TakenRun['before']>,
  ): Promise<{ log: LogResume; shown: readonly ShownItem[] }> {
    const { store, logs } = this.#options
    const first = (attempt - 1) * EVENTS_OF_ATTEMPT + 1
    const chunks = storedChunks(store.db, { ownerId, runId })
    const stored = new StoredRunLog({ chunks, lastSeq: lastEventSeq + 1, ending: [] })
    const found = await logs.find(runId).catch(() => undefined)
    const earlier = found ?? { read: stored.read.bind(stored), head: lastEventSeq }
    const shown = await readShownItems(earlier).catch(() => [])
    return { log: { earlier: earlier.head, first }, shown }
  }

  find(runId: string): ActiveRun | undefined {
    return this.#runs.get(runId)
  }

  /** Tells a run of this process to stop; does nothing about any other. */
  cancel(runId: string, mode: CancelMode): void {
    this.#runs.get(runId)?.cancel(mode)
  }

  /** The runs of an earlier start of this process belong to others now, also those that it is about to begin. */
  fence(bootId: string): void {
    this.#fenced.add(bootId)
    for (const run of this.#runs.values()) if (run.reserved.bootId === bootId) run.fence()
  }

  /**
   * Admits no more and lets runs finish, at most `drainMs`. What is left then is given to other processes: after the next
   * step of each run, or at once when that takes longer than five seconds.
   */
  async drain(drainMs: number): Promise<void> {
    this.#phase = 'draining'
    await Promise.race([this.#allEnded(), aborted(AbortSignal.timeout(drainMs))])
    this.#phase = 'handing over'
    for (const run of this.#runs.values()) run.handOver()
    await Promise.race([this.#allEnded(), aborted(AbortSignal.timeout(HAND_OVER_MS))])
    for (const run of this.#runs.values()) run.control.handedOver()
    await this.#allEnded()
    clearInterval(this.#storing)
  }

  /** The database is about to be closed. A run that was admitted in the last moment is anybody's to go on with. */
  close(): void {
    this.#phase = 'closed'
    for (const run of this.#runs.values()) run.fence()
  }

  async #allEnded(): Promise<void> {
    while (this.#taking.size + this.#runs.size > 0) {
      await Promise.all([...this.#taking.values()].map(({ begun }) => begun))
      await Promise.all([...this.#runs.values()].map((run) => run.ended))
    }
  }

  #equip(run: ActiveRun): { log: ActiveRun['log']; recorder: RunRecorder; progress: RunProgress } {
    const { store, logs } = this.#options
    const { ownerId, runId, bootId } = run.reserved
    const writer = { ownerId, runId, bootId }
    const onError = (error: unknown): void =>
      this.#options.log.warn({ err: error, runId }, 'a write of a run is repeated')
    const { signal } = run.control
    const progress = new RunProgress({ db: store.db, writer, signal, onFenced: () => run.fence(), onError })
    logs.forget(runId)
    const log = logs.create({
      runId,
      resume: run.reserved.takenUp?.log,
      chunks: {
        append: async (chunk) => this.#appendChunk(run, chunk),
        read: storedChunks(store.db, { ownerId, runId }).read,
      },
      snapshot: () => recorder.snapshot(progress.messages),
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

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
