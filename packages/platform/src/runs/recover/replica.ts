import type { Database } from '../../db/database.ts'
import { newId } from '../../ids.ts'
import type { RunView } from '../../run-records/run-view.ts'
import { ReplicaLock } from './replica-lock.ts'
import { LOCKED, type Pace, ReplicaMonitor, UNLOCKED } from './replica-monitor.ts'
import {
  beatReplica,
  declareDead,
  declareOthersDead,
  endSession,
  insertReplica,
  listPulses,
  type PendingCancel,
  setReplicaState,
} from './replicas.repo.ts'
import { LostRuns } from './take-up-lost-runs.ts'
import type { TakenRun } from './take-up-run.ts'

type ReplicaOptions = {
  readonly db: Database
  /** The database itself, for the lock by which the others see that this process lives. Absent: heartbeats alone. */
  readonly directUrl?: string | undefined
  readonly version: string
  /**
   * This process may no longer write to its runs: abort them and drop their clients without an `end`. Admissions must
   * use the new `bootId` from now on.
   */
  readonly onFenced: (lostBootId: string) => void
  /** Runs of this process that are to stop. Named again with every heartbeat until they have ended. */
  readonly onCancels: (cancels: readonly PendingCancel[]) => void
  /** A run of a dead process was given to this one. */
  readonly onTaken?: (run: TakenRun) => void
  /** Runs of dead processes that nobody goes on with. */
  readonly onEnded?: (runs: readonly RunView[]) => void
  /** These processes were declared dead, by their locks or their heartbeats: the others may want to look at once. */
  readonly onDeaths?: (bootIds: readonly string[], by: 'lock' | 'heartbeat') => void
  /** A session of no live process has the watcher's lock, so that deaths are noticed late. Called once until that has changed. */
  readonly onUnwatched?: () => void
  /** As in `LostRuns`. */
  readonly hasSuspect?: () => boolean
  /** A step failed, most likely because the database is away; it is repeated. */
  readonly onError: (error: unknown) => void
  /** Monotonic milliseconds. */
  readonly now?: () => number
}

/** Below the earliest moment at which others declare a process dead whose lock is gone with its machine (8 s), */
const LOCK_FENCE_MS = 5_000
/** below that of a process with heartbeats alone (12 s), */
const BEAT_FENCE_MS = 8_000
/** and of one with a lock whose heartbeats do not come (45 s). */
const FENCE_MS = 30_000
/** A process whose timers are this late was stopped. What it knows of the database is as old. */
const STOPPED_MS = 3_000
/** So many looks in a row that find no watcher are no coincidence: between a watcher that ends and the next one there is one at most. */
const UNWATCHED_LOOKS = 2

/**
 * This process among the others: lock, heartbeat, self-fence, watching the others, taking up their lost runs.
 *
 * `start` returns once the process is known and, on an embedded database, the runs of its predecessor have gone on here.
 */
export class Replica {
  readonly #options: ReplicaOptions
  readonly #now: () => number
  readonly #lost: LostRuns
  readonly #monitor: ReplicaMonitor
  #lock: ReplicaLock | undefined
  #bootId = newId('boot')
  /** False until the database knows this process. */
  #known = false
  #draining = false
  /** The last look at the records, or a death that this process has declared, says so. */
  #anyLost = false
  /** Looks in a row that have found no watcher. */
  #unwatched = 0
  /** Earlier lives that the database does not yet know to have ended. */
  readonly #ended = new Set<string>()
  #aliveAt: number
  #awakeAt: number
  #checkedAt: number
  #step: Promise<void> = Promise.resolve()

  private constructor(options: ReplicaOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
    this.#aliveAt = this.#awakeAt = this.#checkedAt = this.#now()
    this.#monitor = new ReplicaMonitor(this.#pace)
    const { db, onTaken = () => {}, onEnded = () => {}, hasSuspect = () => false } = options
    this.#lost = new LostRuns({ db, onTaken, onEnded, hasSuspect })
  }

  static async start(options: ReplicaOptions): Promise<Replica> {
    const replica = new Replica(options)
    const { db, directUrl: url, onError } = options
    if (url !== undefined) {
      const onDead = (bootIds: readonly string[]): void => void replica.#declareDead(bootIds).catch(onError)
      replica.#lock = await ReplicaLock.open({ url, now: replica.#now, onDead, onError })
    }
    await replica.#register()
    if (db.engine === 'pglite') await db.run(declareOthersDead, replica.bootId)
    await replica.sweep()
    return replica
  }

  /** Names this start of the process in every write of its runs. Changes when the process was fenced. */
  get bootId(): string {
    return this.#bootId
  }

