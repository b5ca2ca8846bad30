/**
 * Three processes of the platform behind a round-robin proxy, and pages that talk to them without a pause: how soon the runs of
 * a process that is killed go on elsewhere, and what the pages see of kills and of a rolling restart.
 * Run: npm run bench:replicas, or with -- --kills 20 --clients 60 --seed 1. PostgreSQL and Redis are started for it, so that nobody
 * else uses them.
 * Exits with 1 when a page saw a failure, or a promise about runs was broken.
 */
import { loadavg } from 'node:os'
import { Fleet } from '../../tests/faults/fleet.ts'
import { closeInstallations } from '../../tests/faults/installation.ts'
import { startPostgres, startRedis } from '../../tests/faults/own-servers.ts'
import { readOptions } from '../../scripts/read-options.ts'

const values = readOptions(import.meta.filename, {
  kills: { type: 'string', default: '10' },
  clients: { type: 'string', default: '40' },
  seed: { type: 'string', default: '1' },
})
const [kills, clients, seed] = [values.kills, values.clients, values.seed].map(Number) as [number, number, number]
if (![kills, clients, seed].every((value) => Number.isInteger(value) && value > 0))
  throw new Error('--kills, --clients and --seed are whole numbers above 0')

const [postgres, redis] = [await startPostgres(), await startRedis()]
const removeServers = (): Promise<unknown> => Promise.all([postgres.remove(), redis.remove()])
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    void closeInstallations()
      .then(removeServers)
      .finally(() => process.exit(1))
  })
}

function quantiles(milliseconds: readonly number[]): string {
  if (milliseconds.length === 0) return '-'
  const sorted = milliseconds.toSorted((a, b) => a - b)
  const at = (share: number): string => `${((sorted[Math.ceil(share * sorted.length) - 1] ?? 0) / 1_000).toFixed(2)} s`
  return `${at(0.5)} | ${at(0.99)} | ${at(1)} | ${sorted.length}`
}

const fleet = await Fleet.open({ clients, seed }, { postgresUrl: postgres.url, redisUrl: redis.url })
try {
  await fleet.load.start()
  const takenUpMs: number[] = []
  const readOnMs: number[] = []
  for (let kill = 0; kill < kills; kill++) {
    await fleet.warmUp()
    const death = await fleet.kill(kill % fleet.installation.processes.length)
    takenUpMs.push(...death.takenUpMs)
    readOnMs.push(...death.readOnMs)
    console.error(`kill ${kill + 1} of ${kills}: ${death.takenUpMs.length} runs were lost`)
  }
  await fleet.warmUp()
  const watcher = await fleet.watcher()
  const together = await fleet.kill(watcher, (watcher + 1) % fleet.installation.processes.length)
  const stops = await fleet.roll()
  const overdue = stops.map(({ overdueMs }) => overdueMs)
  const problems = await fleet.problems()
  console.log(`${clients} clients, ${kills} kills, a rolling restart, seed ${seed}; load average ${loadavg()[0]?.toFixed(1)}
${fleet.load.finished} answers, ${fleet.load.failures.length} failures that a page would have shown

| | p50 | p99 | most | of |
|---|---|---|---|---|
| a run of a killed process is another one's after | ${quantiles(takenUpMs)} |
| its page reads on after | ${quantiles(readOnMs)} |
| a run of two that are killed at once, the one that watches among them | ${quantiles(together.takenUpMs)} |
| a process that was asked to end is there after its last byte for | ${quantiles(overdue)} |`)
  for (const problem of problems) console.log(`\nPROBLEM ${problem}`)
  if (problems.length > 0) process.exitCode = 1
} finally {
  await fleet.close()
  await removeServers()
}
