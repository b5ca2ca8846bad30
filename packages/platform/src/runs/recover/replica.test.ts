import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { StartError } from '@bureau/protocol'
import { Client } from 'pg'
import { describe, expect, test } from 'vitest'
import { CommitUnknownError, type Database } from '../../db/database.ts'
import { ENGINES } from '../../db/engines.contract.ts'
import { checkInvariants } from '../../db/invariants.contract.ts'
import { openTestStore } from '../../test-store.contract.ts'
import { type TestStore, useTestStore } from '../../use-test-store.contract.ts'
import { ReplicaLock } from './replica-lock.ts'
import { ReplicaMonitor } from './replica-monitor.ts'
import { LOCK_CLASS, WATCHER_LOCK } from './replicas.repo.ts'
import { listReplicas } from '../../system/list-replicas.ts'
import { Replica } from './replica.ts'
import { requestCancel } from '../../run-records/request-cancel.ts'

describe('ReplicaMonitor', () => {
  const still = [{ bootId: 'a', hbSeq: 7, isLocked: true }]

  test('a process is dead after nine polls without a heartbeat', () => {
    const monitor = new ReplicaMonitor({ pollMs: 5_000 })
    const verdicts = Array.from({ length: 11 }, (_, poll) => monitor.observe(still, poll * 5_000).length)
    expect(verdicts).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1])
  })

  test('without a lock a process is dead after twelve seconds', () => {
    const monitor = new ReplicaMonitor({ pollMs: 2_000 })
    const pulses = [{ bootId: 'a', hbSeq: 7, isLocked: false }]
    const verdicts = Array.from({ length: 8 }, (_, poll) => monitor.observe(pulses, poll * 2_000).length)
    expect(verdicts).toEqual([0, 0, 0, 0, 0, 0, 1, 1])
  })

  test('one heartbeat begins the count anew', () => {
    const monitor = new ReplicaMonitor({ pollMs: 5_000 })
    for (let poll = 0; poll < 9; poll++) expect(monitor.observe(still, poll * 5_000)).toEqual([])
    expect(monitor.observe([{ bootId: 'a', hbSeq: 8, isLocked: true }], 45_000)).toEqual([])
    for (let poll = 10; poll < 18; poll++) {
      expect(monitor.observe([{ bootId: 'a', hbSeq: 8, isLocked: true }], poll * 5_000)).toEqual([])
    }
    expect(monitor.observe([{ bootId: 'a', hbSeq: 8, isLocked: true }], 90_000)).toEqual([
      { bootId: 'a', hbSeq: 8, isLocked: true },
    ])
  })

  test('polls that a delayed timer bunches up count once', () => {
    const monitor = new ReplicaMonitor({ pollMs: 5_000 })
    for (let poll = 0; poll < 100; poll++) expect(monitor.observe(still, 60_000 + poll)).toEqual([])
  })

  // After an outage of the database everybody's counter has stood still, and nobody is dead.
  test('a failed poll forgets everything', () => {
    const monitor = new ReplicaMonitor({ pollMs: 5_000 })
    for (let poll = 0; poll < 9; poll++) monitor.observe(still, poll * 5_000)
    monitor.pollFailed()
    for (let poll = 20; poll < 29; poll++) expect(monitor.observe(still, poll * 5_000)).toEqual([])
    expect(monitor.observe(still, 29 * 5_000)).toHaveLength(1)
  })
})

