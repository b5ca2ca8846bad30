import { afterAll, describe, expect, test } from 'vitest'
import { ENGINES } from '../db/engines.contract.ts'
import { checkInvariants } from '../db/invariants.contract.ts'
import { answer, modelCall, type TestTenant } from '../test-store.contract.ts'
import { useTestStore } from '../use-test-store.contract.ts'
import type { Admission } from './admit/admit-run.ts'
import { releaseRun } from './execute/hand-over-run.ts'
import { declareDead, listPulses } from './recover/replicas.repo.ts'
import { EVENTS_OF_ATTEMPT } from './recover/take-up-policy.ts'
import { listOwnRuns } from './recover/list-own-runs.ts'
import { type TakeUp, takeUpRun } from './recover/take-up-run.ts'
import { appendEventChunk } from '../run-records/event-chunks.ts'
import { recordStep } from '../run-records/record-step.ts'
import { requestCancel } from '../run-records/request-cancel.ts'
import type { ModelCall, RunItemRecord } from '../run-records/run-output.repo.ts'

describe.each(ENGINES)('run lifecycle on %s', (engine) => {
  const platform = useTestStore(engine)
  afterAll(async () => {
    expect(await platform.db.run(checkInvariants, { settled: true })).toEqual([])
  })

  const record = (
    { run }: Admission,
    tenant: TestTenant,
    written: { items?: RunItemRecord[]; calls?: ModelCall[]; bootId?: string },
  ): Promise<string> => {
    const { items = [], calls = [], bootId = platform.bootId } = written
    const step = { items, calls, version: 1, state: '{"at":"step"}' }
    return platform.db.run(recordStep, { ownerId: tenant.ownerId, runId: run.runId, bootId, ...step })
  }
  const takeUp = async ({ run }: Admission, tenant: TestTenant, bootId: string, version = 1): Promise<TakeUp> => {
    const [seen] = await platform.rows(`SELECT attempt FROM runs WHERE id = '${run.runId}'`)
    const attempt = Number(seen?.['attempt'])
    return platform.db.run(takeUpRun, { ownerId: tenant.ownerId, runId: run.runId, bootId, attempt, version })
  }
  const killReplica = async (bootId: string): Promise<void> => {
    const pulse = (await platform.db.run(listPulses, { of: 'all' })).find((one) => one.bootId === bootId)
    expect(await platform.db.run(declareDead, pulse!)).toBe(true)
  }
  const spent = async (tenant: TestTenant): Promise<unknown> => {
    const [row] = await platform.rows(`SELECT used_messages::int AS messages, used_tokens::int AS tokens,
      used_cost_micro::int AS cost FROM allowance_periods WHERE owner_id = '${tenant.ownerId}'`)
    return row
  }
  const withMember = async (allowance: Record<string, unknown> = {}): Promise<TestTenant> => {
    const tenant = await platform.addTenant({ memberAllowancesEnabled: true })
    await tenant.addMember('u', allowance)
    return tenant
  }
  let requests = 0
  const admit = (tenant: TestTenant, bootId = platform.bootId): Promise<Admission> =>
    tenant.admit({ consumerId: 'u', usageRequestId: `r-${requests++}` }, { bootId })

  test('from reservation to the end, with usage, history and announcement', async () => {
    const tenant = await withMember()
    const admission = await admit(tenant)
    expect(await tenant.start(admission)).toBe('started')
    expect(await tenant.start(admission)).toBe('started') // repeated after a lost answer
    const written = { items: [answer('Paris.')], calls: [modelCall(1)] }
    expect(await record(admission, tenant, written)).toBe('ok')
    expect(await tenant.finish(admission, { calls: [modelCall(2, { total_cost: 0.0000011 })], lastEventSeq: 9 })).toBe(
      'settled',
    )
    const { runId, chatId } = admission.run
    const [run] = await platform.rows(`SELECT state, usage, last_event_seq::int AS seq FROM runs WHERE id = '${runId}'`)
    expect(run).toMatchObject({
      state: 'completed',
      seq: 9,
      usage: { request_count: 2, input_tokens: 100, output_tokens: 24, total_tokens: 124, total_cost: 0.0001011 },
    })
    expect(await spent(tenant)).toEqual({ messages: 1, tokens: 124, cost: 102 })
    const history = await platform.rows(
      `SELECT seq::int, role, status FROM messages WHERE chat_id = '${chatId}' ORDER BY seq`,
    )
    expect(history).toEqual([
      { seq: 1, role: 'user', status: 'ok' },
      { seq: 2, role: 'assistant', status: 'ok' },
    ])
    const events = await platform.rows(
      `SELECT topic, payload->>'status' AS status FROM outbox WHERE run_id = '${runId}'`,
    )
    expect(events).toEqual([{ topic: 'run.completed', status: 'completed' }])
  })

  test('a write that is repeated after a lost answer is stored and charged once', async () => {
    const tenant = await withMember()
    const admission = await admit(tenant)
    await tenant.start(admission)
    const written = { items: [answer('one'), answer('two')], calls: [modelCall(1)] }
    for (let attempt = 0; attempt < 3; attempt++) expect(await record(admission, tenant, written)).toBe('ok')
    await tenant.finish(admission, written)
    expect(await tenant.finish(admission, written)).toBe('already_ended')
    expect(await spent(tenant)).toEqual({ messages: 1, tokens: 62, cost: 100 })
    const [count] = await platform.rows(
      `SELECT count(*)::int AS n FROM messages WHERE run_id = '${admission.run.runId}'`,
    )
    expect(count).toEqual({ n: 3 })
  })

  test('a step that is written many times at once is stored and charged once', async () => {
    const tenant = await withMember()
    const admission = await admit(tenant)
    for (let step = 1; step <= 5; step++) {
      const written = { items: [answer('one'), answer('two')], calls: [modelCall(step)] }
      const answers = await Promise.all(Array.from({ length: 4 }, () => record(admission, tenant, written)))
      expect(answers).toEqual(['ok', 'ok', 'ok', 'ok'])
    }
    expect(await spent(tenant)).toEqual({ messages: 1, tokens: 5 * 62, cost: 500 })
    await tenant.finish(admission, { calls: [modelCall(5), modelCall(6)] })
    const [stored] = await platform.rows(
      `SELECT (SELECT array_agg(seq::int ORDER BY seq) FROM messages m WHERE m.run_id = r.id) AS numbers,
        usage->'request_count' AS requests, usage->'total_cost' AS cost FROM runs r WHERE id = '${admission.run.runId}'`,
    )
    expect(stored).toEqual({ numbers: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], requests: 6, cost: 0.0006 })
  })

  test('what PostgreSQL cannot hold becomes U+FFFD', async () => {
    const tenant = await platform.addTenant()
    const admission = await tenant.admit()
    await tenant.start(admission)
    expect(await record(admission, tenant, { items: [answer('a\u0000b\ud800c')] })).toBe('ok')
    const [row] = await platform.rows(
      `SELECT item->'content'->0->>'text' AS text FROM messages WHERE run_id = '${admission.run.runId}' AND seq = 2`,
    )
    expect(row).toEqual({ text: 'a\ufffdb\ufffdc' })
    await tenant.finish(admission)
  })

  test.each([
    { what: 'a failure of ours', code: 'internal_error' as const, calls: [modelCall(1)], left: [0, 0, 0] },
    {
      what: 'a failure of the provider before it gave anything',
      code: 'upstream_timeout' as const,
      calls: [],
      left: [0, 0, 0],
    },
    {
      what: 'a failure of the provider afterwards',
      code: 'upstream_timeout' as const,
      calls: [modelCall(1)],
      left: [1, 62, 100],
    },
    { what: 'a mistake of the caller', code: 'attachment_blocked' as const, calls: [], left: [1, 0, 0] },
    { what: 'a limit', code: 'run_timeout' as const, calls: [modelCall(1)], left: [1, 62, 100] },
  ])('after $what the consumer is charged $left', async ({ code, calls, left }) => {
    const tenant = await withMember()
    const admission = await admit(tenant)
    await tenant.start(admission)
    await record(admission, tenant, { calls })
    await tenant.finish(admission, { state: 'failed', error: { code } })
    const [messages, tokens, cost] = left
    expect(await spent(tenant)).toEqual({ messages, tokens, cost })
  })

  test('a failed response stays in the history: its items, what it was writing, or that there was one', async () => {
    const tenant = await platform.addTenant()
    const statuses = async ({ run }: Admission): Promise<unknown[]> =>
      (await platform.rows(`SELECT status FROM messages WHERE run_id = '${run.runId}' ORDER BY seq`)).map(
        (row) => row['status'],
      )
    const failed = { state: 'failed', error: { code: 'run_timeout' } } as const

    const [silent, writing, half] = [await tenant.admit(), await tenant.admit(), await tenant.admit()]
    await tenant.finish(silent, failed)
    await tenant.finish(writing, { ...failed, partial: answer('I was about to') })
    await tenant.start(half)
    await record(half, tenant, { items: [answer('First.')] })
    await tenant.finish(half, failed)

    expect(await statuses(silent)).toEqual(['ok', 'failed'])
    expect(await statuses(writing)).toEqual(['ok', 'failed'])
    expect(await statuses(half)).toEqual(['ok', 'failed'])
  })

  test('only the process that was given a run can write to it, and only while it runs', async () => {
    const tenant = await platform.addTenant()
    const admission = await tenant.admit()
    const stranger = await platform.addReplica()
    const { runId } = admission.run
    const log = (bootId: string, lastSeq: number): Promise<string> => {
      const chunk = { firstSeq: 1, lastSeq, body: new Uint8Array([lastSeq]) }
      return platform.db.run(appendEventChunk, { ownerId: tenant.ownerId, runId, bootId, chunk })
    }
    expect(await record(admission, tenant, { items: [answer('x')], bootId: stranger })).toBe('fenced')
    expect(await log(stranger, 9)).toBe('fenced')
    expect([await log(platform.bootId, 2), await log(platform.bootId, 2)]).toEqual(['ok', 'ok']) // after a lost answer
    expect(await tenant.finish(admission, {}, stranger)).toBe('fenced')
    expect(await tenant.finish(admission)).toBe('settled')
    expect(await record(admission, tenant, { items: [answer('too late')], calls: [modelCall(1)] })).toBe('fenced')
    expect(await log(platform.bootId, 3)).toBe('fenced')
    const chunks = await platform.rows(`SELECT last_seq::int AS last FROM run_event_chunks WHERE run_id = '${runId}'`)
    const [run] = await platform.rows(`SELECT last_event_seq::int AS last FROM runs WHERE id = '${runId}'`)
    expect({ chunks, run }).toEqual({ chunks: [{ last: 2 }], run: { last: 2 } })
  })

  test('an error belongs to a failed run and to no other', async () => {
    const tenant = await platform.addTenant()
    const admission = await tenant.admit()
    await expect(tenant.finish(admission, { state: 'failed' })).rejects.toThrow('an error belongs to a failed run')
    await tenant.finish(admission)
  })

  describe('cancelling', () => {
    test('before its model is asked: it never is, and its message is given back', async () => {
      const tenant = await withMember()
      const admission = await admit(tenant)
      const { ownerId } = tenant
      const { runId } = admission.run
      const asked = await platform.db.run(requestCancel, { ownerId, runId, mode: 'after_turn' })
      expect(asked).toMatchObject({ run: { status: 'cancelling', cancel: { mode: 'after_turn' } } })
      expect(await tenant.start(admission)).toBe('cancel_requested')
      await tenant.finish(admission, { state: 'cancelled', unasked: true })
      expect(await spent(tenant)).toEqual({ messages: 0, tokens: 0, cost: 0 })
    })

    test('can be sharpened, not softened, and changes nothing once the run has ended', async () => {
      const tenant = await platform.addTenant()
      const admission = await tenant.admit()
      const key = { ownerId: tenant.ownerId, runId: admission.run.runId }
      const ask = async (mode: 'immediate' | 'after_turn') =>
        (await platform.db.run(requestCancel, { ...key, mode })).run
      expect(await ask('after_turn')).toMatchObject({ cancel: { mode: 'after_turn' } })
      expect(await ask('immediate')).toMatchObject({ cancel: { mode: 'immediate' } })
      expect(await ask('after_turn')).toMatchObject({ cancel: { mode: 'immediate' } })
      await tenant.finish(admission)
      expect(await ask('immediate')).toMatchObject({ status: 'completed' })
    })

    test("another owner's run does not exist", async () => {
      const [tenant, stranger] = [await platform.addTenant(), await platform.addTenant()]
      const { run } = await tenant.admit()
      const asked = platform.db.run(requestCancel, { ownerId: stranger.ownerId, runId: run.runId, mode: 'immediate' })
      await expect(asked).rejects.toMatchObject({ code: 'run_not_found' })
    })
  })

  describe('a dead process', () => {
    const start = (tenant: TestTenant, admission: Admission, bootId: string): Promise<string> =>
      tenant.start(admission, bootId)
    const stalled = async ({ run }: Admission): Promise<unknown> =>
      (await platform.rows(`SELECT stalled FROM runs WHERE id = '${run.runId}'`))[0]?.['stalled']

    test('leaves its runs to one other process, which goes on from the last step and is charged for nothing twice', async () => {
      const tenant = await withMember()
      const doomed = await platform.addReplica()
      const admission = await admit(tenant, doomed)
      await start(tenant, admission, doomed)
      await record(admission, tenant, { items: [answer('one')], calls: [modelCall(1)], bootId: doomed })
      expect(await takeUp(admission, tenant, platform.bootId)).toEqual({ outcome: 'left' })
      await killReplica(doomed)

      const others = await Promise.all([1, 2, 3].map(() => platform.addReplica()))
      const attempts = await Promise.all(others.map((bootId) => takeUp(admission, tenant, bootId)))

      const taken = attempts.flatMap((each) => (each.outcome === 'taken' ? [each.run] : []))
      expect(taken).toHaveLength(1)
      expect(taken[0]).toMatchObject({ before: { attempt: 2, stalled: 1, lost: true } })
      const { bootId } = taken[0]!
      expect(await record(admission, tenant, { calls: [modelCall(2)], bootId: doomed })).toBe('fenced')
      expect(await tenant.finish(admission, {}, doomed)).toBe('fenced')
      await expect(
        tenant.admit({ chatId: admission.run.chatId, consumerId: 'u', usageRequestId: 'n' }),
      ).rejects.toMatchObject({ code: 'run_active' })
      const context = await tenant.context(admission, bootId)
      expect(context.recorded).toMatchObject({
        state: '{"at":"step"}',
        calls: 1,
        usage: [{ usage: { input_tokens: 50 } }],
      })
      expect(context.recorded?.items.map(({ item }) => item.content)).toEqual([[{ type: 'output_text', text: 'one' }]])
      expect(await record(admission, tenant, { items: [answer('two')], calls: [modelCall(2)], bootId })).toBe('ok')
      expect(await stalled(admission)).toBe(0)
      expect(await tenant.finish(admission, { calls: [modelCall(3)] }, bootId)).toBe('settled')
      expect(await spent(tenant)).toEqual({ messages: 1, tokens: 186, cost: 300 })
    })

    test('a run that was to be cancelled ends as cancelled', async () => {
      const tenant = await platform.addTenant()
      const doomed = await platform.addReplica()
      const admission = await tenant.admit({}, { bootId: doomed })
      const key = { ownerId: tenant.ownerId, runId: admission.run.runId }
      await platform.db.run(requestCancel, { ...key, mode: 'immediate' })
      await killReplica(doomed)
      const ended = await takeUp(admission, tenant, platform.bootId)
      const lastEventId = String(EVENTS_OF_ATTEMPT + 2) // its end and that of its log
      expect(ended).toMatchObject({ outcome: 'ended', run: { status: 'cancelled', error: null, lastEventId } })
    })

    test('whose integration wants it fails as runner_lost, is refunded and leaves its chat free', async () => {
      const tenant = await platform.addTenant({ memberAllowancesEnabled: true, whenRunnerLost: 'fail' })
      await tenant.addMember('u')
      const doomed = await platform.addReplica()
      const admission = await admit(tenant, doomed)
      await killReplica(doomed)

      expect(await takeUp(admission, tenant, platform.bootId)).toMatchObject({
        outcome: 'ended',
        run: {
          status: 'failed',
          error: { code: 'runner_lost', retryable: true },
          lastEventId: String(EVENTS_OF_ATTEMPT + 3), // its error, its end and that of its log
        },
      })
      expect(await spent(tenant)).toEqual({ messages: 0, tokens: 0, cost: 0 })
      const { chatId } = admission.run
      const next = await tenant.admit({ chatId, consumerId: 'u', usageRequestId: 'next' })
      expect(next.outcome).toBe('admitted')
      await tenant.finish(next)
    })

    test('three that die over a run without a step end it, and nothing is said against its neighbours', async () => {
      const tenant = await platform.addTenant()
      let doomed = await platform.addReplica()
      const [poisoned, neighbour] = [
        await tenant.admit({}, { bootId: doomed }),
        await tenant.admit({}, { bootId: doomed }),
      ]
      await start(tenant, poisoned, doomed)
      await start(tenant, neighbour, doomed)
      for (const death of [1, 2]) {
        await killReplica(doomed)
        expect([await stalled(poisoned), await stalled(neighbour)]).toEqual([death, 1])
        doomed = await platform.addReplica()
        expect((await takeUp(poisoned, tenant, doomed)).outcome).toBe('taken')
        expect((await takeUp(neighbour, tenant, doomed)).outcome).toBe('taken')
        await start(tenant, neighbour, doomed)
        await record(neighbour, tenant, { bootId: doomed })
      }
      await killReplica(doomed)

      expect([await stalled(poisoned), await stalled(neighbour)]).toEqual([3, 0])
      expect(await takeUp(poisoned, tenant, platform.bootId)).toMatchObject({
        outcome: 'ended',
        run: { error: { code: 'runner_lost' } },
      })
      expect(await takeUp(neighbour, tenant, platform.bootId)).toMatchObject({ outcome: 'taken' })
      await tenant.finish(neighbour)
    })

    test('of another version leaves its runs to those that know their states', async () => {
      const tenant = await platform.addTenant()
      const doomed = await platform.addReplica()
      const admission = await tenant.admit({}, { bootId: doomed })
      await start(tenant, admission, doomed)
      await record(admission, tenant, { bootId: doomed })
      await killReplica(doomed)
      expect(await takeUp(admission, tenant, platform.bootId, 2)).toEqual({ outcome: 'left' })
      expect(await takeUp(admission, tenant, platform.bootId, 1)).toMatchObject({ outcome: 'taken' })
      await tenant.finish(admission)
    })

    test("is not what a process is that gives its runs up: they count no death, and are anybody's at once", async () => {
      const tenant = await platform.addTenant()
      const leaving = await platform.addReplica()
      const admission = await tenant.admit({}, { bootId: leaving })
      await start(tenant, admission, leaving)
      const writer = { ownerId: tenant.ownerId, runId: admission.run.runId, bootId: leaving }
      expect(await platform.db.run(releaseRun, { ...writer, calls: [modelCall(1)] })).toBe('ok')

      const taken = await takeUp(admission, tenant, platform.bootId)

      expect(taken).toMatchObject({ outcome: 'taken', run: { before: { attempt: 2, stalled: 0, lost: false } } })
      expect(await platform.db.run(releaseRun, { ...writer, calls: [] })).toBe('fenced')
      await tenant.finish(admission)
    })

    // A process looks after lost runs and after its own at the same time, and both see a run that it has given up itself.
    test('a run that is given up is taken once, also by the process that had it, which sees it twice', async () => {
      const tenant = await platform.addTenant()
      const admission = await tenant.admit()
      await start(tenant, admission, platform.bootId)
      const { runId } = admission.run
      const writer = { ownerId: tenant.ownerId, runId, bootId: platform.bootId }
      await platform.db.run(releaseRun, { ...writer, calls: [] })
      await platform.rows(`UPDATE runs SET created_at = now() - interval '1 minute' WHERE id = '${runId}'`)

      const listOwn = async () => {
        const own = await platform.db.run(listOwnRuns, platform.bootId)
        return own.filter(({ ownerId }) => ownerId === tenant.ownerId) // other tests leave runs too
      }
      const own = await listOwn()
      const seen = { ...writer, attempt: 1, version: 1 }
      const attempts = [await platform.db.run(takeUpRun, seen), await platform.db.run(takeUpRun, seen)]

      expect(own).toEqual([])
      expect(attempts.map(({ outcome }) => outcome)).toEqual(['taken', 'left'])
      expect((await listOwn()).map((run) => run.attempt)).toEqual([2])
      await tenant.finish(admission)
    })
  })

  // Runner, take-up and a late model call meet: exactly one ends the run, and nothing is charged twice or lost.
  test('40 times, the runner completes while another process takes the run up and a step comes late', async () => {
    const tenant = await withMember({ maxConcurrentRuns: 1000 })
    const outcomes: string[] = []
    for (let round = 0; round < 40; round++) {
      const doomed = await platform.addReplica()
      const admission = await admit(tenant, doomed)
      const [, runner] = await Promise.all([
        killReplica(doomed).then(() => 'dead'),
        tenant.finish(admission, { calls: [modelCall(1), modelCall(2)] }, doomed),
        takeUp(admission, tenant, platform.bootId),
        record(admission, tenant, { calls: [modelCall(1)], bootId: doomed }),
      ])
      await takeUp(admission, tenant, platform.bootId)
      const next = await tenant.finish(admission, { calls: [modelCall(1)] })
      outcomes.push([runner, next].filter((outcome) => outcome === 'settled').join())
    }
    expect(new Set(outcomes)).toEqual(new Set(['settled']))
    expect(await platform.db.run(checkInvariants, { settled: false })).toEqual([])
  })
})
