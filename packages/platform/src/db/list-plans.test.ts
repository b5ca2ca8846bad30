import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { listChats } from '../chats/manage-chats.ts'
import { readUnanswered } from '../chats/read-unanswered.ts'
import { listAllowedOrigins } from '../consumer-tokens/consumer-tokens.repo.ts'
import { listMembers } from '../members/manage-members.ts'
import { countRuns, listRuns } from '../run-records/read-runs.ts'
import { openTestStore, type TestTenant } from '../test-store.contract.ts'
import { foldUsage } from '../usage/fold-usage.ts'
import { listUsageRecords } from '../usage/usage-records.ts'
import { summarizeUsage } from '../usage/usage-summary.ts'
import { checkInvariants } from './invariants.contract.ts'
import type { Operation } from './operation.ts'
import { seededConsumer, seededIntegration, seedHistory } from './seed-history.contract.ts'
import { vacuumDatabase } from './vacuum.ts'

const RUNS = 20_000
/** What a page of 20 may look at: its rows, what belongs to them in other tables, and some that a second filter drops. */
const MOST_ROWS = 600
const DAY_MS = 86_400_000

describe('lists of an owner with many runs read no more than what they show', () => {
  let platform: Awaited<ReturnType<typeof openTestStore>>
  let tenant: TestTenant
  beforeAll(async () => {
    platform = await openTestStore('pglite')
    tenant = await platform.addTenant()
    await seedHistory(platform.rows, { ...tenant, runs: RUNS })
    await addLongChat()
    await addIntegrations()
    while ((await platform.db.run(foldUsage, undefined)) > 0) {
      // There are more.
    }
    await vacuumDatabase(platform.db)
    await platform.rows('ANALYZE')
  })
  // Not for other tests: what was counted here would mislead the planner about their rows.
  afterAll(() => platform.db.close())

  /** Before anything is counted: what its foreign keys look up would be counted late. */
  async function addLongChat(): Promise<void> {
    const { ownerId, integrationId } = tenant
    await platform.rows(`INSERT INTO chats (id, owner_id, integration_id, alias, next_seq, created_at, updated_at)
      VALUES ('chat_long', '${ownerId}', '${integrationId}', 'long', 3001, now() - interval '1 year', now() - interval '1 year')`)
    await platform.rows(`INSERT INTO messages (chat_id, seq, owner_id, run_id, id, role, item)
      SELECT 'chat_long', seq, '${ownerId}', 'run_long', 'msg_long_' || seq, 'user', '{"role":"user","content":"?"}'
      FROM generate_series(1, 3000) seq`)
  }

  /** Of another owner, made by the API; one of them has a page. */
  async function addIntegrations(): Promise<void> {
    const { integrationId } = await platform.addTenant({ allowedOrigins: ['https://shop.example'] })
    await platform.rows(`INSERT INTO integrations (id, owner_id, name, agency_id, default_agent, default_allowance, settings)
      SELECT id || n, owner_id, name, agency_id, default_agent, default_allowance, settings || '{"allowedOrigins":[]}'
      FROM integrations, generate_series(1, 5000) n WHERE id = '${integrationId}'`)
  }

  /** Rows that statements have looked at so far, in tables and indexes. */
  async function rowsRead(): Promise<number> {
    await platform.rows('SELECT pg_stat_force_next_flush()')
    const [row] =
      await platform.rows(`SELECT (SELECT sum(seq_tup_read) FROM pg_stat_all_tables WHERE schemaname = current_schema())
      + (SELECT sum(idx_tup_read) FROM pg_stat_all_indexes WHERE schemaname = current_schema()) AS rows`)
    return Number(row!['rows'])
  }

  async function readsOf<Args, Result>(operation: Operation<Args, Result>, args: Args): Promise<number> {
    const before = await rowsRead()
    await platform.db.run(operation, args)
    return (await rowsRead()) - before
  }

  const rare = seededConsumer(3)
  const page = () => ({ ownerId: tenant.ownerId, integrationIds: null, limit: 20, after: null })
  const other = (): string => seededIntegration(tenant.integrationId, 2)
  const ago = (days: number): string => new Date(Date.now() - days * DAY_MS).toISOString()

  test.each([
    ['all', () => ({})],
    ['of an integration', () => ({ integrationId: other() })],
    ['of a consumer', () => ({ consumerId: rare })],
    ['of a consumer in an integration', () => ({ consumerId: rare, integrationId: other() })],
    ['that failed', () => ({ status: 'failed' as const })],
    ['that failed in an integration where none did', () => ({ status: 'failed' as const, integrationId: other() })],
    ['that were cancelled', () => ({ status: 'cancelled' as const })],
    ['that are running', () => ({ status: 'running' as const })],
    ['that are to be cancelled', () => ({ status: 'cancelling' as const })],
    ['of a month half a year ago', () => ({ createdAfter: ago(190), createdBefore: ago(160) })],
    ['of nobody', () => ({ consumerId: 'nobody' })],
  ])('runs %s', async (_, filter) => {
    expect(await readsOf(listRuns, { ...page(), ...filter() })).toBeLessThan(MOST_ROWS)
  })

  test.each([
    ['all', () => ({})],
    ['that failed', () => ({ status: 'failed' as const })],
    ['that changed lately', () => ({ changedAfter: ago(0.1) })],
  ])('runs of an integration by their latest change: %s', async (_, filter) => {
    const asked = { ...page(), integrationId: other(), by: 'change' as const, ...filter() }
    expect(await readsOf(listRuns, asked)).toBeLessThan(MOST_ROWS)
  })

  test('what was left unanswered in a long chat, by its alias', async () => {
    const { ownerId, integrationId } = tenant
    expect(await readsOf(readUnanswered, { ownerId, integrationId, aliasChatId: 'long' })).toBeLessThan(MOST_ROWS)
  })

  test('the count of the runs of an integration that changed lately', async () => {
    const asked = { ...page(), integrationId: other(), changedAfter: ago(0.1) }
    expect(await readsOf(countRuns, asked)).toBeLessThan(MOST_ROWS)
  })

  test('runs that an API key for one integration sees', async () => {
    expect(await readsOf(listRuns, { ...page(), integrationIds: [other()] })).toBeLessThan(MOST_ROWS)
  })

  test.each([
    ['all', () => ({})],
    ['of an integration', () => ({ integrationId: other() })],
    ['of a consumer', () => ({ consumerId: rare })],
    ['with an alias', () => ({ aliasChatId: 'alias-500' })],
    ['changed lately', () => ({ updatedAfter: ago(1) })],
  ])('chats %s', async (_, filter) => {
    expect(await readsOf(listChats, { ...page(), ...filter() })).toBeLessThan(MOST_ROWS)
  })

  test.each([
    ['all', () => ({})],
    ['that are inactive', () => ({ status: 'inactive' as const })],
    ['that have used all of their allowance', () => ({ exhausted: true })],
  ])('members %s', async (_, filter) => {
    const args = { ...page(), integrationId: tenant.integrationId, ...filter() }
    expect(await readsOf(listMembers, args)).toBeLessThan(MOST_ROWS)
  })

  test('the origins of all integrations, of which few list any', async () => {
    expect(await platform.db.run(listAllowedOrigins, undefined)).toEqual(['https://shop.example'])
    expect(await readsOf(listAllowedOrigins, undefined)).toBeLessThan(MOST_ROWS)
  })

  test.each([
    ['all', () => ({})],
    ['of an integration', () => ({ integrationId: other() })],
    ['of a consumer', () => ({ consumerId: rare })],
    ['of a request', () => ({ usageRequestId: 'request-777' })],
    ['of a week', () => ({ from: ago(100), to: ago(93) })],
  ])('usage records %s', async (_, filter) => {
    expect(await readsOf(listUsageRecords, { ...page(), ...filter() })).toBeLessThan(MOST_ROWS)
  })

  test.each(['day', 'integration', 'model', 'consumer'] as const)(
    'a summary by %s reads sums, not runs',
    async (groupBy) => {
      const { ownerId } = tenant
      const request = { ownerId, integrationIds: null, groupBy, from: ago(40), to: ago(30), timeZone: 'Europe/Berlin' }
      expect(await readsOf(summarizeUsage, request)).toBeLessThan(((RUNS * 10) / 200) * 2.5)
    },
  )

  test.each(['day', 'integration', 'model'] as const)(
    'a summary of half a year by %s reads quarters of days',
    async (groupBy) => {
      const { ownerId } = tenant
      const request = { ownerId, integrationIds: null, groupBy, from: ago(195), timeZone: 'UTC' }
      // Four integrations, with a row for all models and one for each.
      expect(await readsOf(summarizeUsage, request)).toBeLessThan(195 * 4 * 4 * 3 * 1.2)
    },
  )

  test('a summary by day reads fewer rows than there are runs, also where days begin within a half hour', async () => {
    const { ownerId } = tenant
    const zone = { timeZone: 'Asia/Kathmandu', from: ago(60), to: ago(30) }
    const request = { ownerId, integrationIds: null, groupBy: 'day' as const, ...zone }
    expect(await readsOf(summarizeUsage, request)).toBeLessThan((RUNS * 30) / 200)
  })

  test.each(['UTC', 'Asia/Kolkata', 'Asia/Kathmandu'])(
    'a summary has all runs, with the days of %s',
    async (timeZone) => {
      const request = { ownerId: tenant.ownerId, integrationIds: null, from: ago(40), to: ago(30), timeZone }
      const [counted] = await platform.rows(
        `SELECT count(*)::int AS runs, count(DISTINCT (created_at AT TIME ZONE '${timeZone}')::date)::int AS days FROM runs
          WHERE created_at >= '${request.from}' AND created_at < '${request.to}'`,
      )
      for (const [groupBy, keys] of [
        ['day', counted!['days']],
        ['integration', 4],
        ['consumer', 141],
        ['model', 2],
      ] as const) {
        const summary = await platform.db.run(summarizeUsage, { ...request, groupBy })
        const runs = summary.reduce((sum, part) => sum + part.runs, 0)
        expect([groupBy, summary.length, runs]).toEqual([groupBy, keys, counted!['runs']])
        expect(summary.reduce((sum, { usage }) => sum + usage.output_tokens, 0)).toBe(runs * 12)
      }
    },
  )

  test('the sums are those of the runs', async () => {
    const broken = await platform.db.run(checkInvariants, { settled: false })
    expect(broken.filter(({ says }) => says.startsWith('the sums of usage'))).toEqual([])
  })
})
