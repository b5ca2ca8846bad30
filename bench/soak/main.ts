/**
 * Keeps many streams open on one server for minutes, with cancels, lost clients, slow readers and a provider that fails
 * in every way, and checks that everything comes back afterwards: memory, sockets, timers, handles, runs.
 * Run: npm run soak (5 minutes, 1,000 streams) or npm run soak -- --minutes 0.3 --streams 200. Linux only.
 * Exits with 1 when a stream ended as it must not, or something was not given back.
 */
import { Agent } from 'node:http'
import { join } from 'node:path'
import { HAS_TASKSET, launch, type Launched, moveToCore, stopAll } from '../launch.ts'
import { pause } from '../load.ts'
import { residentBytes } from '../process-stats.ts'
import { choosePlan, randomNumbers } from './plans.ts'
import { leaks, type Sample, sampleTable } from './samples.ts'
import { runStream, type Target } from './stream.ts'
import { Tally } from './tally.ts'
import { readOptions } from '../../scripts/read-options.ts'

const [SERVER_CORE, LOAD_CORE] = [0, 1]
const MAX_MINUTES = 60
const MAX_STREAMS = 5_000
/** The first streams fill caches and pools; what is held after them is the measure. */
const LONGEST_WARM_UP_MS = 6_000
/** Cancelled runs are remembered for a few seconds, so that a second cancel gets the same answer. */
const LONGEST_SETTLING_MS = 15_000

const values = readOptions(import.meta.filename, {
  minutes: { type: 'string', default: '5' },
  streams: { type: 'string', default: '1000' },
  seed: { type: 'string', default: '1' },
})
const minutes = Math.min(Number(values.minutes), MAX_MINUTES)
const streams = Math.min(Number(values.streams), MAX_STREAMS)
if (!(minutes > 0 && streams > 0)) throw new Error('--minutes and --streams are numbers above 0')

const here = (file: string): string => join(import.meta.dirname, file)

type Soak = { readonly server: Launched; readonly provider: Launched; readonly random: () => number }

/** Keeps `streams` open until the time is over, and waits for the last one. */
async function load({ server, random }: Soak, durationMs: number): Promise<{ tally: Tally; peakBytes: number }> {
  const tally = new Tally()
  const agent = new Agent({ keepAlive: true, maxSockets: Infinity })
  const target: Target = { port: server.port, agent }
  const deadline = performance.now() + durationMs
  let peakBytes = 0
  const watching = setInterval(() => {
    peakBytes = Math.max(peakBytes, residentBytes(server.pid))
  }, 500)
  const client = async (): Promise<void> => {
    // Not all in one moment.
    await pause(random() * 2_000)
    while (performance.now() < deadline) {
      const plan = choosePlan(random)
      const run = tally.begin()
      tally.end(plan, await runStream(target, { plan, run, random }))
    }
  }
  await Promise.all(Array.from({ length: streams }, client))
  clearInterval(watching)
  agent.destroy()
  return { tally, peakBytes }
}

/** What the server holds when nobody is connected to it, on either side, and it has come to rest. */
async function sampleAtRest({ server, provider }: Soak, isAtRest: (sample: Sample) => boolean): Promise<Sample> {
  await fetch(`http://127.0.0.1:${provider.port}/connections`, { method: 'DELETE' })
  const deadline = performance.now() + LONGEST_SETTLING_MS
  for (;;) {
    await pause(1_000)
    const sample = (await server.ask('sample')) as Sample
    if (isAtRest(sample) || performance.now() > deadline) return sample
  }
}

async function soak(): Promise<string[]> {
  const provider = await launch({ script: here('provider.ts'), core: LOAD_CORE })
  const model = { OPENAI_BASE_URL: `http://127.0.0.1:${provider.port}/v1`, OPENAI_API_KEY: 'sk-soak' }
  const server = await launch({ script: here('server.ts'), core: SERVER_CORE, environment: model })
  const context: Soak = { server, provider, random: randomNumbers(Number(values.seed)) }
  console.error('warming up')
  const warm = await load(context, Math.min(LONGEST_WARM_UP_MS, minutes * 30_000))
  const before = await sampleAtRest(context, ({ counts }) => counts['runs'] === 0 && counts['open answers'] === 0)
  console.error(`${streams} streams for ${minutes} minutes`)
  const { tally, peakBytes } = await load(context, minutes * 60_000)
  const after = await sampleAtRest(context, (sample) => leaks(before, sample).length === 0)
  const pinned = HAS_TASKSET ? 'server on one core, clients and provider on another' : 'cores not pinned'
  console.log(`${streams} streams at once for ${minutes} minutes, seed ${values.seed}; ${pinned}\n`)
  console.log([...tally.table(), '', ...sampleTable(before, peakBytes, after)].join('\n'))
  return [...warm.tally.problems(), ...tally.problems(), ...leaks(before, after)]
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void stopAll().then(() => process.exit(1)))
}
moveToCore(LOAD_CORE)
try {
  const problems = await soak()
  for (const problem of problems) console.log(`\nPROBLEM ${problem}`)
  if (problems.length === 0) console.log('\nEvery stream ended as it must, and everything was given back.')
  else process.exitCode = 1
} catch (error) {
  console.error(error)
  process.exitCode = 1
} finally {
  await stopAll()
}
