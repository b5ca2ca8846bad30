import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CommitUnknownError, type Database } from '../../db/database.ts'
import { ENGINES } from '../../db/engines.contract.ts'
import { checkInvariants } from '../../db/invariants.ts'
import { openTestStore } from '../../test-store.contract.ts'
import { ReplicaMonitor } from './replica-monitor.ts'
import { Replica } from './replica.ts'
import { requestCancel } from '../../run-records/request-cancel.ts'

type TestStore = Awaited<ReturnType<typeof openTestStore>>

describe('ReplicaMonitor', () => {
  const still = [{ bootId: 'a', hbSeq: 7 }]

  test('a process is dead after nine polls without a heartbeat', () => {
    const monitor = new ReplicaMonitor()
    const verdicts = Array.from({ length: 11 }, (_, poll) => monitor.observe(still, poll * 5_000).length)
    expect(verdicts).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1])
  })

  test('one heartbeat begins the count anew', () => {
    const monitor = new ReplicaMonitor()
    for (let poll = 0; poll < 9; poll++) expect(monitor.observe(still, poll * 5_000)).toEqual([])
    expect(monitor.observe([{ bootId: 'a', hbSeq: 8 }], 45_000)).toEqual([])
    for (let poll = 10; poll < 18; poll++) {
      expect(monitor.observe([{ bootId: 'a', hbSeq: 8 }], poll * 5_000)).toEqual([])
    }
    expect(monitor.observe([{ bootId: 'a', hbSeq: 8 }], 90_000)).toEqual([{ bootId: 'a', hbSeq: 8 }])
  })

  test('polls that a delayed timer bunches up count once', () => {
    const monitor = new ReplicaMonitor()
    for (let poll = 0; poll < 100; poll++) expect(monitor.observe(still, 60_000 + poll)).toEqual([])
  })

  // After an outage of the database everybody's counter has stood still, and nobody is dead.
  test('a failed poll forgets everything', () => {
    const monitor = new ReplicaMonitor()
    for (let poll = 0; poll < 9; poll++) monitor.observe(still, poll * 5_000)
    monitor.pollFailed()
    for (let poll = 20; poll < 29; poll++) expect(monitor.observe(still, poll * 5_000)).toEqual([])
    expect(monitor.observe(still, 29 * 5_000)).toHaveLength(1)
  })
})

