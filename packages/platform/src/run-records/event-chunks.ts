import { ServiceError } from '@bureau/protocol'
import type { ChunkStorage, EventChunk } from '@bureau/runtime'
import { and, asc, eq, gt, isNull, sql } from 'drizzle-orm'
import type { Database } from '../db/database.ts'
import { tenantOperation } from '../db/operation.ts'
import { prepared } from '../db/prepared.ts'
import { together } from '../db/together.ts'
import { runEventChunks, runs } from '../db/schema.ts'
import type { RunWriter, WriteOutcome } from './record-step.ts'
import { findRun, isRun, type RunKey } from './runs.repo.ts'

/** Keeps a stretch of a run's event log. Repeated after a lost answer it is kept once. */
export const appendEventChunk = tenantOperation(
  { source: import.meta.url, name: 'appendEventChunk', lane: 'run' },
  async (tx, { ownerId, runId, bootId, chunk }: RunWriter & { chunk: EventChunk }): Promise<WriteOutcome> => {
    const written = await writeChunk(tx, { ownerId, runId, bootId, ...chunk })
    return written.length > 0 ? 'ok' : 'fenced'
  },
)

/** The run is locked by being changed; where it has ended or is another process's, nothing is written. */
const writeChunk = prepared((tx, { ownerId, runId, bootId, firstSeq, lastSeq, body }: RunWriter & EventChunk) => {
  const own = tx.$with('own').as(
    tx
      .update(runs)
      .set({ lastEventSeq: sql`greatest(${runs.lastEventSeq}, ${lastSeq})` })
      .where(and(isRun({ ownerId, runId }), eq(runs.bootId, bootId), isNull(runs.finishedAt)))
      .returning({ id: runs.id }),
  )
  const kept = tx.$with('kept').as(
    tx
      .insert(runEventChunks)
      // In the order of the table's columns.
      .select(sql`SELECT id, ${firstSeq}::bigint, ${lastSeq}::bigint, ${ownerId}, ${body}::bytea, now() FROM own`)
      .onConflictDoNothing(),
  )
  return tx.with(own, kept).select().from(own)
})

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
    const chunks = tx
      .select({ firstSeq: runEventChunks.firstSeq, lastSeq: runEventChunks.lastSeq, body: runEventChunks.body })
      .from(runEventChunks)
      .where(
        and(eq(runEventChunks.runId, runId), eq(runEventChunks.ownerId, ownerId), gt(runEventChunks.lastSeq, afterSeq)),
      )
      .orderBy(asc(runEventChunks.firstSeq))
      .limit(32)
    const [run, read] = await together(findRun(tx, { ownerId, runId }), chunks.execute())
    if (!run) throw new ServiceError('run_not_found')
    return read
  },
)

/** What storage has of the log of a run. */
export function storedChunks(db: Database, run: RunKey): Pick<ChunkStorage, 'read'> {
  return { read: (afterSeq) => db.run(readEventChunks, { ...run, afterSeq }) }
}
