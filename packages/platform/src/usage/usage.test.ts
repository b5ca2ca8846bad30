import type { UsageRecord } from '@bureau/protocol'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Database } from '../db/database.ts'
import { ENGINES } from '../db/engines.contract.ts'
import { modelCall } from '../test-store.contract.ts'
import { useTenant, useTestStore } from '../use-test-store.contract.ts'
import { foldAllUsage, foldUsage } from './fold-usage.ts'
import { USAGE_CSV_HEADER, usageCsvLine } from './usage-csv.ts'
import { exportUsageRecords, listUsageRecords } from './usage-records.ts'
import { type SummaryRequest, summarizeUsage } from './usage-summary.ts'

describe.each(ENGINES)('usage on %s', (engine) => {
  const platform = useTestStore(engine)
  const tenant = useTenant(platform, { memberAllowancesEnabled: true })
  beforeAll(async () => {
    await tenant.addMember('ada')
    await tenant.addMember('bob')
    const one = await tenant.admit({ consumerId: 'ada', usageRequestId: 'u-1' })
    await tenant.finish(one, {
      calls: [modelCall(1), { ...modelCall(2, { total_cost: 0 }), model: 'local', priced: false }],
    })
    const two = await tenant.admit({ consumerId: 'bob', usageRequestId: 'u-2' })
    await tenant.finish(two, { state: 'failed', error: { code: 'internal_error' }, calls: [modelCall(1)] })
    await tenant.admit({ consumerId: 'bob', usageRequestId: 'u-3' })
  })

  const all = () => ({ ownerId: tenant.ownerId, integrationIds: null, limit: 100, after: null })
  const ask = (request: Partial<SummaryRequest> & Pick<SummaryRequest, 'groupBy'>) =>
    platform.db.run(summarizeUsage, {
      ownerId: tenant.ownerId,
      integrationIds: null,
      from: new Date(Date.now() - 3_600_000).toISOString(),
      to: new Date(Date.now() + 3_600_000).toISOString(),
      timeZone: 'UTC',
      ...request,
    })

  test('a record says what a run spent, what was charged and what was given back', async () => {
    const { items } = await platform.db.run(listUsageRecords, all())
    expect(items).toMatchObject([
      { usageRequestId: 'u-3', status: 'running', usage: { request_count: 0 }, debited: { messages: 1 }, models: [] },
      {
        usageRequestId: 'u-2',
        status: 'failed',
        debited: { messages: 1, tokens: 62, costUsd: 0.0001 },
        refunded: true,
      },
      {
        usageRequestId: 'u-1',
        status: 'completed',
        usage: { request_count: 2, total_tokens: 124, total_cost: 0.0001 },
        debited: { messages: 1, tokens: 124, costUsd: 0.0001 },
        refunded: false,
        models: [
          { model: 'gpt', priced: true, usage: { request_count: 1 } },
          { model: 'local', priced: false, usage: { total_cost: 0 } },
        ],
      },
    ])
  })

  test.each([
    [{ consumerId: 'bob' }, ['u-3', 'u-2']],
    [{ usageRequestId: 'u-1' }, ['u-1']],
    [{ from: '2999-01-01T00:00:00Z' }, []],
    [{ to: '2020-01-01T00:00:00Z' }, []],
    [{ integrationIds: ['int_other'] }, []],
  ])('the filter %j keeps %j', async (filter, ids) => {
    const { items } = await platform.db.run(listUsageRecords, { ...all(), ...filter })
    expect(items.map((record) => record.usageRequestId)).toEqual(ids)
  })

  test('an export goes page by page, oldest first', async () => {
    const one = await platform.db.run(exportUsageRecords, { ...all(), limit: 2 })
    const two = await platform.db.run(exportUsageRecords, { ...all(), limit: 2, after: one.next })
    expect([...one.items, ...two.items].map((record) => record.usageRequestId)).toEqual(['u-1', 'u-2', 'u-3'])
    expect(two.next).toBeNull()
  })

  test('sums up by consumer, integration, model and day', async () => {
    expect(await ask({ groupBy: 'consumer' })).toMatchObject([
      { key: 'ada', runs: 1, failedRuns: 0, usage: { request_count: 2, total_tokens: 124 } },
      { key: 'bob', runs: 2, failedRuns: 1, usage: { request_count: 1, total_tokens: 62 } },
    ])
    expect(await ask({ groupBy: 'model' })).toMatchObject([
      { key: 'gpt', runs: 2, usage: { total_cost: 0.0002 } },
      { key: 'local', runs: 1 },
    ])
    expect(await ask({ groupBy: 'integration' })).toMatchObject([{ key: tenant.integrationId, runs: 3 }])
    const days = await ask({ groupBy: 'day', timeZone: 'Pacific/Kiritimati' })
    expect(days.reduce((sum, day) => sum + day.runs, 0)).toBe(3)
    const there = new Intl.DateTimeFormat('en-CA', { timeZone: 'Pacific/Kiritimati' })
    expect(days.map((day) => day.key)).toContain(there.format(new Date()))
  })

  test('with a limit, the keys that cost most come first, and no others', async () => {
    expect(await ask({ groupBy: 'consumer', limit: 1 })).toMatchObject([{ key: 'bob', runs: 2 }])
    expect(await ask({ groupBy: 'model', limit: 10 })).toMatchObject([{ key: 'gpt' }, { key: 'local' }])
  })

  test('sums are exact: of counts beyond 32 bits, and of costs that have no exact binary form', async () => {
    const other = await platform.addTenant()
    for (const total_cost of [0.1, 0.2]) {
      const calls = [modelCall(1, { total_cost, input_tokens: 2_000_000_001 }), modelCall(2, { total_cost })]
      await other.finish(await other.admit({}), { calls })
    }
    const exact = { runs: 2, usage: { input_tokens: 4_000_000_102, total_cost: 0.6 } }
    for (const groupBy of ['day', 'integration', 'consumer', 'model'] as const) {
      // Before and after they are added to the kept sums.
      expect([groupBy, ...(await ask({ groupBy, ownerId: other.ownerId }))]).toMatchObject([groupBy, exact])
      await platform.db.run(foldUsage, undefined)
      expect([groupBy, ...(await ask({ groupBy, ownerId: other.ownerId }))]).toMatchObject([groupBy, exact])
    }
  })

  test('adding up ends, also where runs end all the time', async () => {
    const busy = await platform.addTenant()
    let asked = 0
    const db: Database = {
      ...platform.db,
      run: async (operation, ...args) => {
        if (++asked > 3) throw new Error('it goes on and on')
        await busy.finish(await busy.admit())
        return platform.db.run(operation, ...args)
      },
    }

    await foldAllUsage(db)

    expect(await platform.rows(`SELECT 1 FROM usage_deltas WHERE owner_id = '${busy.ownerId}'`)).toEqual([])
  })

  test('a stretch that begins and ends within a half hour has every number of the runs in it', async () => {
    const other = await platform.addTenant()
    const admission = await other.admit({})
    const used = {
      cached_tokens: 7,
      cache_write_tokens: 5,
      reasoning_tokens: 3,
      total_cost: 0.0000001,
      estimated: true,
    }
    await other.finish(admission, { calls: [modelCall(1, used), modelCall(2, { cached_tokens: 1 })] })
    const [{ at } = { at: '' }] = await platform.rows(
      `SELECT created_at::text AS at FROM runs WHERE id = '${admission.run.runId}'`,
    )
    const from = new Date(String(at)).toISOString()
    const to = new Date(Date.parse(from) + 1).toISOString()
    for (const groupBy of ['day', 'integration', 'consumer', 'model'] as const) {
      const [whole, cut] = [
        await ask({ groupBy, ownerId: other.ownerId }),
        await ask({ groupBy, ownerId: other.ownerId, from, to }),
      ]
      expect([groupBy, ...cut]).toEqual([groupBy, ...whole])
      expect(cut).toMatchObject([
        { runs: 1, usage: { ...used, request_count: 2, cached_tokens: 8, total_cost: 0.0001001 } },
      ])
    }
  })

  test('days of consumers are those of the moments asked for, however their time zone is written', async () => {
    const other = await platform.addTenant()
    await other.finish(await other.admit({ consumerId: 'ada' }), { calls: [modelCall(1)] })
    await foldAllUsage(platform.db)
    const midnight = Math.ceil(Date.now() / 86_400_000) * 86_400_000
    const farWest = `${new Date(midnight - 43_200_000).toISOString().slice(0, -1)}-12:00` // the same moment, the day before
    const before = { from: new Date(midnight - 172_800_000).toISOString(), to: farWest }
    const after = { from: farWest, to: new Date(midnight + 86_400_000).toISOString() }

    expect(await ask({ groupBy: 'consumer', ownerId: other.ownerId, ...before })).toMatchObject([
      { key: 'ada', runs: 1 },
    ])
    expect(await ask({ groupBy: 'consumer', ownerId: other.ownerId, ...after })).toEqual([])
  })

  test('without an end, everything until now', async () => {
    const from = new Date(Date.now() - 3_600_000).toISOString()
    for (const groupBy of ['day', 'integration', 'consumer'] as const) {
      const summary = await ask({ groupBy, from, to: undefined })
      expect([groupBy, summary.reduce((sum, { runs }) => sum + runs, 0)]).toEqual([groupBy, 3])
    }
  })

  test('sums up on a connection whose statements are planned anew', async () => {
    for (let times = 0; times < 150; times++) expect(await ask({ groupBy: 'integration' })).toHaveLength(1)
  })

  test.each([
    { from: '2026-01-02T00:00:00Z', to: '2026-01-01T00:00:00Z' },
    { from: '2024-01-01T00:00:00Z', to: '2026-01-01T00:00:00Z' },
    { from: 'yesterday', to: 'today' },
    { timeZone: 'Nowhere/Land' },
  ])('refuses the range %j', async (range) => {
    await expect(ask({ groupBy: 'day', ...range })).rejects.toMatchObject({ code: 'invalid_time_range' })
  })

  test("another owner's usage is not there", async () => {
    const stranger = await platform.addTenant()
    expect((await platform.db.run(listUsageRecords, { ...all(), ownerId: stranger.ownerId })).items).toEqual([])
  })
})