describe.each(ENGINES)('Replica on %s', (engine) => {
  let platform: TestStore
  beforeAll(async () => {
    platform = await openTestStore(engine)
  })
  afterAll(() => platform.drop())

  /** A replica whose clock and timers are the test's, and a switch for its database. */
  async function startReplica() {
    let clock = 0
    let down = false
    const fenced: string[] = []
    const cancels: string[] = []
    const { db } = platform
    const wire: Database = {
      engine: db.engine,
      failed: db.failed,
      close: () => db.close(),
      run: (operation, args, options) =>
        down ? Promise.reject(new CommitUnknownError('down')) : db.run(operation, args, options),
    }
    const replica = await Replica.start({
      db: wire,
      version: 'test',
      onFenced: (bootId) => fenced.push(bootId),
      onCancels: (wished) => cancels.push(...wished.map((one) => `${one.runId} ${one.mode}`)),
      onError: () => {},
      now: () => clock,
    })
    return {
      replica,
      fenced,
      cancels,
      advance: (ms: number) => {
        clock += ms
      },
      setDown: (value: boolean) => {
        down = value
      },
    }
  }
  const stateOf = async (bootId: string) =>
    (await platform.rows(`SELECT state FROM replicas WHERE boot_id = '${bootId}'`))[0]?.['state']

  test('its heartbeat brings the cancels of its runs, until they have ended', async () => {
    const { replica, cancels } = await startReplica()
    const tenant = await platform.addTenant()
    const admission = await tenant.admit({}, { bootId: replica.bootId })
    const { runId } = admission.run
    await replica.beat()
    expect(cancels).toEqual([])
    await platform.db.run(requestCancel, { ownerId: tenant.ownerId, runId, mode: 'after_turn' })
    await replica.beat()
    expect(cancels).toEqual([`${runId} after_turn`])
    await tenant.finish(admission, { state: 'cancelled' }, replica.bootId)
    await replica.beat()
    expect(cancels).toHaveLength(1)
    await replica.close()
  })

  test('drained it admits no more and its runs go on; closed it is gone and what it left is ended', async () => {
    const { replica } = await startReplica()
    const tenant = await platform.addTenant()
    const { bootId } = replica
    const [finishing, forgotten] = [await tenant.admit({}, { bootId }), await tenant.admit({}, { bootId })]
    await replica.drain()
    await expect(tenant.admit({}, { bootId })).rejects.toMatchObject({ code: 'server_draining' })
    expect(await tenant.finish(finishing, {}, bootId)).toBe('settled')
    await replica.beat()
    await replica.close()
    expect(await stateOf(bootId)).toBe('gone')

    const next = await startReplica()
    const [left] = await platform.rows(`SELECT state, error_code FROM runs WHERE id = '${forgotten.run.runId}'`)
    expect(left).toEqual({ state: 'failed', error_code: 'runner_lost' })
    await next.replica.close()
  })

  test('declared dead it fences itself with its next heartbeat and begins a new life', async () => {
    const { replica, fenced } = await startReplica()
    const lost = replica.bootId
    await platform.rows(`UPDATE replicas SET state = 'dead' WHERE boot_id = '${lost}'`)
    await replica.beat()
    expect(fenced).toEqual([lost])
    expect(replica.bootId).not.toBe(lost)
    expect([await stateOf(lost), await stateOf(replica.bootId)]).toEqual(['dead', 'live'])
    await replica.close()
  })

  test('watches others and ends the runs of one that died, when there are others', async () => {
    const watcher = await startReplica()
    const victim = await startReplica()
    if (engine === 'pglite') {
      // The folder's lock lets one process in: the next one ends its predecessor at its start, without watching.
      expect(await stateOf(watcher.replica.bootId)).toBe('dead')
      return
    }
    const tenant = await platform.addTenant()
    const admission = await tenant.admit({}, { bootId: victim.replica.bootId })
    for (let poll = 0; poll < 9; poll++) {
      await watcher.replica.watch()
      watcher.advance(5_000)
    }
    expect(await stateOf(victim.replica.bootId)).toBe('live')
    await watcher.replica.watch()
    expect(await stateOf(victim.replica.bootId)).toBe('dead')
    await watcher.replica.sweep()
    expect(await tenant.finish(admission, {}, victim.replica.bootId)).toBe('already_ended')
    const next = await tenant.admit({ chatId: admission.run.chatId }, { bootId: watcher.replica.bootId })
    expect(next.outcome).toBe('admitted')
    expect(await platform.db.run(checkInvariants, { settled: true })).toEqual([])
    await watcher.replica.close()
  })

  test.runIf(engine === 'postgres')(
    'cut off for 30 seconds it fences itself before anyone can declare it dead',
    async () => {
      const { replica, fenced, advance, setDown } = await startReplica()
      const lost = replica.bootId
      await replica.beat()
      setDown(true)
      advance(29_999)
      replica.checkFence()
      expect(fenced).toEqual([])
      advance(1)
      replica.checkFence()
      expect(fenced).toEqual([lost])
      replica.checkFence()
      await expect(replica.beat()).rejects.toThrow('down')
      expect(fenced).toEqual([lost])

      setDown(false)
      await replica.beat()
      expect([await stateOf(lost), await stateOf(replica.bootId)]).toEqual(['gone', 'live'])
      await replica.beat()
      expect(fenced).toEqual([lost])
      await replica.close()
    },
  )
})
