/**
 * Measures the hosted platform: runs per second through the whole route, status look-ups, and what a run costs more than
 * on the self-hosted server. The server is a process of its own, the provider a stand-in, everything on loopback.
 * Run: npm run bench:platform, or with -- --quick (rougher), -- --engine embedded or PostgreSQL. Linux only.
 * PostgreSQL: TEST_DATABASE_URL, in a schema of its own that is dropped afterwards.
 */
import { join } from 'node:path'
import { launch, type Launched, stopAll } from '../launch.ts'
import type { Answering } from '../scenarios.ts'
import { type Engine, startPlatform } from './engines.ts'
import { type Delivery, measureCost, startSelfHosted } from './measure-cost.ts'
import { CONCURRENCY, type Effort, measureLookUps, measureRates, type RateScenario } from './measure-rates.ts'
import { type EngineResults, report } from './report.ts'
import { openTenant } from './tenant.ts'
import { readOptions } from '../../scripts/read-options.ts'

const TIME_LIMIT_MS = 420_000
/** What a server compiles for its first runs would count for the others. */
const WARM_UP: Effort = { warmUpRuns: 4_000, warmUpMs: 25_000, measureMs: 100, rounds: 0 }
const FULL: Effort = { warmUpRuns: 400, warmUpMs: 4_000, measureMs: 5_000, rounds: 5 }
const QUICK: Effort = { warmUpRuns: 200, warmUpMs: 2_000, measureMs: 2_000, rounds: 3 }

const SCENARIOS: readonly (RateScenario & { readonly rounds?: Answering['rounds'] })[] = [
  { name: 'a chat each', allowances: false, turns: 1 },
  {
    name: 'a chat each, a tool round',
    allowances: false,
    turns: 1,
    rounds: [[{ name: 'get_weather', arguments: '{"city":"Paris"}' }]],
  },
  { name: 'a chat each, allowances', allowances: true, turns: 1 },
  { name: '10 turns in a chat, allowances', allowances: true, turns: 10 },
]

/** A burst costs the least. Providers send each delta when they have it: as many runs at once as keep a core busy then. */
const DELIVERIES: readonly Delivery[] = [
  { name: 'in a burst', paceMs: 0, concurrency: 8 },
  { name: 'one by one', paceMs: 2, concurrency: 32 },
]

const values = readOptions(import.meta.filename, { quick: { type: 'boolean' }, engine: { type: 'string' } })
const engines = (['embedded', 'PostgreSQL'] as const).filter((name) => !values.engine || values.engine === name)
const effort = values.quick ? QUICK : FULL

async function measure(engine: Engine, upstream: Launched): Promise<EngineResults> {
  console.error(`starting the platform, ${engine}`)
  const running = await startPlatform(engine, upstream)
  try {
    const tenant = await openTenant(running.launched, CONCURRENCY)
    await setAnswering(upstream, { deltas: 5 })
    console.error(`warming up ${engine}`)
    await measureRates(SCENARIOS[2]!, { tenant, upstream, readCpu: await running.cpuReader() }, WARM_UP)
    const readCpu = await running.cpuReader()
    const rates = []
    for (const scenario of SCENARIOS) {
      console.error(`measuring ${engine}, ${scenario.name}`)
      await setAnswering(upstream, { deltas: 5, rounds: scenario.rounds ?? [] })
      const hasTarget = !scenario.rounds
      rates.push({
        name: scenario.name,
        hasTarget,
        rates: await measureRates(scenario, { tenant, upstream, readCpu }, effort),
      })
    }
    const requestIds = rates[0]?.rates.requestIds ?? []
    const lookUpsPerSecond = await measureLookUps(tenant, requestIds, effort)
    const selfHosted = await startSelfHosted(upstream)
    const costs = []
    for (const delivery of DELIVERIES) {
      console.error(`measuring ${engine}, cost of a run ${delivery.name}`)
      await setAnswering(upstream, { deltas: 50, paceMs: delivery.paceMs })
      costs.push({ name: delivery.name, rounds: await measureCost(selfHosted, { tenant, readCpu }, delivery, effort) })
    }
    await selfHosted.stop()
    return { engine, rates, lookUpsPerSecond, costs }
  } finally {
    await running.stop()
  }
}

async function setAnswering(upstream: Launched, parts: Partial<Answering>): Promise<void> {
  const answering: Answering = { rounds: [], deltas: 5, paceMs: 0, holdAfter: null, ...parts }
  const url = `http://127.0.0.1:${upstream.port}/answering`
  await fetch(url, { method: 'PUT', body: JSON.stringify(answering), signal: AbortSignal.timeout(5_000) })
}

const limit = setTimeout(() => {
  console.error(`Not finished after ${TIME_LIMIT_MS / 1_000} seconds.`)
  void stopAll().then(() => process.exit(1))
}, TIME_LIMIT_MS)
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void stopAll().then(() => process.exit(1)))
}

try {
  const upstream = await launch({ script: join(import.meta.dirname, '..', 'upstream.ts') })
  const results: EngineResults[] = []
  for (const engine of engines) results.push(await measure(engine, upstream))
  const command = ['npm run bench:platform --', ...process.argv.slice(2)].join(' ').replace(/ --$/, '')
  console.log(report(results, command))
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
} finally {
  clearTimeout(limit)
  await stopAll()
}
