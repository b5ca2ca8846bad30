import { createHash } from 'node:crypto'
import { RUN_STATE_VERSION } from '@bureau/framework'
import type { Database } from '../../db/database.ts'
import type { RunView } from '../../run-records/run-view.ts'
import { listLostRuns, type LostRun } from './replicas.repo.ts'
import { MAX_STALLED } from './take-up-policy.ts'
import { type TakenRun, takeUpRun } from './take-up-run.ts'

type LostRunsOptions = {
  readonly db: Database
  /** Goes on with a run that was given to this process. */
  readonly onTaken: (run: TakenRun) => void
  /** Nobody goes on with these. */
  readonly onEnded: (runs: readonly RunView[]) => void
  /** True: this process works on a run that others have died over, and is to work on no other one of that kind. */
  readonly hasSuspect: () => boolean
}

/**
 * Goes on with the runs of processes that have ended. Safe to repeat and to do on all processes at once.
 *
 * Each process takes its share first: the live ones divide the runs by their ids. What nobody has taken by the next time is
 * anybody's.
 */
export class LostRuns {
  readonly #options: LostRunsOptions
  #seen: ReadonlySet<string> = new Set()

  constructor(options: LostRunsOptions) {
    this.#options = options
  }

  /** @param bootId - Of this process. */
  async takeUp(bootId: string): Promise<void> {
    const { lost, live } = await this.#options.db.run(listLostRuns, undefined)
    const mine = lost.filter((run) => this.#seen.has(run.runId) || live[shareOf(run, live.length)] === bootId)
    this.#seen = new Set(lost.map(({ runId }) => runId))
    const suspects = mine.filter(isSuspect)
    const innocent = mine.filter((run) => !isSuspect(run))
    const ended = await Promise.all(innocent.map((run) => this.#takeUp(run, bootId)))
    // A run that kills its process must not take others along: such runs are worked on one at a time.
    for (const run of suspects) if (!this.#options.hasSuspect()) ended.push(await this.#takeUp(run, bootId))
    const views = ended.filter((view) => view !== undefined)
    if (views.length > 0) this.#options.onEnded(views)
  }

  async #takeUp({ ownerId, runId, attempt }: LostRun, bootId: string): Promise<RunView | undefined> {
    const { db, onTaken } = this.#options
    const result = await db.run(takeUpRun, { ownerId, runId, bootId, attempt, version: RUN_STATE_VERSION })
    if (result.outcome === 'taken') onTaken(result.run)
    return result.outcome === 'ended' ? result.run : undefined
  }
}

/** One more death of a process, and it is over. */
const isSuspect = ({ stalled }: LostRun): boolean => stalled === MAX_STALLED - 1

function shareOf({ runId }: LostRun, processes: number): number {
  return createHash('sha256').update(runId).digest().readUInt32BE() % Math.max(1, processes)
}
