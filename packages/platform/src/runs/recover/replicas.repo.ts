import { and, asc, eq, inArray, ne, not, or, type SQL, sql } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import { systemOperation, type Tx } from '../../db/operation.ts'
import { replicas, runs } from '../../db/schema.ts'
import type { RunKey } from '../../run-records/runs.repo.ts'
import { MAX_STALLED } from './take-up-policy.ts'

export type ReplicaRow = typeof replicas.$inferSelect

/** A run of mine that is to stop. */
export type PendingCancel = RunKey & { readonly mode: 'immediate' | 'after_turn' }

export const insertReplica = systemOperation(
  { source: import.meta.url, name: 'insertReplica', lane: 'run' },
  async (tx, replica: { bootId: string; version: string; lockId: number | null }): Promise<void> => {
    await tx.insert(replicas).values(replica).onConflictDoNothing() // repeated after a lost answer
  },
)

/** Of an active run `r` and its process `p`: no process works on it. */
const IS_LOST = sql`r.state IN ('reserved','running') AND (r.released OR p.state IS NULL OR p.state IN ('dead','gone'))`

type Beaten = { readonly alive: boolean; readonly cancels: readonly PendingCancel[]; readonly anyLost: boolean }

/**
 * Says that a process lives, by counting. `alive` is false when it was declared dead: then all its runs are lost.
 *
 * The same statement brings the cancels that are pending for its runs, and says whether any run is lost. Nobody waits until a
 * heartbeat is on the disk: after a crash of the server, an older count says as much.
 */
