import { and, eq, sql } from 'drizzle-orm'
import { tenantOperation } from '../../db/operation.ts'
import { prepared } from '../../db/prepared.ts'
import { runs } from '../../db/schema.ts'
import { type RunContext, toRunContext } from '../admit/read-run-context.ts'
import { contextColumns } from '../admit/run-context.repo.ts'
import type { RunWriter } from '../../run-records/record-step.ts'
import { findRun, isRun } from '../../run-records/runs.repo.ts'
import { isActive } from '../../run-records/run-view.ts'

/**
 * `cancel_requested`: written nothing, the run is to stop before it starts. `fenced`: written nothing, the run has ended
 * or belongs to another process; stop at once.
 */
export type StartOutcome =
  | { readonly outcome: 'started'; readonly context: RunContext }
  | { readonly outcome: 'cancel_requested' | 'fenced' }

type StartRun = RunWriter & {
  /** Null: this process does not have the agency. */
  readonly agencyVersion: string | null
  readonly dataKey: Uint8Array
}

/**
 * Begins a run that this process has taken up, and reads what its runner needs to know.
 *
 * Safe to repeat after a lost answer. A run that was cancelled meanwhile stays as it is: finalize it as `cancelled`.
 */
export const startRun = tenantOperation(
  { source: import.meta.url, name: 'startRun', lane: 'run' },
  async (tx, { ownerId, runId, bootId, agencyVersion, dataKey }: StartRun): Promise<StartOutcome> => {
    const [started] = await updateStarted(tx, { ownerId, runId, bootId, agencyVersion })
    if (started) return { outcome: 'started', context: await toRunContext(tx, started, dataKey) }
    const run = await findRun(tx, { ownerId, runId })
    return { outcome: run?.bootId === bootId && isActive(run) ? 'cancel_requested' : 'fenced' }
  },
)

const updateStarted = prepared((tx, { ownerId, runId, bootId, agencyVersion }: Omit<StartRun, 'dataKey'>) => {
  const isStartable = sql`${runs.state} IN ('reserved','running') AND ${runs.cancelRequestedAt} IS NULL`
  return tx
    .update(runs)
    .set({ state: 'running', agencyVersion, startedAt: sql`coalesce(${runs.startedAt}, now())` })
    .where(and(isRun({ ownerId, runId }), eq(runs.bootId, bootId), isStartable))
    .returning(contextColumns)
})
