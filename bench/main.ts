/**
 * Measures what a stream costs a Bureau server, as multiples of a plain byte proxy on the same machine in the same run.
 * Run: npm run bench (about eight minutes) or npm run bench -- --quick (20 seconds, rougher). Linux only.
 * `--only <words>` measures the scenarios whose names have these words, and nothing else.
 * `--redis <url>` runs the server with that REDIS_URL; `--server <script>` measures another server of the same routes.
 */
import { join } from 'node:path'
import { HAS_TASKSET, launch, moveToCore, stopAll, type Launched } from './launch.ts'
import {
  measureCpu,
  measureFirstDelta,
  measureFresh,
  start,
  type Candidate,
  type Effort,
  type Fresh,
} from './measure.ts'
import { report, type CpuResult, type Results } from './report.ts'
import { SCENARIOS } from './scenarios.ts'
import { readOptions } from '../scripts/read-options.ts'

const LOAD_CORE = 1
const TIME_LIMIT_MS = 900_000

const FULL: Effort = {
  rounds: 5,
  warmUp: { pieceMs: 1500, pieces: 16 },
  warmUpMs: 200,
  measureMs: 1200,
  freshRounds: 3,
  // Many, because V8's young generation grows once while they are opened, whatever their number.
  heldStreams: 4000,
}
const QUICK: Effort = {
  rounds: 3,
  warmUp: { pieceMs: 500, pieces: 1 },
  warmUpMs: 50,
  measureMs: 250,
  freshRounds: 1,
  heldStreams: 500,
}

const here = (file: string): string => join(import.meta.dirname, file)

const values = readOptions(import.meta.filename, {
  quick: { type: 'boolean' },
  only: { type: 'string' },
  redis: { type: 'string' },
  server: { type: 'string' },
})

const PROXY: Candidate = {
  name: 'proxy',
  script: here('byte-proxy.ts'),
  endMark: '"type":"response.completed"',
  failMark: '"type":"response.failed"',
  environment: {},
}
const SERVER: Candidate = {
  name: 'server',
  script: values.server ?? here('server.ts'),
  endMark: 'event: end',
  failMark: '{"data":{"type":"error"',
  environment: values.redis ? { REDIS_URL: values.redis } : {},
}

const scenarios = SCENARIOS.filter(({ name }) => name.includes(values.only ?? ''))

async function measure(upstream: Launched, effort: Effort): Promise<Results> {
  const context = { upstream, effort }
  const candidates = [await start(PROXY, upstream), await start(SERVER, upstream)]
  const cpu: CpuResult[] = []
  for (const scenario of scenarios) {
    console.error(`measuring ${scenario.name}`)
    cpu.push({ scenario, rounds: await measureCpu(scenario, candidates, context) })
  }
  if (values.only !== undefined) return { cpu }
  console.error('measuring time to first delta')
  const firstDelta = await measureFirstDelta(candidates, context)
  await Promise.all(candidates.map(({ launched }) => launched.stop()))
  const fresh: Record<Candidate['name'], Fresh[]> = { proxy: [], server: [] }
  for (let round = 0; round < effort.freshRounds; round++) {
    console.error(`measuring start-up and memory, round ${round + 1}`)
    for (const candidate of [PROXY, SERVER]) fresh[candidate.name].push(await measureFresh(candidate, context))
  }
  return { cpu, firstDelta, fresh }
}

const effort = values.quick ? QUICK : FULL
const limit = setTimeout(() => {
  console.error(`Not finished after ${TIME_LIMIT_MS / 1000} seconds.`)
  void stopAll().then(() => process.exit(1))
}, TIME_LIMIT_MS)
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void stopAll().then(() => process.exit(1)))
}

moveToCore(LOAD_CORE)
try {
  const upstream = await launch({ script: here('upstream.ts'), core: LOAD_CORE })
  const results = await measure(upstream, effort)
  const command = ['npm run bench --', ...process.argv.slice(2)].join(' ').replace(/ --$/, '')
  console.log(report(results, { command, rounds: effort.rounds, pinned: HAS_TASKSET }))
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
} finally {
  clearTimeout(limit)
  await stopAll()
}
