import { eq } from 'drizzle-orm'
import type { Database } from '../../db/database.ts'
import { tenantOperation } from '../../db/operation.ts'
import { replicas } from '../../db/schema.ts'
import { holdRun } from '../../run-records/hold-run.ts'
import type { RunKey } from '../../run-records/runs.repo.ts'
import { isActive, type RunView } from '../../run-records/run-view.ts'
import { runViews } from '../../run-records/run-views.ts'
import { endedAlready, type RecordedOutcome } from '../settle/record-outcome.ts'
import { writeOutcome } from '../settle/write-outcome.ts'
import { listLostRuns } from './replicas.repo.ts'

/**
 * Ends every run whose process has ended. Safe to repeat and to do on all processes at once: each run ends once.
 *
 * @returns The runs that this call ended.
 */
export async function recoverLostRuns(db: Database): Promise<RunView[]> {
  const ended: RunView[] = []
  for (;;) {
    const lost = await db.run(listLostRuns, undefined)
    const outcomes = await Promise.all(lost.map((run) => db.run(recoverRun, run)))
    for (const result of outcomes) if (result.outcome === 'settled') ended.push(result.run)
    if (lost.length < 100) return ended
  }
}

/** What recovery writes is numbered so far ahead that no client has seen a higher number. The only gap there is. */
export const RECOVERY_GAP = 1_000_000

/**
 * Ends a run whose process died: `cancelled` if that was wished, otherwise failed with `runner_lost` and refunded.
 *
 * Its frames (`error` for a failed one, `messages`, `end`) have the last numbers up to `lastEventId`.
 */
export const recoverRun = tenantOperation(
  { source: import.meta.url, name: 'recoverRun', lane: 'run' },
  async (tx, { ownerId, runId }: RunKey): Promise<RecordedOutcome> => {
    const held = await holdRun(tx, { ownerId, runId })
    if (!held) return { outcome: 'fenced' }
    const { run } = held
    if (!isActive(run)) return endedAlready(await runViews(tx, ownerId, [run]))
    const [replica] = await tx.select({ state: replicas.state }).from(replicas).where(eq(replicas.bootId, run.bootId))
    if (replica?.state === 'live' || replica?.state === 'draining') return { outcome: 'fenced' }
    const cancelled = run.cancelRequestedAt !== null
    const view = await writeOutcome(tx, held, {
      state: cancelled ? 'cancelled' : 'failed',
      error: cancelled ? null : { code: 'runner_lost' },
      items: [],
      partial: null,
      calls: [],
      lastEventSeq: run.lastEventSeq + RECOVERY_GAP + (cancelled ? 1 : 2),
      eventChunk: null,
    })
    return { outcome: 'settled', run: view }
  },
)
