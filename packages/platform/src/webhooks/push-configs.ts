import { MAX_PUSHES, type PushConfig } from '@bureau/faces'
import { and, asc, eq, sql } from 'drizzle-orm'
import { systemOperation, tenantOperation, type Tx } from '../db/operation.ts'
import { pushConfigs } from '../db/schema.ts'
import { holdRunOnly } from '../run-records/hold-run.ts'
import type { RunKey } from '../run-records/runs.repo.ts'
import type { Place } from '../security/seal.ts'
import { leaseEnd, retryDelay } from './webhook-retries.ts'

type PushKey = RunKey & { readonly id: string }

/** Where the token and the credentials of a configuration stand, as JSON. */
export const pushSecretPlace = ({ ownerId, runId, id }: PushKey): Place => ({
  table: 'push_configs',
  column: 'secret_enc',
  owner: ownerId,
  row: `${runId}/${id}`,
})

type NewPushConfig = PushKey & Pick<typeof pushConfigs.$inferInsert, 'url' | 'scheme' | 'secretEnc'>

const isPush = ({ ownerId, runId, id }: PushKey) =>
  and(eq(pushConfigs.runId, runId), eq(pushConfigs.id, id), eq(pushConfigs.ownerId, ownerId))

/** Keeps a configuration, in place of the one with its id. @returns False: the run has too many. */
export const putPushConfig = tenantOperation(
  { source: import.meta.url, name: 'putPushConfig', lane: 'interactive' },
  async (tx, config: NewPushConfig): Promise<boolean> => {
    await holdRunOnly(tx, config)
    const others = sql`${pushConfigs.id} <> ${config.id}`
    if ((await tx.$count(pushConfigs, and(ofRun(config), others))) >= MAX_PUSHES) return false
    await tx.delete(pushConfigs).where(isPush(config))
    await tx.insert(pushConfigs).values(config)
    return true
  },
)

/** In the order in which they were made. */
export const listPushConfigs = tenantOperation(
  { source: import.meta.url, name: 'listPushConfigs', lane: 'interactive', onlyReads: true },
  async (tx, key: RunKey): Promise<PushConfig[]> => {
    const rows = await tx
      .select()
      .from(pushConfigs)
      .where(ofRun(key))
      .orderBy(asc(pushConfigs.createdAt), asc(pushConfigs.id))
    return rows.map(({ runId: taskId, id, url, scheme }) => {
      return { taskId, id, url, ...(scheme !== null && { authentication: { scheme } }) }
    })
  },
)

export const deletePushConfig = tenantOperation(
  { source: import.meta.url, name: 'deletePushConfig', lane: 'interactive' },
  async (tx, key: PushKey): Promise<void> => {
    await tx.delete(pushConfigs).where(isPush(key))
  },
)

const ofRun = ({ ownerId, runId }: RunKey) => and(eq(pushConfigs.runId, runId), eq(pushConfigs.ownerId, ownerId))

/** A notification that this process has taken. */
export type TakenNotification = PushKey & {
  readonly url: string
  readonly secretEnc: Uint8Array
  readonly chatId: string
  readonly state: 'waiting' | 'completed' | 'failed' | 'cancelled'
  readonly errorCode: string | null
  /** RFC 3339. */
  readonly changedAt: string
  readonly attempts: number
}

const TAKE = 20
/** A receiver that has failed for this long is given up. */
const PATIENCE = sql`interval '3 days'`

/** Of a run at rest `r`: since when. */
const CHANGED_AT = sql`coalesce(r.finished_at, r.waiting_since)`

/** What a run `r` has come to and the receiver `p` does not know of. Nothing is announced: a run at rest is what there is to say. */
const UNKNOWN = sql`p.closed_at IS NULL AND r.state IN ('waiting', 'completed', 'failed', 'cancelled')
  AND ${CHANGED_AT} IS DISTINCT FROM p.notified_at`

