import { type SQL, sql } from 'drizzle-orm'
import { systemOperation } from './operation.ts'

/** A promise that the records break. `rows` says where, ten at most. */
export type Violation = {
  readonly invariant: string
  readonly says: string
  readonly rows: readonly Record<string, unknown>[]
}

/**
 * Checks what must hold at every moment, whatever was killed or raced. An empty answer is the good one.
 *
 * I6 (no active run of a dead process) holds once the recovery had its turn; `settled` says that it had.
 */
export const checkInvariants = systemOperation(
  { source: import.meta.url, name: 'checkInvariants', lane: 'maintenance', onlyReads: true },
  async (tx, { settled }: { settled: boolean }): Promise<Violation[]> => {
    const violations: Violation[] = []
    for (const { invariant, says, query } of settled ? [...ALWAYS, ...SETTLED] : ALWAYS) {
      const { rows } = await tx.execute(sql`${query} LIMIT 10`)
      if (rows.length > 0) violations.push({ invariant, says, rows })
    }
    return violations
  },
)

type Check = { readonly invariant: string; readonly says: string; readonly query: SQL }

const QUARTER = sql.raw(`date_bin('6 hours', begins_at, 'epoch')`)

/** Announcements are kept for seven days after their delivery. */
const RECENT = sql`r.finished_at > now() - interval '6 days'`

const SUMMED = sql`runs, failed_runs, requests, input_tokens, output_tokens, cost_usd`

/** Keys whose sums differ between what is kept and what the records say. */
const unequal = (key: SQL, kept: SQL, records: SQL): SQL => sql`SELECT ${key} FROM (
    SELECT 1 AS side, * FROM (${kept}) k UNION ALL SELECT -1, * FROM (${records}) r) x
  GROUP BY ${key} HAVING (sum(side * runs), sum(side * failed_runs), sum(side * requests), sum(side * input_tokens),
    sum(side * output_tokens), sum(side * cost_usd)) IS DISTINCT FROM (0, 0, 0, 0, 0, 0)`

