import type { Database } from '../../db/database.ts'
import { newId } from '../../ids.ts'
import { recoverLostRuns } from './recover-lost-runs.ts'
import { ReplicaMonitor } from './replica-monitor.ts'
import {
  beatReplica,
  declareDead,
  declareOthersDead,
  insertReplica,
  listPulses,
  type PendingCancel,
  setReplicaState,
} from './replicas.repo.ts'
import type { RunView } from '../../run-records/run-view.ts'

type ReplicaOptions = {
  readonly db: Database
  readonly version: string
  /**
   * This process may no longer write to its runs: abort them and drop their clients without an `end`. Admissions must
   * use the new `bootId` from now on.
   */
  readonly onFenced: (lostBootId: string) => void
  /** Runs of this process that are to stop. Named again with every heartbeat until they have ended. */
  readonly onCancels: (cancels: readonly PendingCancel[]) => void
  /** Runs of dead processes that this one has just ended. */
  readonly onRecovered?: (runs: readonly RunView[]) => void
  /** A step failed, most likely because the database is away; it is repeated. */
  readonly onError: (error: unknown) => void
  /** Monotonic milliseconds. */
  readonly now?: () => number
}

const STEP_MS = 5_000
/** Below the earliest moment at which others can declare this process dead (40 s). */
const FENCE_AFTER_MS = 30_000

/**
 * This process among the others: heartbeat, self-fence, watching the others, ending their lost runs.
 *
 * `start` returns once the process is known and, on an embedded database, the runs of its predecessor have ended.
 */
export class Replica {
  readonly #options: ReplicaOptions
  readonly #now: () => number
  readonly #monitor = new ReplicaMonitor()
  #bootId = newId('boot')
  /** False until the database knows this process. */
  #known = false
  /** Earlier lives that the database does not yet know to have ended. */
  readonly #ended = new Set<string>()
  #aliveAt: number
  #step: Promise<void> = Promise.resolve()

  private constructor(options: ReplicaOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
    this.#aliveAt = this.#now()
  }

  static async start(options: ReplicaOptions): Promise<Replica> {
    const replica = new Replica(options)
    await replica.#register()
    if (options.db.engine === 'pglite') await options.db.run(declareOthersDead, replica.bootId)
    await replica.sweep()
    return replica
  }

  /** Names this start of the process in every write of its runs. Changes when the process was fenced. */
  get bootId(): string {
    return this.#bootId
  }

  /** Repeats `beat`, `watch` and `sweep` every five seconds, and looks after the fence every second. */
  startTimers(): void {
    const steps = setInterval(() => void this.#tick(), STEP_MS)
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
    const { alive, cancels } = await this.#options.db.run(beatReplica, this.#bootId)
    if (!alive) {
      this.#fence()
      return this.#register()
    }
    this.#aliveAt = sentAt
    if (cancels.length > 0) this.#options.onCancels(cancels)
  }

  /** Fences this process when no heartbeat has succeeded for 30 seconds: others are about to take its chats over. */
  checkFence(): void {
    const alone = this.#options.db.engine === 'pglite' // the folder's lock keeps others out
    if (this.#known && !alone && this.#now() - this.#aliveAt >= FENCE_AFTER_MS) this.#fence()
  }

  /** Looks at the heartbeats of the others. On an embedded database there are none. */
  async watch(): Promise<void> {
    const { db } = this.#options
    if (db.engine === 'pglite') return
    try {
      const pulses = await db.run(listPulses, undefined)
      const others = pulses.filter((pulse) => pulse.bootId !== this.#bootId)
      for (const pulse of this.#monitor.observe(others, this.#now())) await db.run(declareDead, pulse)
    } catch (error) {
      this.#monitor.pollFailed()
      throw error
    }
  }

  /** Ends the runs of processes that have ended. */
  async sweep(): Promise<void> {
    const recovered = await recoverLostRuns(this.#options.db)
    if (recovered.length > 0) this.#options.onRecovered?.(recovered)
  }

  /** Admits no more runs (`admitRun` refuses with `server_draining`); its own go on. */
  async drain(): Promise<void> {
    await this.#options.db.run(setReplicaState, { bootId: this.#bootId, state: 'draining' })
  }

  /** Takes the process out of the records, after its runs have ended. */
  async close(): Promise<void> {
    this.#stopTimers()
    await this.#step
    await this.#options.db.run(setReplicaState, { bootId: this.#bootId, state: 'gone' })
  }

  async #tick(): Promise<void> {
    this.#step = this.#step
      .then(() => this.beat())
      .then(() => this.watch())
      .then(() => this.sweep())
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
      await db.run(setReplicaState, { bootId, state: 'gone' }) // a sweep ends what it still had
      this.#ended.delete(bootId)
    }
    const sentAt = this.#now()
    await db.run(insertReplica, { bootId: this.#bootId, version })
    this.#known = true
    this.#aliveAt = sentAt
  }
}
