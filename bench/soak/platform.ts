/**
 * Three processes of the platform behind a round-robin proxy, with a PostgreSQL and a Redis of their own, under load while all of
 * them are killed, stopped and started again; then the promises about runs are checked, and what it cost to be there.
 * Run: npm run soak:platform (an hour), or with -- --minutes 10 --clients 24 --seed 1. Linux, PostgreSQL and Redis programs.
 * Exits with 1 when a page saw a failure, a promise was broken, or memory was not given back; what the processes have logged is kept then.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import path from 'node:path'
import { Fleet } from '../../tests/faults/fleet.ts'
import { closeInstallations } from '../../tests/faults/installation.ts'
import { HAS_POSTGRES, HAS_REDIS, type OwnServer, startPostgres, startRedis } from '../../tests/faults/own-servers.ts'
import { pause } from '../load.ts'
import { cpuNs, residentBytes } from '../process-stats.ts'
import { randomNumbers } from './plans.ts'
import { readOptions } from '../../scripts/read-options.ts'

const MIB = 1_048_576
/** Caches fill for so long; what is held then is the measure. */
const WARM_UP_MS = 30_000
/** Logs of runs that have ended stay in memory for two minutes. */
const LOGS_KEPT_MS = 125_000
const IDLE_MS = 20_000
const AWAY_MS = 1_000
const LONGEST_CALM_MS = 20_000
const HEAP_TOLERANCE_BYTES = 16 * MIB
/** Lives from the start to the end, so that its memory can be compared. */
const SPARED = 2

const values = readOptions(import.meta.filename, {
  minutes: { type: 'string', default: '60' },
  clients: { type: 'string', default: '24' },
  seed: { type: 'string', default: '1' },
})
const [minutes, clients, seed] = [values.minutes, values.clients, values.seed].map(Number) as [number, number, number]
if (!(minutes > 0 && clients > 0 && Number.isInteger(seed)))
  throw new Error('--minutes, --clients and --seed are numbers above 0')
if (!HAS_POSTGRES || !HAS_REDIS) throw new Error('The programs of PostgreSQL and Redis are not on this machine.')

type Harm = { readonly name: string; readonly weight: number; readonly does: () => Promise<unknown> }

/** What a process holds and costs when nobody asks anything of it. */
type Rest = {
  readonly heapBytes: number
  readonly residentBytes: number
  /** Milliseconds of CPU a second. */
  readonly processCpu: number
  readonly postgresCpu: number
}

/** PostgreSQL has a process for each session. */
function familyNs(parent: number): number {
  const children = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && parentOf(name) === parent)
  return [parent, ...children.map(Number)].reduce((sum, pid) => sum + cpuNs(pid), 0)
}

function parentOf(pid: string): number {
  try {
    return Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1])
  } catch {
    return 0 // it has ended since it was listed
  }
}

async function rest(fleet: Fleet, postgres: OwnServer): Promise<Rest> {
  const spared = fleet.installation.processes[SPARED]!
  const pid = spared.child.pid ?? 0
  await pause(LOGS_KEPT_MS)
  const before = { process: cpuNs(pid), postgres: familyNs(postgres.pid()) }
  await pause(IDLE_MS)
  const perSecond = (ns: number): number => ns / 1e6 / (IDLE_MS / 1_000)
  return {
    processCpu: perSecond(cpuNs(pid) - before.process),
    postgresCpu: perSecond(familyNs(postgres.pid()) - before.postgres),
    heapBytes: await spared.heap(),
    residentBytes: residentBytes(pid),
  }
}

async function restart(server: OwnServer, how: 'orderly' | 'crash'): Promise<void> {
  await server.stop(how)
  await pause(AWAY_MS)
  await server.start()
}

