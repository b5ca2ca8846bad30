import { sql } from 'drizzle-orm'
import { systemOperation } from '../db/operation.ts'

/** A counter that was wrong. There must never be one: tell somebody. */
type RepairedCounter = { readonly memberId: string; readonly what: 'allowance' | 'active_runs' }

/**
 * Sets counters that do not agree with the ledger and the runs to what those say, at most 100 of each kind.
 *
 * The members are locked first, so that nothing is counted in between.
 */
export const repairDrift = systemOperation(
  { source: import.meta.url, name: 'repairDrift', lane: 'maintenance' },
  async (tx): Promise<RepairedCounter[]> => {
    await tx.execute(sql`SELECT id FROM members WHERE id IN (SELECT member_id FROM v_counter_drift LIMIT 100)
      OR id IN (SELECT id FROM v_active_drift LIMIT 100) ORDER BY id FOR UPDATE`)
    const allowances = await tx.execute<{ id: string }>(sql`UPDATE allowance_periods p
      SET used_messages = d.lm, used_tokens = d.lt, used_cost_micro = d.lc
      FROM (SELECT * FROM v_counter_drift LIMIT 100) d
      WHERE p.member_id = d.member_id AND p.period_start = d.period_start RETURNING p.member_id AS id`)
    const slots = await tx.execute<{ id: string }>(sql`UPDATE members m SET active_runs = d.real_active
      FROM (SELECT * FROM v_active_drift LIMIT 100) d WHERE m.id = d.id RETURNING m.id`)
    return [
      ...allowances.rows.map(({ id }) => ({ memberId: id, what: 'allowance' as const })),
      ...slots.rows.map(({ id }) => ({ memberId: id, what: 'active_runs' as const })),
    ]
  },
)