  get #pace(): Pace {
    const { db, directUrl } = this.#options
    return directUrl !== undefined || db.engine === 'pglite' ? LOCKED : UNLOCKED
  }

  /** Repeats `beat`, `watch` and `sweep`, and looks after the fence every second. */
  startTimers(): void {
    const steps = setInterval(() => void this.#tick(), this.#pace.beatMs)
    const fence = setInterval(() => this.checkFence(), 1_000)
    steps.unref()
    fence.unref()
    this.#stopTimers = () => {
      clearInterval(steps)
      clearInterval(fence)
    }
  }

  #stopTimers = (): void => {}

  /** Counts the heartbeat. Declared dead meanwhile, the process is fenced and begins anew. */
  async beat(): Promise<void> {
    if (!this.#known) return this.#register()
    const sentAt = this.#now()
    const { alive, cancels, anyLost } = await this.#options.db.run(beatReplica, this.#bootId)
    this.#anyLost = anyLost
    if (!alive) {
      this.#fence()
      return this.#register()
    }
    this.#aliveAt = sentAt
    if (cancels.length > 0) this.#options.onCancels(cancels)
  }

  /**
   * Fences this process when it could not show for a while that it lives: others are about to take its chats over. Time
   * in which the process was stopped does not count, because its lock was held all the same.
   */
  checkFence(): void {
    const now = this.#now()
    if (now - this.#checkedAt > STOPPED_MS) this.#awakeAt = now
    this.#checkedAt = now
    if (!this.#known || this.#options.db.engine === 'pglite') return // the folder's lock keeps others out
    const silentMs = (aliveAt: number): number => now - Math.max(aliveAt, this.#awakeAt)
    const isLockLost = this.#lock !== undefined && silentMs(this.#lock.aliveAt) >= LOCK_FENCE_MS
    if (isLockLost || silentMs(this.#aliveAt) >= (this.#lock ? FENCE_MS : BEAT_FENCE_MS)) this.#fence()
  }

  /**
   * Looks at the heartbeats of the others, for those that are stopped. On an embedded database there are none; of
   * processes with locks one looks at all, and all look at that one.
   */
  async watch(): Promise<void> {
    const { db } = this.#options
    if (db.engine === 'pglite' || !this.#monitor.isDue(this.#now())) return
    try {
      const of = this.#lock?.isWatcher === false ? 'watcher' : 'all'
      const pulses = await db.run(listPulses, { of })
      // Who looks for the watcher sees itself only when there is none.
      this.#countUnwatched(of === 'watcher' && pulses.some(({ bootId }) => bootId === this.#bootId))
      const others = pulses.filter((pulse) => pulse.bootId !== this.#bootId)
      for (const pulse of this.#monitor.observe(others, this.#now())) {
        if (!(await db.run(declareDead, pulse))) continue
        this.#anyLost = true
        await db.run(endSession, pulse.bootId)
        this.#options.onDeaths?.([pulse.bootId], 'heartbeat')
      }
    } catch (error) {
      this.#monitor.pollFailed()
      throw error
    }
  }

  #countUnwatched(isUnwatched: boolean): void {
    this.#unwatched = isUnwatched ? this.#unwatched + 1 : 0
    if (this.#unwatched === UNWATCHED_LOOKS) this.#options.onUnwatched?.()
  }

  /** Goes on with the runs of processes that have ended. */
  async sweep(): Promise<void> {
    if (this.#known && !this.#draining) await this.#lost.takeUp(this.#bootId)
  }

  /** Sweeps at once, or after the sweep that is under way. Never throws. */
  look(): void {
    this.#step = this.#step.then(() => this.sweep()).catch(this.#options.onError)
  }

  /** Admits no more runs (`admitRun` refuses with `server_draining`) and takes none up; its own go on. */
  async drain(): Promise<void> {
    this.#draining = true
    const drained = this.#options.db.run(setReplicaState, { bootId: this.#bootId, state: 'draining' })
    await Promise.all([drained, this.#step]) // a sweep that is under way may still be given runs
  }

  /** Takes the process out of the records, after its runs have ended. */
  async close(): Promise<void> {
    this.#stopTimers()
    await this.#step
    try {
      await this.#options.db.run(setReplicaState, { bootId: this.#bootId, state: 'gone' })
    } finally {
      await this.#lock?.close()
    }
  }

  async #declareDead(bootIds: readonly string[]): Promise<void> {
    const { db, onDeaths } = this.#options
    const others = bootIds.filter((bootId) => bootId !== this.#bootId)
    const declared = await Promise.all(others.map((bootId) => db.run(declareDead, { bootId, hbSeq: null })))
    const dead = others.filter((_, index) => declared[index])
    if (dead.length === 0) return
    onDeaths?.(dead, 'lock')
    this.look()
  }

  async #tick(): Promise<void> {
    this.#step = this.#step
      .then(() => this.beat())
      .then(() => this.watch())
      .then(() => (this.#anyLost ? this.sweep() : undefined))
      .catch(this.#options.onError)
    await this.#step
  }

  /** Ends this life at once, whether or not the database can be reached. */
  #fence(): void {
    const lost = this.#bootId
    this.#ended.add(lost)
    this.#bootId = newId('boot')
    this.#known = false
    this.#options.onFenced(lost)
  }

  async #register(): Promise<void> {
    const { db, version } = this.#options
    for (const bootId of this.#ended) {
      await db.run(setReplicaState, { bootId, state: 'gone' }) // what it still had goes on elsewhere
      this.#ended.delete(bootId)
    }
    const sentAt = this.#now()
    await db.run(insertReplica, { bootId: this.#bootId, version, lockId: this.#lock?.id ?? null })
    this.#known = true
    this.#aliveAt = sentAt
  }
}
