import { and, asc, eq, inArray, isNotNull, ne, sql } from 'drizzle-orm'
import { systemOperation } from '../../db/operation.ts'
import { replicas, runs } from '../../db/schema.ts'
import type { RunKey } from '../../run-records/runs.repo.ts'

export type ReplicaRow = typeof replicas.$inferSelect

/** A run of mine that is to stop. */
export type PendingCancel = RunKey & { readonly mode: 'immediate' | 'after_turn' }

export const insertReplica = systemOperation(
  { source: import.meta.url, name: 'insertReplica', lane: 'run' },
  async (tx, replica: { bootId: string; version: string }): Promise<void> => {
    await tx.insert(replicas).values(replica).onConflictDoNothing() // repeated after a lost answer
  },
)

/**
 * Says that a process lives, by counting. `alive` is false when it was declared dead: then all its runs are lost.
 *
 * The same round trip brings the cancels that are pending for its runs.
 */
export const beatReplica = systemOperation(
  { source: import.meta.url, name: 'beatReplica', lane: 'run' },
  async (tx, bootId: string): Promise<{ alive: boolean; cancels: PendingCancel[] }> => {
    const beaten = await tx
      .update(replicas)
      .set({ hbSeq: sql`${replicas.hbSeq} + 1`, heartbeatAt: sql`now()` })
      .where(and(eq(replicas.bootId, bootId), inArray(replicas.state, ['live', 'draining'])))
      .returning({ bootId: replicas.bootId })
    if (beaten.length === 0) return { alive: false, cancels: [] }
    const wished = await tx
      .select({ ownerId: runs.ownerId, runId: runs.id, mode: runs.cancelMode })
      .from(runs)
      .where(
        and(eq(runs.bootId, bootId), inArray(runs.state, ['reserved', 'running']), isNotNull(runs.cancelRequestedAt)),
      )
    return { alive: true, cancels: wished.map((run) => ({ ...run, mode: run.mode ?? 'immediate' })) }
  },
)

/** `draining`: admits no more. `gone`: has ended properly; what it still had is recovered. */
export const setReplicaState = systemOperation(
  { source: import.meta.url, name: 'setReplicaState', lane: 'run' },
  async (tx, { bootId, state }: { bootId: string; state: 'draining' | 'gone' }): Promise<void> => {
    await tx
      .update(replicas)
      .set({ state })
      .where(and(eq(replicas.bootId, bootId), ne(replicas.state, 'dead')))
  },
)

export type ReplicaPulse = { readonly bootId: string; readonly hbSeq: number }

/** What the monitor looks at: the counters of all processes that are not known to have ended. */
export const listPulses = systemOperation(
  { source: import.meta.url, name: 'listPulses', lane: 'run' },
  (tx): Promise<ReplicaPulse[]> =>
    tx
      .select({ bootId: replicas.bootId, hbSeq: replicas.hbSeq })
      .from(replicas)
      .where(inArray(replicas.state, ['live', 'draining'])),
)

/** Declares a process dead, unless its counter has moved since it was seen. */
export const declareDead = systemOperation(
  { source: import.meta.url, name: 'declareDead', lane: 'run' },
  async (tx, { bootId, hbSeq }: ReplicaPulse): Promise<boolean> => {
    const declared = await tx
      .update(replicas)
      .set({ state: 'dead' })
      .where(and(eq(replicas.bootId, bootId), eq(replicas.hbSeq, hbSeq), inArray(replicas.state, ['live', 'draining'])))
      .returning({ bootId: replicas.bootId })
    return declared.length > 0
  },
)

/** Declares every process but this one dead. For the embedded database, whose folder admits one process only. */
export const declareOthersDead = systemOperation(
  { source: import.meta.url, name: 'declareOthersDead', lane: 'run' },
  async (tx, bootId: string): Promise<void> => {
    await tx
      .update(replicas)
      .set({ state: 'dead' })
      .where(and(ne(replicas.bootId, bootId), inArray(replicas.state, ['live', 'draining'])))
  },
)

/** Active runs whose process has ended, at most 100, oldest first. */
export const listLostRuns = systemOperation(
  { source: import.meta.url, name: 'listLostRuns', lane: 'run' },
  (tx): Promise<RunKey[]> =>
    tx
      .select({ ownerId: runs.ownerId, runId: runs.id })
      .from(runs)
      .leftJoin(replicas, eq(replicas.bootId, runs.bootId))
      .where(
        and(
          inArray(runs.state, ['reserved', 'running']),
          sql`(${replicas.state} IS NULL OR ${replicas.state} IN ('dead','gone'))`,
        ),
      )
      .orderBy(asc(runs.id))
      .limit(100),
)
