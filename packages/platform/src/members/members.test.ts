import { AllowancePolicy, type Member } from '@bureau/protocol'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ENGINES } from '../db/engines.contract.ts'
import { checkInvariants } from '../db/invariants.contract.ts'
import type { Page } from '../db/page.ts'
import { updateIntegration } from '../integrations/manage-integrations.ts'
import { modelCall } from '../test-store.contract.ts'
import { codeOf, useTenant, useTestStore } from '../use-test-store.contract.ts'
import { type Adjustment, adjustAllowance, listLedger } from './adjust-allowance.ts'
import { deleteMember, getAllowance, getMember, listMembers, setAllowance, updateMember } from './manage-members.ts'
import { repairDrift } from './repair-drift.ts'
import { type NewMember, registerMember, registerMembers } from './register-members.ts'

describe.each(ENGINES)('members on %s', (engine) => {
  const platform = useTestStore(engine)
  const tenant = useTenant(platform, { memberAllowancesEnabled: true })
  afterAll(async () => {
    expect(await platform.db.run(checkInvariants, { settled: true })).toEqual([])
  })

  const key = (consumerId: string, of = tenant) => ({
    ownerId: of.ownerId,
    integrationId: of.integrationId,
    consumerId,
  })
  const register = (member: NewMember, of = tenant) =>
    platform.db.run(registerMember, { ownerId: of.ownerId, integrationId: of.integrationId, actor: 'key_1', member })
  let requests = 0
  const admit = (consumerId: string, of = tenant) => of.admit({ consumerId, usageRequestId: `q-${requests++}` })
  const spend = async (consumerId: string, tokens: number, of = tenant): Promise<void> => {
    const admission = await admit(consumerId, of)
    const usage = { input_tokens: tokens, output_tokens: 0, total_cost: tokens / 1000 }
    await of.finish(admission, { calls: [modelCall(1, usage)] })
  }

  describe('registering', () => {
    test('twice with equal values is one member; with other values it is refused', async () => {
      const member = { consumerId: 'ada', displayName: 'Ada', metadata: { plan: 'pro' } }
      expect(await register(member)).toMatchObject({
        created: true,
        member: { consumerId: 'ada', activeRuns: 0, version: 1 },
      })
      expect(await register(member)).toMatchObject({ created: false })
      expect(await codeOf(register({ ...member, displayName: 'Bob' }))).toBe('member_exists')
      expect(await codeOf(register({ ...member, allowance: AllowancePolicy.parse({ messages: 1 }) }))).toBe(
        'member_exists',
      )
    })

    test('at the same moment makes one member', async () => {
      const all = await Promise.all(Array.from({ length: 20 }, () => register({ consumerId: 'twin' })))
      expect(all.filter((one) => one.created)).toHaveLength(1)
      expect(new Set(all.map((one) => one.member.id)).size).toBe(1)
    })

    test.each(['', 'a b', 'ü', 'a/b', 'x'.repeat(257)])('refuses the consumer id %j', async (consumerId) => {
      expect(await codeOf(register({ consumerId }))).toBe('invalid_consumer_id')
    })

    test('many at once: each succeeds or fails for itself', async () => {
      await register({ consumerId: 'known', displayName: 'K' })
      const zone = { ...AllowancePolicy.parse({}), timeZone: 'Nowhere/Land' }
      const members = [
        { consumerId: 'new-1' },
        { consumerId: 'known', displayName: 'K' },
        { consumerId: 'known', displayName: 'other' },
        { consumerId: 'not valid' },
        { consumerId: 'lost', allowance: zone },
        { consumerId: 'new-2' },
      ]
      const { ownerId, integrationId } = tenant
      expect(await platform.db.run(registerMembers, { ownerId, integrationId, actor: 'key_1', members })).toEqual([
        { consumerId: 'new-1', status: 'created' },
        { consumerId: 'known', status: 'exists' },
        { consumerId: 'known', status: 'error', code: 'member_exists' },
        { consumerId: 'not valid', status: 'error', code: 'invalid_consumer_id' },
        { consumerId: 'lost', status: 'error', code: 'invalid_allowance' },
        { consumerId: 'new-2', status: 'created' },
      ])
    })

    test('two lists with the same consumers at once, in whatever order, both succeed', async () => {
      const { ownerId, integrationId } = tenant
      const members = Array.from({ length: 300 }, (_, number) => ({ consumerId: `both-${number}` }))
      const [one, two] = await Promise.all(
        [members, members.toReversed()].map((list) =>
          platform.db.run(registerMembers, { ownerId, integrationId, actor: 'key_1', members: list }),
        ),
      )
      expect(one!.map(({ consumerId }) => consumerId)).toEqual(members.map(({ consumerId }) => consumerId))
      const created = [...one!, ...two!].filter(({ status }) => status === 'created')
      expect(new Set(created.map(({ consumerId }) => consumerId)).size).toBe(300)
      expect(created).toHaveLength(300)
    })
  })

  test('an inactive member is refused, its runs finish; an active one is admitted again', async () => {
    await register({ consumerId: 'pause' })
    const running = await admit('pause')
    const change = (status: 'active' | 'inactive', ifVersion?: number) =>
      platform.db.run(updateMember, {
        ...key('pause'),
        actor: 'key_1',
        ...(ifVersion !== undefined && { ifVersion }),
        changes: { status },
      })
    expect(await change('inactive')).toMatchObject({ status: 'inactive', activeRuns: 1, version: 2 })
    expect(await codeOf(admit('pause'))).toBe('consumer_inactive')
    expect(await codeOf(change('active', 1))).toBe('version_conflict')
    expect(await tenant.finish(running)).toBe('settled')
    await change('active', 2)
    expect(await codeOf(admit('pause'))).toBe('fine')
  })

  // A PATCH that has returned is in force for every later admission, however many are on their way.
  test('no admission succeeds after a deactivation has returned', async () => {
    await register({ consumerId: 'race', allowance: AllowancePolicy.parse({ maxConcurrentRuns: 1000 }) })
    let off = false
    const late: unknown[] = []
    const admissions = Array.from({ length: 60 }, async () => {
      const begunAfter = off
      const code = await codeOf(admit('race'))
      if (begunAfter) late.push(code)
    })
    await platform.db.run(updateMember, { ...key('race'), actor: 'key_1', changes: { status: 'inactive' } })
    off = true
    const after = await Promise.all(Array.from({ length: 10 }, () => codeOf(admit('race'))))
    await Promise.all(admissions)
    expect(new Set([...after, ...late])).toEqual(new Set(['consumer_inactive']))
  })

  test('a deleted member is not found; its run finishes; registered again it starts anew', async () => {
    await register({ consumerId: 'leaver', allowance: AllowancePolicy.parse({ messages: 1 }) })
    const running = await admit('leaver')
    await platform.db.run(deleteMember, { ...key('leaver'), actor: 'key_1' })
    expect(await codeOf(admit('leaver'))).toBe('member_not_found')
    expect(await codeOf(platform.db.run(getMember, key('leaver')))).toBe('member_not_found')
    expect(await tenant.finish(running, { calls: [modelCall(1)] })).toBe('settled')
    await register({ consumerId: 'leaver', allowance: AllowancePolicy.parse({ messages: 1 }) })
    expect(await codeOf(admit('leaver'))).toBe('fine')
  })

  describe('listing', () => {
    test('pages through all, newest first, and filters', async () => {
      const owner = await platform.addTenant({ memberAllowancesEnabled: true })
      for (let n = 0; n < 7; n++) await owner.addMember(`m-${n}`, { messages: n === 3 ? 1 : 5 })
      await admit('m-3', owner)
      const { ownerId, integrationId } = owner
      const seen: string[] = []
      for (let after: readonly [string, string] | null = null; ;) {
        const page: Page<Member> = await platform.db.run(listMembers, { ownerId, integrationId, limit: 3, after })
        seen.push(...page.items.map((member) => member.consumerId))
        if (!page.next) break
        after = page.next
      }
      expect(seen).toEqual(['m-6', 'm-5', 'm-4', 'm-3', 'm-2', 'm-1', 'm-0'])
      const all = { ownerId, integrationId, limit: 100, after: null }
      const exhausted = await platform.db.run(listMembers, { ...all, exhausted: true })
      expect(exhausted.items.map((member) => member.consumerId)).toEqual(['m-3'])
      expect((await platform.db.run(listMembers, { ...all, exhausted: false })).items).toHaveLength(6)
      expect((await platform.db.run(listMembers, { ...all, status: 'inactive' })).items).toEqual([])
    })
  })

  describe('allowance', () => {
    test.each([
      { messages: -1 },
      { messages: 1.5 },
      { messages: 2 ** 53 },
      { costUsd: 0.0000001 },
      { costUsd: Infinity },
      { tokens: '5' },
      { period: 'year' },
      { timeZone: 'Mars/Olympus' },
      { timeZone: '+02:00' },
      { timeZone: 'UTC+3' },
      { anchorDay: 29 },
      { maxConcurrentRuns: 0 },
      { mesages: 5 },
    ])('refuses the policy %j', (policy) => {
      expect(AllowancePolicy.safeParse(policy).success).toBe(false)
    })

    test('shows what was used, granted and remains, and finishes above the limit', async () => {
      await register({
        consumerId: 'view',
        allowance: AllowancePolicy.parse({ messages: 10, tokens: 100, costUsd: 1 }),
      })
      await spend('view', 150)
      expect(await platform.db.run(getAllowance, key('view'))).toMatchObject({
        source: 'member',
        exhausted: true,
        used: { messages: 1, tokens: 150, costUsd: 0.15 },
        remaining: { messages: 9, tokens: 0, costUsd: 0.85 },
      })
      expect(await codeOf(admit('view'))).toBe('consumer_allowance_exhausted')
    })

    test('announces the part of 80 % and the end of an allowance once each', async () => {
      const owner = await platform.addTenant({ memberAllowancesEnabled: true })
      await owner.addMember('loud', { messages: 10 })
      for (let n = 0; n < 10; n++) await owner.finish(await admit('loud', owner))
      const topics = await platform.rows(
        `SELECT topic FROM outbox WHERE owner_id = '${owner.ownerId}' AND topic LIKE 'member.%' ORDER BY id`,
      )
      expect(topics).toEqual([{ topic: 'member.allowance_threshold' }, { topic: 'member.allowance_exhausted' }])
    })

    test('announces the end of an allowance once, whatever a run still spends above it', async () => {
      const owner = await platform.addTenant({ memberAllowancesEnabled: true })
      await owner.addMember('over', { tokens: 100 })
      const calls = [1, 2, 3].map((call) => modelCall(call, { input_tokens: 100, output_tokens: 0 }))
      await owner.finish(await admit('over', owner), { calls })
      const topics = await platform.rows(
        `SELECT topic FROM outbox WHERE owner_id = '${owner.ownerId}' AND topic LIKE 'member.%'`,
      )
      expect(topics).toEqual([{ topic: 'member.allowance_exhausted' }])
    })

    test('an own policy wins over the default; null brings the default back', async () => {
      const owner = await platform.addTenant({
        memberAllowancesEnabled: true,
        defaultAllowance: AllowancePolicy.parse({ messages: 3 }),
      })
      await owner.addMember('u')
      const set = (policy: Record<string, unknown> | null) =>
        platform.db.run(setAllowance, {
          ...key('u', owner),
          actor: 'key_1',
          policy: policy && AllowancePolicy.parse(policy),
        })
      expect(await set({ messages: 9 })).toMatchObject({ source: 'member', messages: 9 })
      expect(await set(null)).toMatchObject({ source: 'integration_default', messages: 3 })
    })

    test('a new default reaches the members that have no policy of their own', async () => {
      const owner = await platform.addTenant({ memberAllowancesEnabled: true })
      await owner.addMember('follows')
      await owner.addMember('owns', { messages: 7 })
      await spend('follows', 10, owner)
      const { ownerId, integrationId } = owner
      const defaultAllowance = AllowancePolicy.parse({ messages: 2, period: 'day', timeZone: 'Asia/Kathmandu' })
      await platform.db.run(updateIntegration, { ownerId, integrationId, actor: 'key', changes: { defaultAllowance } })
      expect(await platform.db.run(getAllowance, key('follows', owner))).toMatchObject({
        messages: 2,
        period: 'day',
        used: { messages: 1, tokens: 10 },
      })
      expect(await platform.db.run(getAllowance, key('owns', owner))).toMatchObject({ messages: 7, period: 'month' })
    })

    test('a new limit for the same period leaves what was counted alone', async () => {
      const owner = await platform.addTenant({ memberAllowancesEnabled: true })
      for (const consumerId of ['spends', 'waits']) await owner.addMember(consumerId)
      await spend('spends', 10, owner)
      const { ownerId, integrationId } = owner
      const counted = () => platform.rows(`SELECT xmin::text, * FROM allowance_periods WHERE owner_id = '${ownerId}'`)
      const before = await counted()
      const defaultAllowance = AllowancePolicy.parse({ messages: 2 })
      await platform.db.run(updateIntegration, { ownerId, integrationId, actor: 'key', changes: { defaultAllowance } })
      expect(await platform.db.run(getAllowance, key('spends', owner))).toMatchObject({
        used: { messages: 1, tokens: 10 },
        remaining: { messages: 1 },
      })
      expect(await counted()).toEqual(before)
    })

    test('toggling the period wipes no usage, and active runs count where it is looked at', async () => {
      await register({ consumerId: 'toggle' })
      await spend('toggle', 100)
      const active = await admit('toggle')
      const set = (period: string) =>
        platform.db.run(setAllowance, { ...key('toggle'), actor: 'key_1', policy: AllowancePolicy.parse({ period }) })
      for (const period of ['day', 'lifetime', 'week', 'day', 'month', 'lifetime']) {
        expect(await set(period)).toMatchObject({ period, used: { messages: 2, tokens: 100 } })
      }
      await tenant.finish(active, { calls: [modelCall(1, { input_tokens: 11, output_tokens: 0 })] })
      expect(await platform.db.run(getAllowance, key('toggle'))).toMatchObject({ used: { messages: 2, tokens: 111 } })
      expect(await set('month')).toMatchObject({ used: { messages: 2, tokens: 111 } })
      expect(await platform.db.run(checkInvariants, { settled: true })).toEqual([])
    })

    test('a refund after a change of the period takes back exactly what was charged', async () => {
      await register({ consumerId: 'moved' })
      const active = await admit('moved')
      await platform.db.run(setAllowance, {
        ...key('moved'),
        actor: 'key_1',
        policy: AllowancePolicy.parse({ period: 'lifetime' }),
      })
      await tenant.finish(active, { state: 'failed', error: { code: 'internal_error' }, calls: [modelCall(1)] })
      expect(await platform.db.run(getAllowance, key('moved'))).toMatchObject({
        used: { messages: 0, tokens: 0, costUsd: 0 },
      })
    })
  })

  describe('adjustments', () => {
    const adjust = (consumerId: string, idempotencyKey: string, adjustment: Adjustment) =>
      platform.db.run(adjustAllowance, {
        ...key(consumerId),
        actor: 'key_1',
        idempotencyKey,
        fingerprint: new Uint8Array(Buffer.from(JSON.stringify(adjustment))),
        adjustment,
      })

    test('a grant raises what may be spent in its period, a correction changes what counts as spent', async () => {
      await register({ consumerId: 'gift', allowance: AllowancePolicy.parse({ messages: 1 }) })
      await spend('gift', 1)
      expect(await adjust('gift', 'g-1', { kind: 'grant', messages: 2, note: 'sorry' })).toMatchObject({
        replayed: false,
        entry: { kind: 'grant', messages: 2, note: 'sorry', actor: 'key_1' },
      })
      await adjust('gift', 'c-1', { kind: 'correction', messages: 1, costUsd: -0.001, note: 'counted wrongly' })
      expect(await platform.db.run(getAllowance, key('gift'))).toMatchObject({
        used: { messages: 2, costUsd: 0 },
        granted: { messages: 2 },
        remaining: { messages: 1 },
      })
      const policy = AllowancePolicy.parse({ messages: 5, period: 'lifetime' })
      expect(await platform.db.run(setAllowance, { ...key('gift'), actor: 'key_1', policy })).toMatchObject({
        used: { messages: 2, costUsd: 0 },
        granted: { messages: 0 },
        remaining: { messages: 3 },
      })
    })

    test('one key books once; another request with it is refused', async () => {
      await register({ consumerId: 'once' })
      const grant = { kind: 'grant', messages: 5, note: 'n' } as const
      const all = await Promise.all(Array.from({ length: 10 }, () => adjust('once', 'k', grant)))
      expect(all.filter((one) => !one.replayed)).toHaveLength(1)
      expect(await codeOf(adjust('once', 'k', { ...grant, messages: 6 }))).toBe('idempotency_key_reused')
      expect(await platform.db.run(getAllowance, key('once'))).toMatchObject({ granted: { messages: 5 } })
    })

    test('a backfill goes to the period that contained its instant', async () => {
      await register({
        consumerId: 'past',
        allowance: AllowancePolicy.parse({ period: 'month', timeZone: 'Europe/Berlin' }),
      })
      const occurredAt = '2025-03-31T23:30:00.000Z' // April in Berlin
      const { entry } = await adjust('past', 'b', { kind: 'backfill', tokens: 7, note: 'import', occurredAt })
      expect(entry.periodStart).toBe('2025-03-31T22:00:00.000Z')
      expect(await platform.db.run(getAllowance, key('past'))).toMatchObject({ used: { tokens: 0 } })
      const page = { limit: 10, after: null, periodStart: entry.periodStart }
      expect((await platform.db.run(listLedger, { ...key('past'), ...page })).items).toEqual([entry])
    })

    test('what was spent in an earlier period keeps nobody from spending in this one', async () => {
      await register({ consumerId: 'anew', allowance: AllowancePolicy.parse({ messages: 2 }) })
      const occurredAt = '2025-03-31T12:00:00.000Z'
      await adjust('anew', 'b', { kind: 'backfill', messages: 2, note: 'import', occurredAt })
      await spend('anew', 5)
      expect(await platform.db.run(getAllowance, key('anew'))).toMatchObject({ used: { messages: 1, tokens: 5 } })
    })

    test.each<[string, Adjustment]>([
      ['a negative grant', { kind: 'grant', messages: -1, note: 'n' }],
      [
        'a correction with an instant',
        { kind: 'correction', messages: 1, note: 'n', occurredAt: '2025-01-01T00:00:00Z' },
      ],
      ['an instant in the future', { kind: 'backfill', messages: 1, note: 'n', occurredAt: '2999-01-01T00:00:00Z' }],
    ])('refuses %s', async (_, adjustment) => {
      await register({ consumerId: 'strict' })
      expect(await codeOf(adjust('strict', 'x', adjustment))).toBe('invalid_adjustment')
    })

    test('the ledger is append-only', async () => {
      const change = platform.rows(`UPDATE allowance_ledger SET messages = 0 WHERE owner_id = '${tenant.ownerId}'`)
      await expect(change).rejects.toMatchObject({ message: 'append only' })
    })
  })

  test('counters that were tampered with are found and set to what ledger and runs say', async () => {
    const owner = await platform.addTenant({ memberAllowancesEnabled: true })
    await owner.addMember('drift')
    await spend('drift', 5, owner)
    expect(await platform.db.run(repairDrift, { after: null })).toEqual({ repaired: [], next: null })
    await platform.rows(`UPDATE allowance_periods SET used_tokens = 99 WHERE owner_id = '${owner.ownerId}'`)
    await platform.rows(`UPDATE members SET active_runs = 4 WHERE owner_id = '${owner.ownerId}'`)
    const violations = await platform.db.run(checkInvariants, { settled: true })
    expect(violations.map((one) => one.invariant)).toEqual(['I4', 'I5'])
    const { repaired } = await platform.db.run(repairDrift, { after: null })
    expect(repaired.map((one) => one.what)).toEqual(['allowance', 'active_runs'])
    expect(await platform.db.run(getMember, key('drift', owner))).toMatchObject({
      activeRuns: 0,
      allowance: { used: { tokens: 5 } },
    })
  })

  // Vectors: 23- and 25-hour days, a skipped day, a quarter-hour zone, anchors at the end of February.
  test.each([
    ['day', 'UTC', 1, '2026-11-20T22:10:00Z', '2026-11-20T00:00:00Z', '2026-11-21T00:00:00Z'],
    ['day', 'Europe/Berlin', 1, '2026-03-29T12:00:00Z', '2026-03-28T23:00:00Z', '2026-03-29T22:00:00Z'],
    ['day', 'Europe/Berlin', 1, '2026-10-25T12:00:00Z', '2026-10-24T22:00:00Z', '2026-10-25T23:00:00Z'],
    ['day', 'America/New_York', 1, '2026-03-08T12:00:00Z', '2026-03-08T05:00:00Z', '2026-03-09T04:00:00Z'],
    ['day', 'Asia/Kathmandu', 1, '2026-11-20T18:20:00Z', '2026-11-20T18:15:00Z', '2026-11-21T18:15:00Z'],
    ['day', 'Pacific/Apia', 1, '2011-12-31T11:00:00Z', '2011-12-31T10:00:00Z', '2012-01-01T10:00:00Z'],
    ['week', 'Europe/Berlin', 1, '2026-10-25T12:00:00Z', '2026-10-18T22:00:00Z', '2026-10-25T23:00:00Z'],
    ['month', 'Europe/Berlin', 1, '2026-11-20T22:10:00Z', '2026-10-31T23:00:00Z', '2026-11-30T23:00:00Z'],
    ['month', 'UTC', 28, '2026-02-27T23:59:59Z', '2026-01-28T00:00:00Z', '2026-02-28T00:00:00Z'],
    ['month', 'UTC', 28, '2026-02-28T00:00:00Z', '2026-02-28T00:00:00Z', '2026-03-28T00:00:00Z'],
    ['month', 'UTC', 15, '2026-01-14T23:59:59.999Z', '2025-12-15T00:00:00Z', '2026-01-15T00:00:00Z'],
    ['lifetime', 'UTC', 1, '2026-01-14T00:00:00Z', '1970-01-01T00:00:00Z', '9999-01-01T00:00:00Z'],
  ])('a %s in %s (anchor %i) around %s', async (...[period, zone, anchor, at, start, end]) => {
    const instant = (name: string) => `to_char(${name} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`
    const [bounds] = await platform.rows(`SELECT ${instant('ps')} AS start, ${instant('pe')} AS end
      FROM allowance_bounds('${period}', '${zone}', ${anchor}, '${at}')`)
    expect(bounds).toEqual({ start, end })
  })
})