/** Part of a statement: whether there is anything to notify of. */
export const ANY_DUE_NOTIFICATIONS = sql`EXISTS (SELECT 1 FROM push_configs p JOIN runs r ON r.id = p.run_id
  WHERE ${UNKNOWN} AND p.next_at <= now())`

type TakenNotifications = {
  readonly taken: readonly TakenNotification[]
  /** When none was taken: milliseconds until one is due; null: none waits. */
  readonly nextMs: number | null
}

/** Takes notifications that are due. What is not settled, because its process was killed, comes again when its lease ends. */
export const takeNotifications = systemOperation(
  { source: import.meta.url, name: 'takeNotifications', lane: 'maintenance' },
  async (tx): Promise<TakenNotifications> => {
    const { rows } = await tx.execute(sql`
      WITH due AS (SELECT p.run_id, p.id FROM push_configs p JOIN runs r ON r.id = p.run_id
        WHERE ${UNKNOWN} AND p.next_at <= now() ORDER BY p.next_at LIMIT ${TAKE} FOR UPDATE OF p SKIP LOCKED)
      UPDATE push_configs p SET attempts = p.attempts + 1, next_at = ${leaseEnd(sql`p.attempts + 1`)}
      FROM due, runs r WHERE p.run_id = due.run_id AND p.id = due.id AND r.id = due.run_id
      RETURNING p.owner_id, p.run_id, p.id, p.url, p.secret_enc, p.attempts, r.chat_id, r.state, r.error_code,
        ${CHANGED_AT} AS changed_at`)
    if (rows.length === 0) return { taken: [], nextMs: await findNextDue(tx) }
    const taken = rows.map((row) => ({
      ownerId: String(row['owner_id']),
      runId: String(row['run_id']),
      id: String(row['id']),
      url: String(row['url']),
      secretEnc: new Uint8Array(row['secret_enc'] as Uint8Array),
      attempts: Number(row['attempts']),
      chatId: String(row['chat_id']),
      state: row['state'] as TakenNotification['state'],
      errorCode: row['error_code'] as string | null,
      changedAt: new Date(row['changed_at'] as string).toISOString(),
    }))
    return { taken, nextMs: null }
  },
)

/** What is due and was not taken is locked by another process: not at once. */
async function findNextDue(tx: Tx): Promise<number | null> {
  const { rows } = await tx.execute<{ ms: number }>(sql`
    SELECT greatest(1, extract(epoch FROM p.next_at - now()) * 1000)::float8 AS ms
    FROM push_configs p JOIN runs r ON r.id = p.run_id WHERE ${UNKNOWN} ORDER BY p.next_at LIMIT 1`)
  return rows[0]?.ms ?? null
}

type NotificationOutcome = Pick<TakenNotification, 'runId' | 'id' | 'state' | 'changedAt' | 'attempts'> & {
  readonly delivered: boolean
  /** 410: the receiver wants nothing any more. */
  readonly isGone: boolean
}

/** Notes what became of a notification. The one of a run's end is the last. */
export const settleNotification = systemOperation(
  { source: import.meta.url, name: 'settleNotification', lane: 'maintenance' },
  async (tx, { runId, id, state, changedAt, attempts, delivered, isGone }: NotificationOutcome): Promise<void> => {
    const isLast = isGone || (delivered && state !== 'waiting')
    // What was replaced meanwhile, or taken again, is another's to settle.
    const isMine = sql`run_id = ${runId} AND id = ${id} AND attempts = ${attempts}`
    await tx.execute(
      delivered
        ? sql`UPDATE push_configs SET notified_at = ${changedAt}, attempts = 0, next_at = now(), failing_since = NULL,
            closed_at = CASE WHEN ${isLast} THEN now() END WHERE ${isMine}`
        : sql`UPDATE push_configs SET next_at = now() + ${retryDelay(sql`attempts`)},
            failing_since = coalesce(failing_since, now()),
            closed_at = CASE WHEN ${isLast} OR failing_since < now() - ${PATIENCE} THEN now() END WHERE ${isMine}`,
    )
  },
)