describe.runIf(ENGINES.includes('postgres'))('ReplicaLock', () => {
  const now = (): number => performance.now()
  const openLock = (url: string, onError: (error: unknown) => void = () => {}): Promise<ReplicaLock> =>
    ReplicaLock.open({ url, now, onDead: () => {}, onError })
  const startLocked = (
    { db, url: directUrl }: TestStore,
    options: Partial<Parameters<typeof Replica.start>[0]> = {},
  ): Promise<Replica> => {
    const ignored = { onFenced: () => {}, onCancels: () => {}, onError: () => {} }
    return Replica.start({ db, directUrl, version: 'test', ...ignored, ...options })
  }

  test('a process whose session ends is dead within two seconds, and a process that is only silent is not', async () => {
    const platform = await openTestStore('postgres')
    const deaths = Promise.withResolvers<void>()
    const watcher = await startLocked(platform, { onDeaths: () => deaths.resolve() })
    const [victim, silent] = [await startLocked(platform), await startLocked(platform)]
    const lockOf = async ({ bootId }: Replica): Promise<unknown> =>
      (await platform.rows(`SELECT lock_id FROM replicas WHERE boot_id = '${bootId}'`))[0]?.['lock_id']
    const isWatching = `SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 0
      AND classid = (hashtext(current_schema()) & 2147483647)::oid`
    await expect.poll(() => platform.rows(isWatching)).toHaveLength(1)

    // As after a kill -9: the session is gone, and nobody takes the lock again.
    const lockId = await lockOf(victim)
    const terminated = await endAgainAndAgain(platform, lockId, deaths.promise)

    const states = await platform.rows(`SELECT boot_id, state FROM replicas`)
    const stateOf = ({ bootId }: Replica): unknown => states.find((row) => row['boot_id'] === bootId)?.['state']
    expect([stateOf(watcher), stateOf(victim), stateOf(silent)]).toEqual(['live', 'dead', 'live'])
    expect(terminated).toBeGreaterThan(0)
    for (const replica of [victim, silent, watcher]) await replica.close()
    await platform.drop()
  })

  test('a database that is away is reported once, not with each attempt to reach it', async () => {
    const platform = await openTestStore('postgres')
    const url = new URL(platform.url)
    const server = { host: url.hostname, port: Number(url.port) || 5432 }
    const open = new Set<Socket>()
    let [isAway, refused] = [false, 0]
    const proxy = createServer((socket) => {
      if (isAway) return void (refused++, socket.destroy())
      const upstream = connect(server)
      socket.pipe(upstream).pipe(socket)
      for (const end of [socket, upstream]) open.add(end.on('error', () => {}))
    })
    await once(proxy.listen(0, '127.0.0.1'), 'listening')
    const setAway = (value: boolean): void => {
      isAway = value
      for (const socket of open) socket.destroy()
    }
    url.host = `127.0.0.1:${(proxy.address() as AddressInfo).port}`
    const errors: unknown[] = []
    const lock = await openLock(url.href, (error) => void errors.push(error))

    setAway(true)
    await expect.poll(() => refused).toBeGreaterThan(2)
    expect(errors).toHaveLength(1)
    expect(lock.isWatcher).toBe(false)
    setAway(false)
    await expect.poll(() => lock.isWatcher).toBe(true)
    const { aliveAt } = lock
    await expect.poll(() => lock.aliveAt > aliveAt).toBe(true)
    setAway(true)
    await expect.poll(() => errors.length).toBe(2)

    await lock.close()
    proxy.close()
    await platform.drop()
  })

  test("a process that stops is noticed by its heartbeat although a session of nobody has the watcher's lock", async () => {
    const platform = await openTestStore('postgres')
    const nobody = new Client({ connectionString: platform.url })
    await nobody.connect()
    await nobody.query(`SELECT pg_advisory_lock(${LOCK_CLASS}, ${WATCHER_LOCK})`)
    let [aheadMs, reports] = [0, 0]
    const ahead = { now: () => performance.now() + aheadMs }
    const observer = await startLocked(platform, { ...ahead, onUnwatched: () => reports++ })
    const stopped = await startLocked(platform, ahead)

    for (let poll = 0; poll < 4; poll++) {
      await observer.watch()
      aheadMs += 15_000
    }

    const states = await platform.rows(`SELECT state FROM replicas WHERE boot_id = '${stopped.bootId}'`)
    expect(states).toEqual([{ state: 'dead' }])
    expect(reports).toBe(1)
    for (const replica of [stopped, observer]) await replica.close()
    await nobody.end()
    await platform.drop()
  })

  const noConnection = (reason: string): StartError =>
    new StartError(
      `DATABASE_DIRECT_URL (default: DATABASE_URL): no connection to the database itself, past any pooler: ${reason}.`,
    )

  test('an address of its own that leads nowhere is named when the process starts', async () => {
    const refused = noConnection('connect ECONNREFUSED 127.0.0.1:1')

    await expect(openLock('postgres://127.0.0.1:1/bureau')).rejects.toThrow(refused)
  })

  test('an address that leads to a pooler, which would hand the session with the lock on, is refused', async () => {
    const refusal = 'SFATAL\0C08P01\0Munsupported startup parameter: options\0\0'
    const pooler = createServer((client) =>
      client.once('data', (startup: Buffer) => {
        const length = Buffer.alloc(4)
        length.writeInt32BE(refusal.length + 4)
        client.end(startup.includes('options\0') ? `E${length.toString('latin1')}${refusal}` : '')
      }),
    )
    await once(pooler.listen(0, '127.0.0.1'), 'listening')

    const opening = openLock(`postgres://127.0.0.1:${(pooler.address() as AddressInfo).port}/bureau`)

    await expect(opening).rejects.toThrow(noConnection('unsupported startup parameter: options'))
    pooler.close()
  })

  test('a server that is read-only, as the old one after a switch, is left for the one that a new connection leads to', async () => {
    const platform = await openTestStore('postgres')
    const url = new URL(platform.url)
    const options = url.searchParams.get('options')!
    url.searchParams.set('options', `${options} -c default_transaction_read_only=on`)
    const errors = Promise.withResolvers<unknown>()
    const lock = await openLock(url.href, errors.resolve)

    expect(await errors.promise).toMatchObject({ message: 'the server of the lock is read-only' })

    await lock.close()
    await platform.drop()
  })
})

