import { and, eq, isNotNull, isNull, lte, sql } from 'drizzle-orm'
import { systemOperation } from '../../db/operation.ts'
import { runApprovals, runs } from '../../db/schema.ts'
import type { RunKey } from '../../run-records/runs.repo.ts'

type OverdueRun = RunKey & { readonly isCancelled: boolean }

const MAX_RUNS = 200

/** Runs of all owners that wait and should not any more. */
export const listOverdueRuns = systemOperation(
  { source: import.meta.url, name: 'listOverdueRuns', lane: 'run', onlyReads: true },
  async (tx): Promise<OverdueRun[]> => {
    const expired = await tx
      .selectDistinct({ ownerId: runApprovals.ownerId, runId: runApprovals.runId })
      .from(runApprovals)
      .where(and(isNull(runApprovals.approve), lte(runApprovals.expiresAt, sql`now()`)))
      .limit(MAX_RUNS)
    const cancelled = await tx
      .select({ ownerId: runs.ownerId, runId: runs.id })
      .from(runs)
      .where(and(eq(runs.state, 'waiting'), isNotNull(runs.cancelRequestedAt)))
      .limit(MAX_RUNS)
    return [
      ...expired.map((run) => ({ ...run, isCancelled: false })),
      ...cancelled.map((run) => ({ ...run, isCancelled: true })),
    ]
  },
)
