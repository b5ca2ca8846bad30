import { RECEIVER_TIMEOUT_MS } from '@bureau/runtime'
import { type SQL, sql } from 'drizzle-orm'
import { systemOperation, type Tx } from '../db/operation.ts'

/** A delivery that this process has taken. */
export type TakenDelivery = {
  readonly ownerId: string
  readonly endpointId: string
  readonly eventId: string
  readonly topic: string
  readonly payload: Readonly<Record<string, unknown>>
  /** RFC 3339. */
  readonly announcedAt: string
  readonly url: string
  readonly secretEnc: Uint8Array
  /** This one included. */
  readonly attempts: number
}

const FAN_OUT = 200
const TAKE = 20
/** An endpoint that has failed for this long is switched off, a delivery given up. */
const PATIENCE = sql`interval '3 days'`

/** How long a receiver is left alone after so many attempts: 5 s, 10 s, 20 s … up to a day. */
export const retryDelay = (attempts: SQL): SQL =>
  sql`least(interval '1 day', interval '5 seconds' * power(2, least(${attempts} - 1, 20)))`

/** Until when what was taken for another attempt is left to its process: past the end of the attempt, by the delay after it. */
export const leaseEnd = (attempts: SQL): SQL =>
  sql`now() + make_interval(secs => ${RECEIVER_TIMEOUT_MS / 1_000}) + ${retryDelay(attempts)}`

/** Part of a statement: whether there is anything to announce or to deliver. */
export const ANY_DUE_DELIVERIES = sql`(EXISTS (SELECT 1 FROM outbox WHERE done_at IS NULL)
  OR EXISTS (SELECT 1 FROM webhook_deliveries d JOIN webhook_endpoints e ON e.id = d.endpoint_id AND e.status = 'enabled'
    WHERE d.state = 'pending' AND d.next_at <= now()))`

/** Makes deliveries of announcements, for the endpoints that want them. @returns Whether there may be more. */
export const fanOutAnnouncements = systemOperation(
  { source: import.meta.url, name: 'fanOutAnnouncements', lane: 'maintenance' },
  async (tx): Promise<boolean> => {
    const { rows } = await tx.execute<{ n: number }>(sql`
      WITH due AS (SELECT * FROM outbox WHERE done_at IS NULL ORDER BY id LIMIT ${FAN_OUT} FOR UPDATE SKIP LOCKED),
      fanned AS (INSERT INTO webhook_deliveries (endpoint_id, event_id, owner_id, topic, payload, announced_at)
        SELECT e.id, d.event_id, d.owner_id, d.topic, d.payload, d.created_at FROM due d
        JOIN webhook_endpoints e ON e.owner_id = d.owner_id AND e.status = 'enabled' AND d.topic = ANY(e.events)
        ON CONFLICT DO NOTHING),
      done AS (UPDATE outbox SET done_at = now() WHERE id IN (SELECT id FROM due) RETURNING 1)
      SELECT count(*)::int AS n FROM done`)
    return rows[0]?.n === FAN_OUT
  },
)

type TakenDeliveries = {
  readonly taken: readonly TakenDelivery[]
  /** When none was taken: milliseconds until one is due; null: none waits. */
  readonly nextMs: number | null
}

/**
 * Takes deliveries that are due. What is not settled, because its process was killed, comes again when its lease ends.
 *
 * Those to an endpoint that fails come last: each may take as long as its receiver does not answer, and there are more and more of them.
 */
export const takeDeliveries = systemOperation(
  { source: import.meta.url, name: 'takeDeliveries', lane: 'maintenance' },
  async (tx): Promise<TakenDeliveries> => {
    const { rows } = await tx.execute(sql`
      WITH due AS (SELECT d.endpoint_id, d.event_id FROM webhook_deliveries d
        JOIN webhook_endpoints e ON e.id = d.endpoint_id AND e.status = 'enabled'
        WHERE d.state = 'pending' AND d.next_at <= now()
        ORDER BY e.failing_since IS NOT NULL, d.next_at LIMIT ${TAKE} FOR UPDATE OF d SKIP LOCKED)
      UPDATE webhook_deliveries d SET attempts = d.attempts + 1, next_at = ${leaseEnd(sql`d.attempts + 1`)}
      FROM due, webhook_endpoints e
      WHERE d.endpoint_id = due.endpoint_id AND d.event_id = due.event_id AND e.id = d.endpoint_id
      RETURNING d.owner_id, d.endpoint_id, d.event_id, d.topic, d.payload, d.announced_at, d.attempts,
        e.url, e.secret_enc`)
    if (rows.length === 0) return { taken: [], nextMs: await findNextDue(tx) }
    const taken = rows.map((row) => ({
      ownerId: String(row['owner_id']),
      endpointId: String(row['endpoint_id']),
      eventId: String(row['event_id']),
      topic: String(row['topic']),
      payload: row['payload'] as TakenDelivery['payload'],
      announcedAt: new Date(row['announced_at'] as string).toISOString(),
      url: String(row['url']),
      secretEnc: new Uint8Array(row['secret_enc'] as Uint8Array),
      attempts: Number(row['attempts']),
    }))
    return { taken, nextMs: null }
  },
)

/** What is due and was not taken is locked by another process: not at once. */
async function findNextDue(tx: Tx): Promise<number | null> {
  const { rows } = await tx.execute<{ ms: number }>(sql`
    SELECT greatest(1, extract(epoch FROM d.next_at - now()) * 1000)::float8 AS ms FROM webhook_deliveries d
    JOIN webhook_endpoints e ON e.id = d.endpoint_id AND e.status = 'enabled'
    WHERE d.state = 'pending' ORDER BY d.next_at LIMIT 1`)
  return rows[0]?.ms ?? null
}

type DeliveryOutcome = Pick<TakenDelivery, 'endpointId' | 'eventId' | 'attempts'> & {
  readonly delivered: boolean
  /** Null: there was no answer. */
  readonly responseStatus: number | null
}

/** Notes what became of a delivery. 410 (gone) switches the endpoint off at once, three days of failures do so too. */
export const settleDelivery = systemOperation(
  { source: import.meta.url, name: 'settleDelivery', lane: 'maintenance' },
  async (tx, { endpointId, eventId, attempts, delivered, responseStatus }: DeliveryOutcome): Promise<void> => {
    const { rows } = await tx.execute(sql`UPDATE webhook_deliveries SET response_status = ${responseStatus}::int,
        state = CASE WHEN ${delivered} THEN 'delivered' WHEN created_at < now() - ${PATIENCE} THEN 'failed' ELSE state END,
        done_at = CASE WHEN ${delivered} OR created_at < now() - ${PATIENCE} THEN now() END,
        next_at = now() + ${retryDelay(sql`attempts`)}
      WHERE endpoint_id = ${endpointId} AND event_id = ${eventId} AND state = 'pending' AND attempts = ${attempts}
      RETURNING 1`)
    // What was settled or taken again meanwhile is another's, and says nothing about the endpoint.
    if (rows.length === 0) return
    if (delivered) {
      await tx.execute(sql`UPDATE webhook_endpoints SET failing_since = NULL
        WHERE id = ${endpointId} AND failing_since IS NOT NULL`)
      return
    }
    await tx.execute(sql`UPDATE webhook_endpoints SET failing_since = coalesce(failing_since, now()),
        status = CASE WHEN ${responseStatus === 410} OR failing_since < now() - ${PATIENCE} THEN 'disabled' ELSE status END
      WHERE id = ${endpointId}`)
  },
)