describe.each(ENGINES)('Replica on %s', (engine) => {
  const platform = useTestStore(engine)

  /** A replica whose clock and timers are the test's, and a switch for its database, whose answers can be held. */
  async function startReplica(onAnswer: (operation: string) => Promise<void> | undefined = () => undefined) {
    let clock = 0
    let down = false
    const fenced: string[] = []
    const cancels: string[] = []
    const taken: string[] = []
    const { db } = platform
    const wire: Database = {
      engine: db.engine,
      failed: db.failed,
      close: () => db.close(),
      run: async (operation, args, options) => {
        if (down) throw new CommitUnknownError('down')
        const answer = await db.run(operation, args, options)
        await onAnswer(operation.name)
        return answer
      },
    }
    const replica = await Replica.start({
      db: wire,
      version: 'test',
      onFenced: (bootId) => fenced.push(bootId),
      onCancels: (wished) => cancels.push(...wished.map((one) => `${one.runId} ${one.mode}`)),
      onTaken: ({ runId }) => taken.push(runId),
      onError: () => {},
      now: () => clock,
    })
    return {
      replica,
      fenced,
      cancels,
      taken,
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

  test('drained it admits no more and its runs go on; closed it is gone and another one goes on with what it left', async () => {
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
    await next.replica.sweep() // what the other live process of the test has not taken
    const { runId } = forgotten.run
    const [left] = await platform.rows(`SELECT state, boot_id, attempt FROM runs WHERE id = '${runId}'`)
    expect(left).toEqual({ state: 'running', boot_id: next.replica.bootId, attempt: 2 })
    expect(next.taken).toEqual([runId])
    await tenant.finish(forgotten, {}, next.replica.bootId)
    await next.replica.close()
  })

  test('is listed with the runs that it works on, and not with those of others', async () => {
    const tenant = await platform.addTenant()
    const [busy, idle] = [await platform.addReplica(), await platform.addReplica()]
    const admission = await tenant.admit({}, { bootId: busy })

    const listed = await platform.db.run(listReplicas, { bootId: busy })

    const runsOf = (bootId: string) => listed.find(({ id }) => id === bootId)?.activeRuns
    expect([runsOf(busy), runsOf(idle)]).toEqual([1, 0])
    await tenant.finish(admission, {}, busy)
  })

  test('drained it has all runs that a sweep has brought meanwhile', async () => {
    const given = Promise.withResolvers<void>()
    const drained = Promise.withResolvers<void>()
    const { replica, taken } = await startReplica((operation) => {
      if (operation === 'setReplicaState') setImmediate(drained.resolve)
      if (operation !== 'takeUpRun') return undefined
      given.resolve()
      return drained.promise
    })
    const tenant = await platform.addTenant()
    const doomed = await platform.addReplica()
    const lost = await tenant.admit({}, { bootId: doomed })
    await platform.rows(`UPDATE replicas SET state = 'dead' WHERE boot_id = '${doomed}'`)

    replica.look() // another live process of the test may have its share
    replica.look()
    await given.promise
    await replica.drain()

    expect(taken).toEqual([lost.run.runId])
    await tenant.finish(lost, {}, replica.bootId)
    await replica.close()
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

  test('watches others and goes on with the runs of one that died, when there are others', async () => {
    const watcher = await startReplica()
    const victim = await startReplica()
    if (engine === 'pglite') {
      // The folder's lock lets one process in: the next one ends its predecessor at its start, without watching.
      expect(await stateOf(watcher.replica.bootId)).toBe('dead')
      return
    }
    const tenant = await platform.addTenant()
    const admission = await tenant.admit({}, { bootId: victim.replica.bootId })
    for (let poll = 0; poll < 6; poll++) {
      await watcher.replica.watch()
      watcher.advance(2_000)
    }
    expect(await stateOf(victim.replica.bootId)).toBe('live')
    await watcher.replica.watch()
    expect(await stateOf(victim.replica.bootId)).toBe('dead')
    await watcher.replica.sweep()
    await watcher.replica.sweep()
    expect(watcher.taken).toEqual([admission.run.runId])
    expect(await tenant.finish(admission, {}, victim.replica.bootId)).toBe('fenced')
    expect(await tenant.finish(admission, {}, watcher.replica.bootId)).toBe('settled')
    const next = await tenant.admit({ chatId: admission.run.chatId }, { bootId: watcher.replica.bootId })
    expect(next.outcome).toBe('admitted')
    expect(await platform.db.run(checkInvariants, { settled: true })).toEqual([])
    await watcher.replica.close()
  })

  test.runIf(engine === 'postgres')(
    'cut off for 8 seconds without a lock it fences itself before anyone can declare it dead',
    async () => {
      const { replica, fenced, advance, setDown } = await startReplica()
      const lost = replica.bootId
      await replica.beat()
      setDown(true)
      for (const ms of [2_500, 2_500, 2_999]) {
        advance(ms)
        replica.checkFence()
      }
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

/** Ends the sessions that hold a lock, as fast as they come back. @returns How many. */
async function endAgainAndAgain(platform: TestStore, lockId: unknown, until: Promise<void>): Promise<number> {
  const over = new AbortController()
  let ended = 0
  void until.then(() => over.abort())
  while (!over.signal.aborted) {
    const rows = await platform.rows(`SELECT pg_terminate_backend(pid) FROM pg_locks
      WHERE locktype = 'advisory' AND objid = ${String(lockId)}::oid AND objsubid = 2`)
    ended += rows.length
  }
  return ended
}
