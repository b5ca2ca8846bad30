import type { Database } from '../db/database.ts'
import { reapRun } from './finalize-run.ts'
import { listLostRuns } from './replicas.repo.ts'
import type { RunView } from './run-view.ts'

/**
 * Ends every run whose process has ended. Safe to repeat and to do on all processes at once: each run ends once.
 *
 * @returns The runs that this call ended.
 */
export async function reapLostRuns(db: Database): Promise<RunView[]> {
  const ended: RunView[] = []
  for (;;) {
    const lost = await db.run(listLostRuns, undefined)
    const outcomes = await Promise.all(lost.map((run) => db.run(reapRun, run)))
    for (const result of outcomes) if (result.outcome === 'finalized') ended.push(result.run)
    if (lost.length < 100) return ended
  }
}