describe('usage as CSV', () => {
  const record: UsageRecord = {
    object: 'usage_record',
    runId: 'run_1',
    chatId: 'chat_1',
    apiIntegrationId: 'int_1',
    consumerId: '=cmd()',
    usageRequestId: 'a "quoted", one',
    agent: '+agent',
    status: 'completed',
    createdAt: '2026-11-20T22:10:11.120Z',
    finishedAt: null,
    usage: {
      request_count: 1,
      cached_tokens: 0,
      cache_write_tokens: 0,
      input_tokens: 50,
      output_tokens: 12,
      total_tokens: 62,
      total_cost: 0.0001,
    },
    debited: { messages: 1, tokens: 62, costUsd: 0.0001 },
    refunded: false,
    periodStart: null,
    models: [],
  }

  test('no cell is a formula, and every line has as many cells as the header', () => {
    const line = usageCsvLine(record)
    expect(line).toBe(
      `run_1,chat_1,int_1,'=cmd(),"a ""quoted"", one",'+agent,completed,2026-11-20T22:10:11.120Z,,1,50,0,12,62,0.0001,1,62,0.0001,false,,false\r\n`,
    )
    expect(USAGE_CSV_HEADER.split(',')).toHaveLength(line.replace('", one', '').split(',').length)
  })

  test.each(['=', '+', '-', '@', '\t', '\r'])('a cell that begins with %j gets an apostrophe', (first) => {
    expect(usageCsvLine({ ...record, agent: `${first}x` })).toContain(`'${first}x`)
  })
})
