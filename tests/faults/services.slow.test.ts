import { randomNumbers } from '../../bench/soak/plans.ts'
import { afterEach, describe, expect, test } from 'vitest'
import { Installation, type InstallationOptions } from './installation.ts'
import { checkScene } from './checks/check-scene.ts'
import {
  HAS_PGBOUNCER,
  HAS_POSTGRES,
  HAS_REDIS,
  type OwnServer,
  startPgbouncer,
  startPostgres,
  startRedis,
} from './own-servers.ts'
import { eventually, pause, type Scene } from './plan.ts'
import { Tenant } from './tenant.ts'
import { oneRound } from './traffic.ts'

const REACH_MS = 45_000

const opened: { remove(): Promise<void> }[] = []
afterEach(async () => {
  for (const each of opened.splice(0).toReversed()) await each.remove()
})

const started = async (starting: Promise<OwnServer>): Promise<OwnServer> => {
  const server = await starting
  opened.push(server)
  return server
}

/** Two processes with an integration, on services of their own. */
async function open(options: InstallationOptions): Promise<{ scene: Scene; violations: string[] }> {
  const scale = { engine: 'postgres', processes: 2, redis: options.redisUrl !== undefined } as const
  const installation = await Installation.open(scale, options)
  opened.push({ remove: () => installation.close() })
  const violations: string[] = []
  const tenant = await Tenant.create(installation)
  return {
    scene: { installation, tenant, random: randomNumbers(1), object: (violation) => void violations.push(violation) },
    violations,
  }
}

/** Runs of the first process that last until the model is released. */
async function startLasting({ tenant }: Scene) {
  const consumerId = await tenant.addConsumer()
  const runs = Array.from({ length: 4 }, () => tenant.send(tenant.ask({ consumerId, behaviour: 'tool-hold' })))
  await Promise.all(runs.map((run) => run.speaking))
  return { consumerId, runs }
}

const bootsOf = ({ installation }: Scene): Promise<string[]> =>
  Promise.all(installation.processes.map((process) => process.bootId()))

describe.runIf(HAS_POSTGRES && HAS_REDIS && HAS_PGBOUNCER)('behind pgbouncer in transaction mode', () => {
  test('two processes serve on five connections, and one notices by its direct one that the other is killed', async () => {
    const postgres = await started(startPostgres())
    const pgbouncer = await started(startPgbouncer(postgres.url, 5))
    const redis = await started(startRedis())
    const { scene, violations } = await open({
      postgresUrl: postgres.url,
      poolerUrl: pgbouncer.url,
      redisUrl: redis.url,
    })
    const { installation } = scene

    await pause(11_000) // who watches others has to have been connected for ten seconds
    const { runs, consumerId } = await startLasting(scene)
    const sessions = await installation.rows(
      "SELECT count(*)::int AS n FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
    )
    const bootId = await installation.processes[0]!.bootId()
    const diedAt = performance.now()
    installation.processes[0]!.kill()
    const isTaken = async (): Promise<boolean> => {
      const left = await installation.rows(`SELECT 1 FROM runs WHERE boot_id = '${bootId}' AND state = 'running'`)
      return left.length === 0
    }
    const areTaken = await eventually(isTaken, REACH_MS)
    const noticedMs = performance.now() - diedAt
    await installation.restart(0)
    await oneRound(scene, consumerId)
    await checkScene(scene)

    expect(violations).toEqual([])
    expect(runs).toHaveLength(4)
    expect(areTaken).toBe(true)
    expect(noticedMs).toBeLessThan(11_000) // by heartbeats alone it is twelve seconds
    expect(sessions[0]?.['n']).toBeLessThanOrEqual(5 + 2)
  })
})

describe.runIf(HAS_POSTGRES && HAS_REDIS)('when what the processes need is started again', () => {
  test.each(['orderly', 'crash'] as const)(
    'PostgreSQL (%s): runs go on where they are, and nobody takes the others for dead',
    async (how) => {
      const postgres = await started(startPostgres())
      const redis = await started(startRedis())
      const { scene, violations } = await open({ postgresUrl: postgres.url, redisUrl: redis.url })
      await pause(11_000)
      const { runs } = await startLasting(scene)
      const before = await bootsOf(scene)

      await postgres.stop(how)
      await pause(2_000)
      await postgres.start()
      await pause(3_000)
      scene.installation.model.release()
      await Promise.all(runs.map((run) => run.over))
      await checkScene(scene)

      expect(violations).toEqual([])
      expect(runs.map(({ outcome }) => outcome)).toEqual(['ended', 'ended', 'ended', 'ended'])
      expect(await bootsOf(scene)).toEqual(before)
    },
  )

  test('Redis, emptied: runs do not notice, and readers at the other process come to the end', async () => {
    const postgres = await started(startPostgres())
    const redis = await started(startRedis())
    const { scene, violations } = await open({ postgresUrl: postgres.url, redisUrl: redis.url })
    const { installation, tenant } = scene
    const { runs } = await startLasting(scene)

    await redis.stop('crash')
    await pause(1_000)
    await redis.start()
    installation.model.release()
    await Promise.all(runs.map((run) => run.over))
    const followed = runs.map(({ ask, runId }) => tenant.follow(ask, runId!, '0', 1))
    await Promise.all(followed.map((attempt) => attempt.over))
    await checkScene(scene)

    expect(violations).toEqual([])
    expect(runs.map(({ outcome }) => outcome)).toEqual(['ended', 'ended', 'ended', 'ended'])
    expect(followed.map(({ result }) => result?.status)).toEqual(['completed', 'completed', 'completed', 'completed'])
  })

  test('Redis is away when processes start: they serve without it, say so, and use it when it comes', async () => {
    const postgres = await started(startPostgres())
    const redis = await started(startRedis())
    await redis.stop()
    const { scene, violations } = await open({ postgresUrl: postgres.url, redisUrl: redis.url })
    const { tenant } = scene
    const without = await tenant.call('GET', '/readyz')
    await oneRound(scene, await tenant.addConsumer())
    await redis.start()
    let ready = without
    await eventually(async () => {
      ready = await tenant.call('GET', '/readyz')
      return ready.status === 200 && ready.body.degraded === undefined
    }, REACH_MS)
    await checkScene(scene)

    expect(violations).toEqual([])
    expect([without.status, without.body.degraded]).toEqual([200, ['redis']])
    expect([ready.status, ready.body]).toEqual([200, { status: 'ok' }])
  })
})
