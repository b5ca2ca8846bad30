import { type SQL, sql } from 'drizzle-orm'
import type { Database } from './database.ts'
import { systemOperation } from './operation.ts'

/** Rows per statement: on the embedded database a long transaction would hold everybody up. */
const BATCH_SIZE = 500
/** A sweep stops after this many batches and goes on the next time. */
const MAX_BATCHES = 20
const BATCH = sql.raw(String(BATCH_SIZE))

/**
 * What is kept only for a time, and for how long. Children stand before their parents.
 *
 * Rows that can be renewed are locked when they are found, which checks them again as they are by then. Those that
 * somebody else has locked are left to the next sweep.
 */
const SWEEPS: Readonly<Record<string, SQL>> = {
  eventChunks: sql`DELETE FROM run_event_chunks WHERE (run_id, first_seq) IN (SELECT c.run_id, c.first_seq
    FROM runs r JOIN run_event_chunks c ON c.run_id = r.id WHERE r.finished_at < now() - interval '24 hours' LIMIT ${BATCH})`,
  idempotencyKeys: sql`DELETE FROM idempotency_keys WHERE (owner_id, api_key_id, route, key) IN (SELECT owner_id, api_key_id, route, key
    FROM idempotency_keys WHERE expires_at < now() LIMIT ${BATCH} FOR UPDATE SKIP LOCKED)`,
  announcements: sql`DELETE FROM outbox WHERE id IN (SELECT id FROM outbox
    WHERE done_at < now() - interval '7 days' LIMIT ${BATCH})`,
  deliveries: sql`DELETE FROM webhook_deliveries WHERE (endpoint_id, event_id) IN (SELECT endpoint_id, event_id
    FROM webhook_deliveries WHERE done_at < now() - interval '7 days' LIMIT ${BATCH})`,
  pushConfigs: sql`DELETE FROM push_configs WHERE (run_id, id) IN (SELECT run_id, id FROM push_configs
    WHERE closed_at < now() - interval '7 days' LIMIT ${BATCH})`,
  uploads: sql`DELETE FROM uploads WHERE id IN (SELECT id FROM uploads
    WHERE state IN ('expired','deleted') AND expires_at < now() - interval '7 days' LIMIT ${BATCH})`,
  leases: sql`DELETE FROM leases WHERE (owner_id, name) IN (SELECT owner_id, name FROM leases
    WHERE expires_at < now() - interval '1 hour' LIMIT ${BATCH} FOR UPDATE SKIP LOCKED)`,
  replicas: sql`DELETE FROM replicas WHERE boot_id IN (SELECT boot_id FROM replicas x WHERE state IN ('gone','dead')
    AND heartbeat_at < now() - interval '7 days' AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.boot_id = x.boot_id
      AND r.state IN ('reserved','running')) LIMIT ${BATCH})`,
  emptyChats: sql`DELETE FROM chats WHERE id IN (SELECT id FROM chats WHERE last_run_id IS NULL
    AND next_seq = 1 AND created_at < now() - interval '30 days' LIMIT ${BATCH} FOR UPDATE SKIP LOCKED)`,
  expiredChats: sql`UPDATE chats SET deleted_at = now(), title = NULL, summary = NULL WHERE id IN (SELECT c.id FROM chats c
    JOIN integrations i ON i.id = c.integration_id WHERE c.deleted_at IS NULL
      AND c.updated_at < now() - make_interval(days => (i.settings->>'retentionDays')::int)
      AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.chat_id = c.id AND r.state IN ('reserved','running','waiting'))
    LIMIT ${BATCH} FOR UPDATE OF c SKIP LOCKED)`,
  deletedResponses: sql`DELETE FROM responses WHERE (run_id, after_seq) IN (SELECT x.run_id, x.after_seq FROM chats c
    JOIN runs r ON r.chat_id = c.id JOIN responses x ON x.run_id = r.id WHERE c.deleted_at IS NOT NULL AND c.next_seq > 1 LIMIT ${BATCH})`,
  deletedApprovals: sql`DELETE FROM run_approvals WHERE (run_id, agent_run_id, call_id) IN (SELECT a.run_id, a.agent_run_id, a.call_id
    FROM chats c JOIN runs r ON r.chat_id = c.id JOIN run_approvals a ON a.run_id = r.id
    WHERE c.deleted_at IS NOT NULL AND c.next_seq > 1 LIMIT ${BATCH})`,
  deletedAttachments: sql`DELETE FROM message_attachments WHERE id IN (SELECT a.id FROM chats c
    JOIN message_attachments a ON a.chat_id = c.id WHERE c.deleted_at IS NOT NULL AND c.next_seq > 1 LIMIT ${BATCH})`,
  deletedMessages: sql`DELETE FROM messages WHERE (chat_id, seq) IN (SELECT m.chat_id, m.seq FROM chats c
    JOIN messages m ON m.chat_id = c.id WHERE c.deleted_at IS NOT NULL AND c.next_seq > 1 LIMIT ${BATCH})`,
  erasedChats: sql`UPDATE chats SET next_seq = 1 WHERE id IN (SELECT id FROM chats c WHERE c.deleted_at IS NOT NULL
    AND c.next_seq > 1 AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.chat_id = c.id)
    AND NOT EXISTS (SELECT 1 FROM message_attachments a WHERE a.chat_id = c.id)
    AND NOT EXISTS (SELECT 1 FROM runs r JOIN responses x ON x.run_id = r.id WHERE r.chat_id = c.id)
    AND NOT EXISTS (SELECT 1 FROM runs r JOIN run_approvals a ON a.run_id = r.id WHERE r.chat_id = c.id) LIMIT ${BATCH})`,
  oldUsage: sql`DELETE FROM usage_entries WHERE (run_id, call_seq) IN (SELECT u.run_id, u.call_seq FROM runs r
    JOIN usage_entries u ON u.run_id = r.id WHERE r.finished_at < now() - interval '400 days' LIMIT ${BATCH})`,
  oldSums: sql`DELETE FROM usage_half_hours WHERE ctid IN (SELECT ctid FROM usage_half_hours
    WHERE begins_at < now() - interval '401 days' LIMIT ${BATCH})`,
  oldQuarterDays: sql`DELETE FROM usage_quarter_days WHERE ctid IN (SELECT ctid FROM usage_quarter_days
    WHERE begins_at < now() - interval '402 days' LIMIT ${BATCH})`,
  oldConsumerSums: sql`DELETE FROM usage_consumer_days WHERE ctid IN (SELECT ctid FROM usage_consumer_days
    WHERE day < (now() - interval '402 days')::date LIMIT ${BATCH})`,
  oldRuns: sql`DELETE FROM runs WHERE id IN (SELECT id FROM runs r WHERE r.finished_at < now() - interval '400 days'
    AND NOT EXISTS (SELECT 1 FROM usage_entries u WHERE u.run_id = r.id)
    AND NOT EXISTS (SELECT 1 FROM run_event_chunks e WHERE e.run_id = r.id) LIMIT ${BATCH})`,
  // The oldest come first: no index of the times is needed to see that there is nothing to do.
  oldAudit: sql`DELETE FROM audit_log WHERE id IN (SELECT id FROM (SELECT id, created_at FROM audit_log ORDER BY id LIMIT ${BATCH}) x
    WHERE created_at < now() - interval '7 years')`,
}

/** The names of all sweeps, in the order in which they are done. */
export const SWEEP_NAMES: readonly string[] = Object.keys(SWEEPS)

/** Deletes a batch of what one sweep is about. @returns How many rows; 500 means that there may be more. */
export const sweepExpired = systemOperation(
  { source: import.meta.url, name: 'sweepExpired', lane: 'maintenance' },
  async (tx, name: string): Promise<number> => {
    const statement = SWEEPS[name]
    if (!statement) throw new Error(`there is no sweep ${name}`)
    const { rows } = await tx.execute<{ n: number }>(
      sql`WITH swept AS (${statement} RETURNING 1) SELECT count(*)::int AS n FROM swept`,
    )
    return rows[0]?.n ?? 0
  },
)

/** Deletes what is over its time, in short transactions that let everybody else go first. Of much, a part each time. */
export async function sweepAllExpired(db: Database): Promise<void> {
  for (const name of SWEEP_NAMES) {
    for (let batch = 0; batch < MAX_BATCHES; batch++) if ((await db.run(sweepExpired, name)) < BATCH_SIZE) break
  }
}
