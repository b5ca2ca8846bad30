/** Whose history is made up, and how much of it. */
type History = {
  readonly ownerId: string
  /** An integration of the owner, which gets nearly half of the runs; three more are made like it. */
  readonly integrationId: string
  readonly runs: number
}

/** A query without parameters, seen across owners. */
type Query = (statement: string) => Promise<unknown>

/** The name of the `n`th (from 0) consumer; there is one for a hundred runs. */
export const seededConsumer = (n: number): string => `seeded-${String(n).padStart(6, '0')}`

/** The id of one of the three integrations, 1 to 3, that are made like the given one. */
export const seededIntegration = (integrationId: string, n: number): string => `${integrationId.slice(0, -4)}zzz${n}`

/**
 * Fills the records with ended runs of the last 200 days, of four integrations, with chats, members and usage: five runs a chat, a
 * hundred a consumer, three of ten without one; 3 of 100 failed, 1 was cancelled. Of the members one in a hundred is inactive, and
 * one in two hundred has used all of its allowance. Usage is to be added to the kept sums (`foldUsage`).
 */
export async function seedHistory(query: Query, { ownerId, integrationId, runs }: History): Promise<void> {
  const consumers = Math.ceil(runs / 100)
  const integration = `(CASE WHEN n % 2 = 0 THEN '${integrationId}' ELSE '${seededIntegration(integrationId, 0).slice(0, -1)}' || (n % 3 + 1) END)`
  const at = `date_trunc('milliseconds', now() - (${runs} - n) * interval '200 days' / ${runs})`
  const consumer = `CASE WHEN n / 5 % 10 < 7 THEN 'seeded-' || lpad((n / 5 % ${consumers})::text, 6, '0') END`
  const id = (prefix: string, n: string): string => `'${prefix}_' || lpad(${n}::text, 26, '0')`
  for (const number of [1, 2, 3]) {
    await query(`INSERT INTO integrations (id, owner_id, name, agency_id, default_agent, default_allowance, settings)
      SELECT '${seededIntegration(integrationId, number)}', owner_id, name, agency_id, default_agent, default_allowance, settings
      FROM integrations WHERE id = '${integrationId}'`)
  }
  await query(`INSERT INTO members (id, owner_id, integration_id, consumer_id, status, limit_messages, created_at)
    SELECT ${id('mem', 'n')}, '${ownerId}', '${integrationId}', 'seeded-' || lpad(n::text, 6, '0'),
      CASE WHEN n % 100 = 0 THEN 'inactive' ELSE 'active' END, 1000, now() - n * interval '1 minute'
    FROM generate_series(0, ${consumers - 1}) n`)
  await query(`INSERT INTO allowance_periods (member_id, period_start, period_end, owner_id, used_messages)
    SELECT m.id, b.ps, b.pe, m.owner_id, 1000 FROM members m, LATERAL allowance_bounds(m.period, m.time_zone, m.anchor_day, now()) b
    WHERE m.owner_id = '${ownerId}' AND m.consumer_id ~ '^seeded-' AND right(m.consumer_id, 6)::int % 200 = 7`)
  await query(`INSERT INTO allowance_ledger (owner_id, member_id, period_start, kind, dedupe_key, occurred_at, messages)
    SELECT owner_id, member_id, period_start, 'backfill', 'seed', now(), used_messages FROM allowance_periods WHERE owner_id = '${ownerId}'`)
  await query(`INSERT INTO chats (id, owner_id, integration_id, alias, created_by_consumer, next_seq, last_run_id, created_at, updated_at)
    SELECT ${id('chat', '(n / 5)')}, '${ownerId}', ${integration}, CASE WHEN n % 50 = 0 THEN 'alias-' || n / 5 END, ${consumer}, 1,
      ${id('run', 'n')}, ${at}, ${at} FROM generate_series(0, ${runs - 1}, 5) n`)
  await query(`INSERT INTO runs (id, owner_id, integration_id, chat_id, consumer_id, usage_request_id, fingerprint, agent, text_only, state,
      boot_id, error_code, error_class, input, usage, created_at, started_at, finished_at, deadline_at)
    SELECT ${id('run', 'n')}, '${ownerId}', ${integration.replaceAll('n %', '(n / 5 * 5) %')}, ${id('chat', '(n / 5)')}, ${consumer}, 'request-' || n,
      '\\x00', 'CEO', false, s.state, 'boot_seed', CASE WHEN s.state = 'failed' THEN 'internal_error' END,
      CASE WHEN s.state = 'failed' THEN 'system' END, '{"settings":{},"sandboxFiles":[]}',
      '{"request_count":1,"cached_tokens":0,"input_tokens":50,"output_tokens":12,"total_tokens":62,"total_cost":0.0001}',
      ${at}, ${at}, ${at}, ${at}
    FROM generate_series(0, ${runs - 1}) n,
      LATERAL (SELECT CASE WHEN n % 100 < 3 THEN 'failed' WHEN n % 100 = 3 THEN 'cancelled' ELSE 'completed' END AS state) s`)
  await query(`INSERT INTO usage_entries (run_id, call_seq, owner_id, agent, model, priced, input_tokens, output_tokens, cost_usd)
    SELECT ${id('run', 'n')}, 1, '${ownerId}', 'CEO', CASE WHEN n % 4 = 0 THEN 'gpt-5' ELSE 'gpt-5-mini' END, true, 50, 12, 0.0001
    FROM generate_series(0, ${runs - 1}) n`)
  await query(`INSERT INTO usage_deltas (owner_id, begins_at, day, integration_id, consumer_id, model, runs, failed_runs, requests,
      input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost_usd, estimated)
    SELECT owner_id, begins_at, day, integration_id, consumer_id, model, runs, failed_runs, requests,
      input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost_usd, estimated
    FROM v_usage_of_runs WHERE owner_id = '${ownerId}'`)
}
