import { and, eq, isNotNull, isNull, lte, sql } from 'drizzle-orm'
import { systemOperation } from '../../db/operation.ts'
import { runApprovals, runs } from '../../db/schema.ts'
import type { RunKey } from '../../run-records/runs.repo.ts'

type OverdueRun = RunKey & { readonly isCancelled: boolean }

const MAX_RUNS = 200

const IS_EXPIRED = and(isNull(runApprovals.approve), lte(runApprovals.expiresAt, sql`now()`))
const IS_CANCELLED = and(eq(runs.state, 'waiting'), isNotNull(runs.cancelRequestedAt))

/** Part of a statement: whether `listOverdueRuns` would find any. */
export const ANY_OVERDUE_RUNS = sql`(EXISTS (SELECT 1 FROM ${runApprovals} WHERE ${IS_EXPIRED})
  OR EXISTS (SELECT 1 FROM ${runs} WHERE ${IS_CANCELLED}))`

/** Runs of all owners that wait and should not any more. */
export const listOverdueRuns = systemOperation(
  { source: import.meta.url, name: 'listOverdueRuns', lane: 'run', onlyReads: true },
  async (tx): Promise<OverdueRun[]> => {
    const expired = await tx
      .selectDistinct({ ownerId: runApprovals.ownerId, runId: runApprovals.runId })
      .from(runApprovals)
      .where(IS_EXPIRED)
      .limit(MAX_RUNS)
    const cancelled = await tx
      .select({ ownerId: runs.ownerId, runId: runs.id })
      .from(runs)
      .where(IS_CANCELLED)
      .limit(MAX_RUNS)
    return [
      ...expired.map((run) => ({ ...run, isCancelled: false })),
      ...cancelled.map((run) => ({ ...run, isCancelled: true })),
    ]
  },
)
