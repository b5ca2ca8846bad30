import { and, asc, eq, inArray, lt, type SQL, sql } from 'drizzle-orm'
import { systemOperation } from '../../db/operation.ts'
import { runs } from '../../db/schema.ts'

/** An active run as the records have it. */
type OwnRun = { readonly ownerId: string; readonly runId: string; readonly attempt: number }

/** Long after every admission has had its answer. */
const AGE = sql`interval '10 seconds'`

const isOwn = (bootId: string): SQL | undefined =>
  and(
    eq(runs.bootId, bootId),
    inArray(runs.state, ['reserved', 'running']),
    eq(runs.released, false),
    lt(runs.createdAt, sql`now() - ${AGE}`),
  )

/** Part of a statement: whether `listOwnRuns` would find any. */
export const anyOwnRuns = (bootId: string): SQL => sql`EXISTS (SELECT 1 FROM ${runs} WHERE ${isOwn(bootId)})`

/** The runs that a process has had for a while and that have not ended, at most 1,000. Those that are anybody's are nobody's own. */
export const listOwnRuns = systemOperation(
  { source: import.meta.url, name: 'listOwnRuns', lane: 'run', onlyReads: true },
  async (tx, bootId: string): Promise<OwnRun[]> => {
    return tx
      .select({ ownerId: runs.ownerId, runId: runs.id, attempt: runs.attempt })
      .from(runs)
      .where(isOwn(bootId))
      .orderBy(asc(runs.id))
      .limit(1_000)
  },
)
