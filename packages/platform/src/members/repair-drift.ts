import { sql } from 'drizzle-orm'
import { systemOperation, type Tx } from '../db/operation.ts'

/** A counter that was wrong. There must never be one: tell somebody. */
type RepairedCounter = { readonly memberId: string; readonly what: 'allowance' | 'active_runs' }

type RepairedStretch = {
  readonly repaired: readonly RepairedCounter[]
  /** The last member that was looked at; null: there are none behind it. */
  readonly next: string | null
}

/** Members per transaction. */
const STRETCH = 500

const LEDGER = sql`CROSS JOIN LATERAL (SELECT coalesce(sum(l.messages), 0)::bigint AS messages,
    coalesce(sum(l.tokens), 0)::bigint AS tokens, coalesce(sum(l.cost_micro), 0)::bigint AS cost FROM allowance_ledger l
  WHERE l.member_id = p.member_id AND l.period_start = p.period_start AND l.kind <> 'grant') s`
const IS_OFF = sql`(p.used_messages, p.used_tokens, p.used_cost_micro) IS DISTINCT FROM (s.messages, s.tokens, s.cost)`
const ACTIVE = sql`CROSS JOIN LATERAL (SELECT count(*)::int AS active FROM runs r
  WHERE r.member_id = m.id AND r.state IN ('reserved','running')) s`

/**
 * Sets counters that do not agree with the ledger and the runs to what those say, for the members that follow `after` in the order
 * of their ids.
 *
 * Only members with such a counter are locked, so that nothing is counted in between, and looked at again.
 */
export const repairDrift = systemOperation(
  { source: import.meta.url, name: 'repairDrift', lane: 'maintenance' },
  async (tx, { after }: { after: string | null }): Promise<RepairedStretch> => {
    const { rows } = await tx.execute<{ id: string }>(
      sql`SELECT id FROM members WHERE id > ${after ?? ''} ORDER BY id LIMIT ${STRETCH}`,
    )
    const next = rows.length === STRETCH ? rows.at(-1)!.id : null
    const suspects = await findSuspects(
      tx,
      rows.map(({ id }) => id),
    )
    return { repaired: suspects.length === 0 ? [] : await repair(tx, suspects), next }
  },
)

/** Members as a JSON array: both drivers send it alike. */
const among = (ids: readonly string[]) => sql`(SELECT jsonb_array_elements_text(${JSON.stringify(ids)}::jsonb))`

async function findSuspects(tx: Tx, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return []
  const { rows } = await tx.execute<{ id: string }>(sql`
    SELECT p.member_id AS id FROM allowance_periods p ${LEDGER} WHERE p.member_id IN ${among(ids)} AND ${IS_OFF}
    UNION SELECT m.id FROM members m ${ACTIVE} WHERE m.id IN ${among(ids)} AND m.active_runs <> s.active`)
  return rows.map(({ id }) => id)
}

async function repair(tx: Tx, ids: readonly string[]): Promise<RepairedCounter[]> {
  await tx.execute(sql`SELECT id FROM members WHERE id IN ${among(ids)} ORDER BY id FOR UPDATE`)
  const allowances = await tx.execute<{ id: string }>(sql`UPDATE allowance_periods x
    SET used_messages = d.messages, used_tokens = d.tokens, used_cost_micro = d.cost
    FROM (SELECT p.member_id, p.period_start, s.* FROM allowance_periods p ${LEDGER} WHERE p.member_id IN ${among(ids)} AND ${IS_OFF}) d
    WHERE x.member_id = d.member_id AND x.period_start = d.period_start RETURNING x.member_id AS id`)
  const slots = await tx.execute<{ id: string }>(sql`UPDATE members x SET active_runs = d.active
    FROM (SELECT m.id, s.active FROM members m ${ACTIVE} WHERE m.id IN ${among(ids)} AND m.active_runs <> s.active) d
    WHERE x.id = d.id RETURNING x.id`)
  return [
    ...allowances.rows.map(({ id }) => ({ memberId: id, what: 'allowance' as const })),
    ...slots.rows.map(({ id }) => ({ memberId: id, what: 'active_runs' as const })),
  ]
}
