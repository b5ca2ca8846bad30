import { and, eq } from 'drizzle-orm'
import { tenantOperation } from '../db/operation.ts'
import { responses, runs } from '../db/schema.ts'
import { storable } from '../db/storable.ts'
import { isSeen, type Reach } from './read-runs.ts'
import type { RunKey } from './runs.repo.ts'

/** A response is the part of a run behind the event `afterSeq`. */
type ResponseKey = RunKey & { readonly afterSeq: number }

const isResponse = ({ ownerId, runId, afterSeq }: ResponseKey) =>
  and(eq(responses.runId, runId), eq(responses.afterSeq, afterSeq), eq(responses.ownerId, ownerId))

/** Keeps what a response is made of. The first record counts: a request that is repeated has the same run. */
export const putResponse = tenantOperation(
  { source: import.meta.url, name: 'putResponse', lane: 'interactive' },
  async (tx, { record, ...key }: ResponseKey & { record: object }): Promise<void> => {
    await tx
      .insert(responses)
      .values({ ...key, record: storable(record) })
      .onConflictDoNothing()
  },
)

export const findResponse = tenantOperation(
  { source: import.meta.url, name: 'findResponse', lane: 'interactive', onlyReads: true },
  async (tx, key: ResponseKey & Reach): Promise<object | undefined> => {
    const { integrationId, consumerId } = runs
    const [row] = await tx
      .select({ record: responses.record, integrationId, consumerId })
      .from(responses)
      .innerJoin(runs, eq(runs.id, responses.runId))
      .where(isResponse(key))
    return row && isSeen(row, key) ? row.record : undefined
  },
)

/** The run, its chat and its usage stay. */
export const deleteResponse = tenantOperation(
  { source: import.meta.url, name: 'deleteResponse', lane: 'interactive' },
  async (tx, key: ResponseKey): Promise<void> => {
    await tx.delete(responses).where(isResponse(key))
  },
)
