import { sql } from 'drizzle-orm'
import type { Database } from '../db/database.ts'
import { systemOperation } from '../db/operation.ts'

/** Deltas per transaction. */
const BATCH = 5_000

export const TOKENS = [
  'input_tokens',
  'cached_tokens',
  'cache_write_tokens',
  'output_tokens',
  'reasoning_tokens',
] as const
/** What is added up, in the order of the tables' columns; `estimated` follows. */
export const NUMBERS = ['runs', 'failed_runs', 'requests', ...TOKENS, 'cost_usd'] as const
const SUMS = sql.raw(NUMBERS.map((column) => `sum(${column})`).join(', '))
const ADDED = sql.raw(NUMBERS.map((column) => `${column} = s.${column} + excluded.${column}`).join(', '))

/** Adds what runs left at their end to the kept sums of usage. @returns How many deltas; 5,000 means that there may be more. */
export const foldUsage = systemOperation(
  { source: import.meta.url, name: 'foldUsage', lane: 'maintenance' },
  async (tx): Promise<number> => {
    // Most minutes of most installations: the statement below costs something for no deltas too.
    const waiting = await tx.execute(sql`SELECT 1 FROM usage_deltas LIMIT 1`)
    if (waiting.rows.length === 0) return 0
    const { rows } = await tx.execute<{ n: number }>(sql`
      WITH taken AS (DELETE FROM usage_deltas WHERE id IN (
          SELECT id FROM usage_deltas ORDER BY id LIMIT ${BATCH} FOR UPDATE SKIP LOCKED) RETURNING *),
      halves AS (INSERT INTO usage_half_hours AS s
        SELECT owner_id, begins_at, integration_id, model, ${SUMS}, bool_or(estimated) FROM taken GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
        ON CONFLICT (owner_id, begins_at, integration_id, model) DO UPDATE SET ${ADDED}, estimated = s.estimated OR excluded.estimated),
      days AS (INSERT INTO usage_consumer_days AS s
        SELECT owner_id, day, integration_id, consumer_id, ${SUMS}, bool_or(estimated) FROM taken WHERE model = ''
        GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
        ON CONFLICT (owner_id, day, integration_id, consumer_id) DO UPDATE SET ${ADDED}, estimated = s.estimated OR excluded.estimated)
      SELECT count(*)::int AS n FROM taken`)
    return rows[0]?.n ?? 0
  },
)

/** Adds all that there is. What runs leave meanwhile is for the next time: where many end, there is always some more. */
export async function foldAllUsage(db: Database): Promise<void> {
  while ((await db.run(foldUsage, undefined)) === BATCH) {
    // There may be more.
  }
}