export const beatReplica = systemOperation(
  { source: import.meta.url, name: 'beatReplica', lane: 'run' },
  async (tx, bootId: string): Promise<Beaten> => {
    const [beaten] = await tx
      .update(replicas)
      .set({ hbSeq: sql`${replicas.hbSeq} + 1`, heartbeatAt: sql`now()` })
      .where(and(eq(replicas.bootId, bootId), inArray(replicas.state, ['live', 'draining'])))
      .returning({
        cancels: sql<PendingCancel[]>`(SELECT coalesce(json_agg(json_build_object(
            'ownerId', r.owner_id, 'runId', r.id, 'mode', coalesce(r.cancel_mode, 'immediate'))), '[]')
          FROM runs r WHERE r.boot_id = ${bootId} AND r.state IN ('reserved','running') AND r.cancel_requested_at IS NOT NULL)`,
        anyLost: sql<boolean>`EXISTS (SELECT 1 FROM runs r LEFT JOIN replicas p ON p.boot_id = r.boot_id WHERE ${IS_LOST})`,
        durability: sql`set_config('synchronous_commit', 'off', true)`,
      })
    return { alive: beaten !== undefined, cancels: beaten?.cancels ?? [], anyLost: beaten?.anyLost ?? false }
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

/** `isLocked`: the process holds a lock as long as it is connected, so that its heartbeats say only that it is not stopped. */
export type ReplicaPulse = { readonly bootId: string; readonly hbSeq: number; readonly isLocked: boolean }

/** Locks of several installations in one database must not meet. */
export const LOCK_CLASS = '(hashtext(current_schema()) & 2147483647)'
/** The lock of the one process that watches the others. */
export const WATCHER_LOCK = 0

/** The lock of a number, as `pg_locks` has it. */
const isLock = (locks: string, id: SQL): SQL =>
  sql`${sql.raw(locks)}.locktype = 'advisory' AND ${sql.raw(locks)}.objsubid = 2 AND ${sql.raw(locks)}.objid = (${id})::oid
    AND ${sql.raw(locks)}.classid = ${sql.raw(LOCK_CLASS)}::oid`

/** The process of this lock is the one whose session has the watcher's lock. */
const isWatcher = (lockId: SQL): SQL => sql`EXISTS (SELECT 1 FROM pg_locks w JOIN pg_locks own ON own.pid = w.pid
  WHERE ${isLock('w', sql.raw(String(WATCHER_LOCK)))} AND w.granted AND ${isLock('own', lockId)})`

/** Whether a live process holds the watcher's lock. A process that was declared dead, or a pooler, may hold it instead. */
const isWatched = sql`EXISTS (SELECT 1 FROM replicas watcher
  WHERE watcher.state IN ('live','draining') AND ${isWatcher(sql.raw('watcher.lock_id'))})`

/**
 * What the monitor looks at: the counters of all processes that are not known to have ended. Who does not watch looks at
 * the process that does, or at all of them if none does.
 */
export const listPulses = systemOperation(
  { source: import.meta.url, name: 'listPulses', lane: 'run', onlyReads: true },
  (tx, { of }: { readonly of: 'all' | 'watcher' }): Promise<ReplicaPulse[]> =>
    tx
      .select({
        bootId: replicas.bootId,
        hbSeq: replicas.hbSeq,
        isLocked: sql<boolean>`${replicas.lockId} IS NOT NULL`,
      })
      .from(replicas)
      .where(
        and(
          inArray(replicas.state, ['live', 'draining']),
          of === 'watcher' ? or(isWatcher(sql`${replicas.lockId}`), not(isWatched)) : undefined,
        ),
      ),
)

/** Ends the session of a process that was declared dead while it was stopped: its locks are free for others. */
export const endSession = systemOperation(
  { source: import.meta.url, name: 'endSession', lane: 'run' },
  async (tx, bootId: string): Promise<void> => {
    await tx.execute(sql`SELECT pg_terminate_backend(l.pid) FROM replicas, pg_locks l
      WHERE boot_id = ${bootId} AND state = 'dead' AND ${isLock('l', sql`lock_id`)}`)
  },
)

/** `hbSeq`: the counter at which it stood still. Null: the process has lost its lock, whatever it counts. */
type Death = { readonly bootId: string; readonly hbSeq: number | null }

/** Declares a process dead, unless its counter has moved since it was seen. */
export const declareDead = systemOperation(
  { source: import.meta.url, name: 'declareDead', lane: 'run' },
  async (tx, { bootId, hbSeq }: Death): Promise<boolean> => {
    const declared = await tx
      .update(replicas)
      .set({ state: 'dead' })
      .where(
        and(
          eq(replicas.bootId, bootId),
          hbSeq === null ? undefined : eq(replicas.hbSeq, hbSeq),
          inArray(replicas.state, ['live', 'draining']),
        ),
      )
      .returning({ bootId: replicas.bootId })
    await countDeaths(tx, declared)
    return declared.length > 0
  },
)

/**
 * A process that has died counts against the runs that it had: against one alone, if it had one that others have died
 * over already.
 */
async function countDeaths(tx: Tx, dead: readonly { readonly bootId: string }[]): Promise<void> {
  for (const { bootId } of dead) {
    await tx.execute(sql`WITH own AS (
        SELECT id, stalled, max(stalled) OVER () AS most FROM runs WHERE boot_id = ${bootId} AND state = 'running'
      )
      UPDATE runs SET stalled = runs.stalled + 1 FROM own
      WHERE runs.id = own.id AND NOT runs.released AND (own.most < ${MAX_STALLED - 1} OR own.stalled = own.most)`)
  }
}

/** Declares every process but this one dead. For the embedded database, whose folder admits one process only. */
export const declareOthersDead = systemOperation(
  { source: import.meta.url, name: 'declareOthersDead', lane: 'run' },
  async (tx, bootId: string): Promise<void> => {
    const declared = await tx
      .update(replicas)
      .set({ state: 'dead' })
      .where(and(ne(replicas.bootId, bootId), inArray(replicas.state, ['live', 'draining'])))
      .returning({ bootId: replicas.bootId })
    await countDeaths(tx, declared)
  },
)

export type LostRun = RunKey & { readonly stalled: number; readonly attempt: number }

/** Active runs that no process works on, at most 500, oldest first, and the processes that could, in order. */
export const listLostRuns = systemOperation(
  { source: import.meta.url, name: 'listLostRuns', lane: 'run', onlyReads: true },
  async (tx): Promise<{ lost: LostRun[]; live: string[] }> => {
    const r = alias(runs, 'r')
    const p = alias(replicas, 'p')
    const lost = await tx
      .select({ ownerId: r.ownerId, runId: r.id, stalled: r.stalled, attempt: r.attempt })
      .from(r)
      .leftJoin(p, eq(p.bootId, r.bootId))
      .where(IS_LOST)
      .orderBy(asc(r.id))
      .limit(500)
    if (lost.length === 0) return { lost, live: [] }
    const live = await tx
      .select({ bootId: replicas.bootId })
      .from(replicas)
      .where(eq(replicas.state, 'live'))
      .orderBy(asc(replicas.bootId))
    return { lost, live: live.map(({ bootId }) => bootId) }
  },
)
