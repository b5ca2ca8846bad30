/**
 * npm run faults [-- options]
 *
 * Kills, stops and cuts off server processes of the hosted platform, storms them with requests, and checks after each plan that
 * nothing was lost, doubled, stuck or told wrongly. Real server processes, asked over HTTP; a stand-in for the model provider;
 * everything on loopback. Every plan once; the evidence of a broken promise stands below its line, and the exit code is 1 then.
 * See docs/reliability.md.
 *
 *   --engine <name>    embedded or postgres; default: both, PostgreSQL at TEST_DATABASE_URL
 *   --minutes <n>      so long, divided among the engines: plans that do not fit are left out, random ones fill the rest
 *   --random <n>       n kills at random moments under load instead of the plans, divided among the engines
 *   --seed <n>         repeats the choices of an earlier run; default: another one each time
 *   --only <words>     only the plans with these words in their line, e.g. "kill -9 after admitRun"
 *   --help             this text
 */
import { ENGINES } from '@bureau/platform/testing'
import { readOptions } from '../../scripts/read-options.ts'
import { closeInstallations, type Engine } from './installation.ts'
import type { PlanResult } from './plan.ts'
import { lineOf, tableOf } from './report.ts'
import { runSession } from './session.ts'

const values = readOptions(import.meta.filename, {
  engine: { type: 'string' },
  minutes: { type: 'string' },
  random: { type: 'string' },
  seed: { type: 'string' },
  only: { type: 'string', default: '' },
})
const reachable: readonly Engine[] = ENGINES.includes('postgres') ? ['embedded', 'postgres'] : ['embedded']
const engines = reachable.filter((name) => values.engine === undefined || values.engine === name)
const minutes = values.minutes === undefined ? undefined : Number(values.minutes)
const randomKills = values.random === undefined ? undefined : Math.ceil(Number(values.random) / engines.length)
const seed = values.seed === undefined ? Date.now() % 1_000_000 : Number(values.seed)
if (engines.length === 0) throw new Error('--engine is embedded or postgres, and PostgreSQL has to be there')
if (![seed, randomKills ?? 0].every(Number.isInteger) || (minutes !== undefined && !(minutes > 0)))
  throw new Error('--seed, --minutes and --random are numbers')

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void closeInstallations().finally(() => process.exit(1)))
}

let carriedOut = 0
const progress = (): string => {
  carriedOut++
  return randomKills === undefined ? `${carriedOut}` : `${carriedOut}/${randomKills * engines.length}`
}

console.log(`seed ${seed}`)
const results: PlanResult[] = []
let left = 0
for (const engine of engines) {
  const session = await runSession({
    engine,
    seed,
    isWanted: ({ title }) => title.includes(values.only),
    ...(minutes !== undefined && { until: performance.now() + (minutes * 60_000) / engines.length }),
    ...(randomKills !== undefined && { randomKills }),
    onResult: (result) => console.log(progress(), lineOf(result)),
  })
  results.push(...session.results)
  left += session.left
}
console.log(`\n${tableOf(results)}`)
if (left > 0) console.log(`\n${left} plans were left out: there was no time for them.`)
const isBroken = results.some(({ violations }) => violations.length > 0)
const random = values.random === undefined ? '' : ` --random ${values.random}`
const again = engines.length === 1 ? `--engine ${engines[0]} --seed ${seed}` : `--seed ${seed}`
console.log(
  isBroken ? `\nA promise was broken. Again: npm run faults -- ${again}${random}` : '\nEvery promise was kept.',
)
process.exitCode = isBroken ? 1 : 0
