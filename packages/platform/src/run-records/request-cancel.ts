import { type CancelMode, ServiceError } from '@bureau/protocol'
import { and, eq, inArray, sql } from 'drizzle-orm'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { runs } from '../db/schema.ts'
import { findRunView } from './run-views.ts'
import type { RunKey, RunRow } from './runs.repo.ts'
import type { RunView } from './run-view.ts'

type CancelRequest = RunKey & { readonly mode: CancelMode }

/**
 * Asks one run to stop. Nothing happens to a run that has ended; `after_turn` can be sharpened, not softened.
 *
 * Who executes the run learns of it with its next heartbeat. `isWaiting`: nobody executes it; it has to be released, so
 * that somebody ends it.
 *
 * @throws ServiceError `run_not_found`
 */
export const requestCancel = tenantOperation(
  { source: import.meta.url, name: 'requestCancel', lane: 'run' },
  async (tx, request: CancelRequest): Promise<{ run: RunView; isWaiting: boolean }> => {
    const state = await markCancelled(tx, request)
    const run = await findRunView(tx, request)
    if (!run) throw new ServiceError('run_not_found')
    return { run, isWaiting: state === 'waiting' }
  },
)

/** Notes the wish on an active run, and says in which state it is. Undefined: the run is not active. */
export async function markCancelled(
  tx: Tx,
  { ownerId, runId, mode }: CancelRequest,
): Promise<RunRow['state'] | undefined> {
  const [row] = await tx
    .update(runs)
    .set({
      cancelRequestedAt: sql`coalesce(${runs.cancelRequestedAt}, now())`,
      cancelMode: sql`CASE WHEN ${runs.cancelMode} = 'immediate' THEN ${runs.cancelMode} ELSE ${mode} END`,
    })
    .where(and(eq(runs.id, runId), eq(runs.ownerId, ownerId), inArray(runs.state, ['reserved', 'running', 'waiting'])))
    .returning({ state: runs.state })
  return row?.state
}