async function harm(fleet: Fleet, [postgres, redis]: readonly [OwnServer, OwnServer]): Promise<Map<string, number>> {
  const random = randomNumbers(seed)
  const harms: readonly Harm[] = [
    { name: 'kill -9 of a process', weight: 5, does: () => fleet.kill(random() < 0.5 ? 0 : 1) },
    { name: 'SIGTERM of a process', weight: 2, does: () => fleet.replace(random() < 0.5 ? 0 : 1) },
    { name: 'restart of PostgreSQL', weight: 1, does: () => restart(postgres, 'orderly') },
    { name: 'crash of PostgreSQL', weight: 1, does: () => restart(postgres, 'crash') },
    { name: 'restart of Redis', weight: 1, does: () => restart(redis, 'orderly') },
    { name: 'crash of Redis', weight: 1, does: () => restart(redis, 'crash') },
  ]
  const chosen = harms.flatMap((each) => Array<Harm>(each.weight).fill(each))
  const counts = new Map<string, number>()
  for (const until = performance.now() + minutes * 60_000; performance.now() < until;) {
    await pause(random() * LONGEST_CALM_MS)
    const { name, does } = chosen[Math.floor(random() * chosen.length)]!
    console.error(`${name}; ${fleet.load.finished} answers so far, ${fleet.load.failures.length} failures`)
    await does()
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  return counts
}

function restTable(before: Rest, after: Rest): string {
  const mb = (bytes: number): string => `${(bytes / MIB).toFixed(0)} MB`
  const cpu = (milliseconds: number): string => `${milliseconds.toFixed(1)} ms/s`
  return `| at rest | before | after |
|---|---|---|
| heap of a process after garbage collection | ${mb(before.heapBytes)} | ${mb(after.heapBytes)} |
| its resident memory | ${mb(before.residentBytes)} | ${mb(after.residentBytes)} |
| its CPU | ${cpu(before.processCpu)} | ${cpu(after.processCpu)} |
| CPU of PostgreSQL, for three processes | ${cpu(before.postgresCpu)} | ${cpu(after.postgresCpu)} |`
}

async function soak(fleet: Fleet, servers: readonly [OwnServer, OwnServer]): Promise<string[]> {
  const [postgres] = servers
  await fleet.load.start()
  await pause(WARM_UP_MS)
  await fleet.load.stop()
  const before = await rest(fleet, postgres)
  console.error(`${clients} clients for ${minutes} minutes`)
  await fleet.load.start()
  const counts = await harm(fleet, servers)
  const problems = await fleet.problems()
  const after = await rest(fleet, postgres)
  const grown = after.heapBytes - before.heapBytes
  if (grown > HEAP_TOLERANCE_BYTES) problems.push(`${(grown / MIB).toFixed(1)} MB more heap than at the start`)
  console.log(`${clients} clients for ${minutes} minutes, seed ${seed}; load average ${loadavg()[0]?.toFixed(1)}
${fleet.load.finished} answers, ${fleet.load.failures.length} failures that a page would have shown
${[...counts].map(([name, count]) => `${count} times ${name}`).join(', ')}

${restTable(before, after)}`)
  return problems
}

const servers = [await startPostgres(), await startRedis()] as const
const removeServers = async (): Promise<void> => {
  for (const server of servers) await server.remove()
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    void closeInstallations()
      .then(removeServers)
      .finally(() => process.exit(1))
  })
}
try {
  const [postgres, redis] = servers
  const fleet = await Fleet.open({ clients, seed }, { postgresUrl: postgres.url, redisUrl: redis.url })
  try {
    const problems = await soak(fleet, servers)
    for (const problem of problems) console.log(`\nPROBLEM ${problem}`)
    if (problems.length === 0) console.log('\nEvery promise was kept, and everything was given back.')
    else {
      const file = path.join(tmpdir(), `bureau-soak-${process.pid}.log`)
      writeFileSync(file, fleet.installation.output)
      console.log(`\nWhat the processes have logged: ${file}`)
      process.exitCode = 1
    }
  } finally {
    await fleet.close()
  }
} finally {
  await removeServers()
}