describe.runIf(ENGINES.includes('postgres'))(
  'a new default allowance and a change of members at the same moment',
  () => {
    const platform = useTestStore('postgres')
    let other: Client
    let pid: number
    beforeAll(async () => {
      other = new Client({ connectionString: platform.url })
      await other.connect()
      pid = (await other.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows[0]!.pid
    })
    afterAll(async () => {
      await other.end()
    })

    /** How many sessions wait for what `other` holds, or for somebody who does. */
    const waiting = async (): Promise<unknown> => {
      const [row] =
        await platform.rows(`WITH RECURSIVE w AS (SELECT ${pid} AS pid UNION SELECT a.pid FROM pg_stat_activity a
      JOIN w ON w.pid = ANY (pg_blocking_pids(a.pid))) SELECT count(*)::int - 1 AS n FROM w`)
      return row!['n']
    }

    type Key = { readonly ownerId: string; readonly integrationId: string }

    test.each([
      {
        what: 'members that are being registered',
        block: ({ ownerId, integrationId }: Key) => `INSERT INTO members (id, owner_id, integration_id, consumer_id)
        VALUES ('mem_blocks', '${ownerId}', '${integrationId}', 'blocks')`,
        change: async (key: Key) => {
          const members = ['first', 'blocks', 'last'].map((consumerId) => ({ consumerId }))
          await platform.db.run(registerMembers, { ...key, actor: 'key_1', members })
        },
      },
      {
        what: 'a member that is given the default again',
        block: ({ ownerId }: Key) => `SELECT 1 FROM members WHERE owner_id = '${ownerId}' FOR UPDATE`,
        change: async (key: Key) => {
          await platform.db.run(setAllowance, { ...key, consumerId: 'owns', actor: 'key', policy: null })
        },
      },
    ])('reaches $what', async ({ block, change }) => {
      const { ownerId, integrationId, ...tenant } = await platform.addTenant({ memberAllowancesEnabled: true })
      await tenant.addMember('owns', { messages: 9 })
      await tenant.finish(await tenant.admit({ consumerId: 'owns', usageRequestId: 'q' }))
      await other.query(`BEGIN; SET LOCAL app.access = 'system'; ${block({ ownerId, integrationId })}`)

      const changing = change({ ownerId, integrationId })
      await expect.poll(waiting).toBe(1)
      const changes = { defaultAllowance: AllowancePolicy.parse({ messages: 2 }) }
      let isUpdated = false
      const updating = platform.db
        .run(updateIntegration, { ownerId, integrationId, actor: 'key', changes })
        .finally(() => (isUpdated = true))
      await expect.poll(async () => isUpdated || (await waiting()) === 2).toBe(true)
      await other.query('ROLLBACK')
      await Promise.all([changing, updating])

      const rows = await platform.rows(`SELECT DISTINCT policy_source AS source, limit_messages::int AS messages
      FROM members WHERE integration_id = '${integrationId}' AND policy_source = 'integration_default'`)
      expect(rows).toEqual([{ source: 'integration_default', messages: 2 }])
    })
  },
)
