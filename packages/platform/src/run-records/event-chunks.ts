import { ServiceError } from '@bureau/protocol'
import type { ChunkStorage, EventChunk } from '@bureau/runtime'
import { and, asc, eq, gt, sql } from 'drizzle-orm'
import type { Database } from '../db/database.ts'
import { tenantOperation } from '../db/operation.ts'
import { prepared } from '../db/prepared.ts'
import { runEventChunks, runs } from '../db/schema.ts'
import type { RunWriter, WriteOutcome } from './record-step.ts'
import { holdRunOnly } from './hold-run.ts'
import { findRun, isRun, type RunKey } from './runs.repo.ts'
import { isActive } from './run-view.ts'

/** Keeps a stretch of a run's event log. Repeated after a lost answer it is kept once. */
export const appendEventChunk = tenantOperation(
  { source: import.meta.url, name: 'appendEventChunk', lane: 'run' },
  async (tx, { ownerId, runId, bootId, chunk }: RunWriter & { chunk: EventChunk }): Promise<WriteOutcome> => {
    const run = await holdRunOnly(tx, { ownerId, runId })
    if (run?.bootId !== bootId || !isActive(run)) return 'fenced'
    await insertChunk(tx, { ownerId, runId, ...chunk })
    await updateLastSeq(tx, { ownerId, runId, lastSeq: chunk.lastSeq })
    return 'ok'
  },
)

const insertChunk = prepared((tx, { ownerId, runId, firstSeq, lastSeq, body }: RunKey & EventChunk) =>
  tx.insert(runEventChunks).values({ ownerId, runId, firstSeq, lastSeq, body }).onConflictDoNothing(),
)

const updateLastSeq = prepared((tx, { ownerId, runId, lastSeq }: RunKey & { lastSeq: number }) =>
  tx
    .update(runs)
    .set({ lastEventSeq: sql`greatest(${runs.lastEventSeq}, ${lastSeq})` })
    .where(isRun({ ownerId, runId })),
)

/**
 * The chunks that hold events after `afterSeq`, in order, at most 32.
 *
 * Nothing is left 24 hours after the end: then `messages` and `end` are made from the run itself.
 *
 * @throws ServiceError `run_not_found`
 */
export const readEventChunks = tenantOperation(
  { source: import.meta.url, name: 'readEventChunks', lane: 'interactive', onlyReads: true },
  async (tx, { ownerId, runId, afterSeq }: RunKey & { afterSeq: number }): Promise<EventChunk[]> => {
    if (!(await findRun(tx, { ownerId, runId }))) throw new ServiceError('run_not_found')
    return tx
      .select({ firstSeq: runEventChunks.firstSeq, lastSeq: runEventChunks.lastSeq, body: runEventChunks.body })
      .from(runEventChunks)
      .where(
        and(eq(runEventChunks.runId, runId), eq(runEventChunks.ownerId, ownerId), gt(runEventChunks.lastSeq, afterSeq)),
      )
      .orderBy(asc(runEventChunks.firstSeq))
      .limit(32)
  },
)

/** What storage has of the log of a run. */
export function storedChunks(db: Database, run: RunKey): Pick<ChunkStorage, 'read'> {
  return { read: (afterSeq) => db.run(readEventChunks, { ...run, afterSeq }) }
}