const ALWAYS: readonly Check[] = [
  {
    invariant: 'I1',
    says: 'no chat has two active runs',
    query: sql`SELECT chat_id FROM runs WHERE state IN ('reserved','running','waiting') GROUP BY 1 HAVING count(*) > 1`,
  },
  {
    invariant: 'I3',
    says: 'every ended run was announced exactly once, as what it is',
    query: sql`SELECT r.id, r.state, count(o.id)::int AS announced FROM runs r
      LEFT JOIN outbox o ON o.run_id = r.id AND o.topic = 'run.' || r.state
      WHERE r.finished_at IS NOT NULL AND ${RECENT} GROUP BY 1, 2 HAVING count(o.id) <> 1`,
  },
  {
    invariant: 'I3',
    says: 'no run was announced as something else than it is',
    query: sql`SELECT r.id, r.state, o.topic FROM runs r JOIN outbox o ON o.run_id = r.id AND o.topic <> 'run.' || r.state
      AND o.topic IN ('run.completed', 'run.failed', 'run.cancelled')`,
  },
  {
    invariant: 'I3',
    says: 'every failed run is in the history of its chat',
    query: sql`SELECT r.id FROM runs r JOIN chats c ON c.id = r.chat_id AND c.deleted_at IS NULL
      WHERE r.state = 'failed' AND NOT EXISTS (SELECT 1 FROM messages m
        WHERE m.run_id = r.id AND m.chat_id = r.chat_id AND m.status = 'failed')`,
  },
  {
    invariant: 'I3',
    says: 'every run answers exactly one message of a user',
    query: sql`SELECT r.id, count(m.id)::int AS messages FROM runs r
      JOIN chats c ON c.id = r.chat_id AND c.deleted_at IS NULL
      LEFT JOIN messages m ON m.run_id = r.id AND m.chat_id = r.chat_id AND m.role = 'user' AND m.item->>'callerAgent' IS NULL
      WHERE ${RECENT} GROUP BY 1 HAVING count(m.id) <> 1`,
  },
  {
    invariant: 'I4',
    says: 'the usage of an ended run is the sum of its model calls',
    query: sql`SELECT r.id, r.usage, count(u.run_id)::int AS calls, sum(u.input_tokens)::int AS input FROM runs r
      LEFT JOIN usage_entries u ON u.run_id = r.id WHERE ${RECENT} GROUP BY r.id
      HAVING (r.usage->>'request_count')::bigint <> count(u.run_id)
        OR (r.usage->>'input_tokens')::bigint <> coalesce(sum(u.input_tokens), 0)
        OR (r.usage->>'output_tokens')::bigint <> coalesce(sum(u.output_tokens), 0)`,
  },
  {
    invariant: 'I4',
    says: 'a consumer was charged one message for each run and the tokens of each model call, each once',
    query: sql`SELECT r.id, l.messages::int AS messages, l.tokens::int AS charged, u.tokens::int AS used FROM runs r
      CROSS JOIN LATERAL (SELECT coalesce(sum(messages), 0) AS messages, coalesce(sum(tokens), 0) AS tokens
        FROM allowance_ledger WHERE run_id = r.id AND kind = 'debit') l
      CROSS JOIN LATERAL (SELECT coalesce(sum(input_tokens + output_tokens), 0) AS tokens
        FROM usage_entries WHERE run_id = r.id) u
      WHERE r.member_id IS NOT NULL AND ${RECENT} AND (l.messages <> 1 OR l.tokens <> u.tokens)`,
  },
  {
    invariant: 'I4',
    says: 'every allowance counter is the sum of its ledger',
    query: sql`SELECT * FROM v_counter_drift`,
  },
  {
    invariant: 'I4',
    says: 'every ledger row has a period',
    query: sql`SELECT l.id FROM allowance_ledger l LEFT JOIN allowance_periods p
      ON p.member_id = l.member_id AND p.period_start = l.period_start WHERE p.member_id IS NULL`,
  },
  {
    invariant: 'I4',
    says: 'no run is refunded more than it was charged, and a failure of ours costs nothing',
    query: sql`SELECT r.id, r.error_class, sum(l.messages)::int AS messages, sum(l.tokens)::int AS tokens,
        sum(l.cost_micro)::int AS cost FROM runs r JOIN allowance_ledger l ON l.run_id = r.id GROUP BY r.id
      HAVING sum(l.messages) < 0 OR sum(l.tokens) < 0 OR sum(l.cost_micro) < 0 OR (r.error_class = 'system'
        AND (sum(l.messages) <> 0 OR sum(l.tokens) <> 0 OR sum(l.cost_micro) <> 0))`,
  },
  {
    invariant: 'I4',
    says: 'the sums of usage, by half hour and model, are those of the ended runs',
    query: unequal(
      sql`owner_id, begins_at, integration_id, model`,
      sql`SELECT owner_id, begins_at, integration_id, model, ${SUMMED} FROM usage_half_hours
        UNION ALL SELECT owner_id, begins_at, integration_id, model, ${SUMMED} FROM usage_deltas`,
      sql`SELECT owner_id, begins_at, integration_id, model, ${SUMMED} FROM v_usage_of_runs`,
    ),
  },
  {
    invariant: 'I4',
    says: 'the sums of usage, by quarter of a day and model, are those of the ended runs',
    query: unequal(
      sql`owner_id, begins_at, integration_id, model`,
      sql`SELECT owner_id, begins_at, integration_id, model, ${SUMMED} FROM usage_quarter_days
        UNION ALL SELECT owner_id, ${QUARTER}, integration_id, model, ${SUMMED} FROM usage_deltas`,
      sql`SELECT owner_id, ${QUARTER} AS begins_at, integration_id, model, ${SUMMED} FROM v_usage_of_runs`,
    ),
  },
  {
    invariant: 'I4',
    says: 'the sums of usage, by day and consumer, are those of the ended runs',
    query: unequal(
      sql`owner_id, day, integration_id, consumer_id`,
      sql`SELECT owner_id, day, integration_id, consumer_id, ${SUMMED} FROM usage_consumer_days
        UNION ALL SELECT owner_id, day, integration_id, consumer_id, ${SUMMED} FROM usage_deltas WHERE model = ''`,
      sql`SELECT owner_id, day, integration_id, consumer_id, ${SUMMED} FROM v_usage_of_runs WHERE model = ''`,
    ),
  },
  {
    invariant: 'I5',
    says: "every member's count of active runs is right",
    query: sql`SELECT * FROM v_active_drift`,
  },
  {
    invariant: 'I9',
    says: 'a run is active or has an end, and keeps no context after it',
    query: sql`SELECT id, state FROM runs WHERE (state IN ('reserved','running','waiting')) <> (finished_at IS NULL)
      OR (finished_at IS NOT NULL AND context_enc IS NOT NULL) OR ((state = 'failed') <> (error_code IS NOT NULL))`,
  },
  {
    invariant: 'I9',
    says: 'nothing is kept of how far an ended run had come',
    query: sql`SELECT r.id FROM runs r JOIN run_states s ON s.run_id = r.id WHERE r.finished_at IS NOT NULL`,
  },
  {
    invariant: 'I9',
    says: 'no attachment of an ended run is still pending',
    query: sql`SELECT a.id FROM message_attachments a JOIN runs r ON r.id = a.run_id
      WHERE a.state = 'pending' AND r.finished_at IS NOT NULL`,
  },
  {
    invariant: 'I11',
    says: 'nothing that was attached to a failed response is sent again',
    query: sql`SELECT a.id, a.state FROM message_attachments a JOIN runs r ON r.id = a.run_id
      WHERE r.state = 'failed' AND a.state <> 'excluded'`,
  },
  {
    invariant: 'I10',
    says: 'the messages of a chat are numbered from 1 without a gap',
    query: sql`SELECT c.id, c.next_seq, count(m.seq)::int AS n, max(m.seq)::int AS last FROM chats c
      JOIN messages m ON m.chat_id = c.id WHERE c.deleted_at IS NULL GROUP BY c.id
      HAVING count(m.seq) <> max(m.seq) OR min(m.seq) <> 1 OR max(m.seq) <> c.next_seq - 1`,
  },
]

const SETTLED: readonly Check[] = [
  {
    invariant: 'I6',
    says: 'no active run belongs to a process that has ended',
    query: sql`SELECT r.id, r.boot_id FROM runs r LEFT JOIN replicas x ON x.boot_id = r.boot_id
      WHERE r.state IN ('reserved','running') AND (x.state IS NULL OR x.state IN ('dead','gone'))`,
  },
]
