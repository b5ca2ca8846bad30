import { randomNumbers } from '../../bench/soak/plans.ts'
import { RoundRobinProxy } from '../support/round-robin-proxy.ts'
import { ClientLoad } from './client-load.ts'
import { Installation, type InstallationOptions } from './installation.ts'
import { eventually, pause } from './plan.ts'
import { Tenant } from './tenant.ts'

const PROCESSES = 3
/** Held answers go on so often: runs are under way at any moment. */
const RELEASE_MS = 500
const DRAIN_SECONDS = 2
/** Who watches others does so when it has been connected for ten seconds. */
const WARM_UP_MS = 11_000
const NOTICED_MS = 30_000
const POLL_MS = 25
const SETTLED_MS = 60_000

/** Milliseconds from the death of a process until each of its runs was another one's, and until clients read on. */
type Death = { readonly takenUpMs: readonly number[]; readonly readOnMs: readonly number[] }

/** `overdueMs`: how long a process that was asked to end was there after its last byte to anybody. */
type Stop = { readonly overdueMs: number; readonly exit: NodeJS.Signals | number | null }

/** Three processes behind a load balancer, and pages that talk to them once the load is started. */
export class Fleet {
  readonly installation: Installation
  readonly load: ClientLoad
  readonly #proxy: RoundRobinProxy
  readonly #releasing: NodeJS.Timeout
  /** When each process was started, by its place. */
  readonly #startedAt: number[]

  private constructor(installation: Installation, proxy: RoundRobinProxy, load: ClientLoad) {
    this.installation = installation
    this.#proxy = proxy
    this.load = load
    this.#releasing = setInterval(() => installation.model.release(), RELEASE_MS)
    this.#startedAt = installation.processes.map(() => performance.now())
  }

  static async open(
    { clients, seed }: { readonly clients: number; readonly seed: number },
    services: Pick<InstallationOptions, 'postgresUrl' | 'redisUrl'> = {},
  ): Promise<Fleet> {
    const environment = { PLATFORM_DRAIN_SECONDS: String(DRAIN_SECONDS) }
    const scale = { engine: 'postgres', processes: PROCESSES, redis: true } as const
    const installation = await Installation.open(scale, { ...services, environment })
    const proxy = await RoundRobinProxy.start(() =>
      installation.processes.map(({ url }) => url).filter((url) => url !== ''),
    )
    const tenant = await Tenant.create(installation)
    const { apiKey } = installation
    const load = new ClientLoad({ url: proxy.url, apiKey, tenant, clients, random: randomNumbers(seed) })
    return new Fleet(installation, proxy, load)
  }

  /** Until each process has been there for so long that others can notice its death at once. */
  async warmUp(): Promise<void> {
    const youngest = Math.max(...this.#startedAt)
    await pause(Math.max(0, youngest + WARM_UP_MS - performance.now()))
  }

  /** The place of the process that watches all others. */
  async watcher(): Promise<number> {
    const [found] = await this.installation.rows(`SELECT boot_id FROM replicas
      JOIN pg_locks own ON own.locktype = 'advisory' AND own.objsubid = 2 AND own.objid = lock_id::oid
      JOIN pg_locks w ON w.pid = own.pid AND w.locktype = 'advisory' AND w.objsubid = 2 AND w.objid = 0 AND w.granted`)
    const bootIds = await Promise.all(this.installation.processes.map((process) => process.bootId()))
    return bootIds.indexOf(String(found?.['boot_id']))
  }

  /** Kills the processes at these places at once, waits until their runs go on elsewhere, and starts them again. */
  async kill(...indexes: readonly number[]): Promise<Death> {
    const { installation, load } = this
    const victims = indexes.map((index) => installation.processes[index]!)
    const bootIds = await Promise.all(victims.map((victim) => victim.bootId()))
    const diedAt = performance.now()
    for (const victim of victims) victim.kill()
    await Promise.all(victims.map((victim) => victim.exited))
    const own = `FROM runs WHERE boot_id IN ('${bootIds.join("','")}') AND state IN ('reserved','running')`
    // What the process had sent right before its death may still arrive in the records.
    const lost = new Map<string, number | null>()
    const isLost = async (): Promise<boolean> => {
      const ids = new Set((await installation.rows(`SELECT id ${own}`)).map(({ id }) => String(id)))
      for (const id of ids) lost.set(id, null)
      for (const [id, at] of lost) if (at === null && !ids.has(id)) lost.set(id, performance.now() - diedAt)
      return ids.size > 0
    }
    while ((await isLost()) && performance.now() - diedAt < NOTICED_MS) await pause(POLL_MS)
    const takenUpMs = [...lost.values()].filter((at) => at !== null)
    const left = lost.size - takenUpMs.length
    if (left > 0) load.failures.push(`nobody goes on with ${left} runs of a killed process`)
    await pause(2_000)
    const readOnMs = load.resumedAt.filter((at) => at > diedAt).map((at) => at - diedAt)
    for (const index of indexes) await this.#restart(index)
    return { takenUpMs, readOnMs }
  }

  /** Asks each process to end, one after the other, and starts the next one in its place. */
  async roll(): Promise<Stop[]> {
    const stops: Stop[] = []
    for (const index of this.installation.processes.keys()) stops.push(await this.replace(index))
    return stops
  }

  /** Asks the process at this place to end, and starts the next one. */
  async replace(index: number): Promise<Stop> {
    const process = this.installation.processes[index]!
    const askedAt = performance.now()
    process.child.kill('SIGTERM')
    const exit = await process.exited
    const goneAt = performance.now()
    const lastReadAt = Math.max(askedAt, this.#proxy.lastSentAt(process.url))
    await this.#restart(index)
    return { exit, overdueMs: goneAt - lastReadAt }
  }

  async #restart(index: number): Promise<void> {
    await this.installation.restart(index)
    this.#startedAt[index] = performance.now()
  }

  /** Ends the load. @returns What users, records and tools say that must not be. */
  async problems(): Promise<string[]> {
    const { installation, load } = this
    await load.stop()
    const problems = [...load.failures, ...installation.model.complaints]
    const active = "SELECT id, state FROM runs WHERE state IN ('reserved','running','waiting')"
    if (!(await eventually(async () => (await installation.rows(active)).length === 0, SETTLED_MS)))
      problems.push(`runs that never end: ${JSON.stringify(await installation.rows(active))}`)
    for (const { invariant, says, rows } of await installation.processes[0]!.violations())
      problems.push(`${invariant}: not true: ${says}: ${JSON.stringify(rows)}`)
    for (const [call, times] of Map.groupBy(installation.toolCalls, (each) => each))
      if (times.length > 1) problems.push(`the tool was called ${times.length} times for ${call}`)
    return problems
  }

  async close(): Promise<void> {
    clearInterval(this.#releasing)
    this.#proxy.close()
    await this.installation.close()
  }
}
