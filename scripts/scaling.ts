/**
 * What an installation of the platform carries, from what its parts were measured to cost, and which part is full first.
 *
 * `npm run scaling [-- --seconds 20 --deltas 300 --plain]`: how long a run takes, in how many deltas its answer comes, and
 * whether runs are charged to no allowance. docs/scaling.md explains the figures and shows what this prints.
 */
import { readOptions } from './read-options.ts'

/** CPU in milliseconds on the machines of docs/performance.md, unless a name says otherwise. */
const COST = {
  /** A run of five deltas on PostgreSQL: of the process, of PostgreSQL, and of PostgreSQL when it is charged. */
  processPerRun: 2.84,
  databasePerRun: 2.74,
  databasePerChargedRun: 4.46,
  /** A delta that comes alone: 50 of them cost a self-hosted run 2.82 ms, and none 0.73. */
  processPerDelta: 0.042,
  /** The log of a run is stored once a second, in a small transaction. */
  databasePerSecondOfRun: 0.42,
  /** An idle process, for each second. */
  processIdle: 2.7,
  databaseIdle: 0.5,
  kilobytesPerStream: 60,
  /** A run of 500 deltas leaves 20 KB in Redis, until two minutes after its end. */
  redisKilobytesPerDelta: 0.04,
  redisSecondsAfterEnd: 120,
  /** Deltas are gathered for 50 ms: what comes is an entry of the log at most 20 times a second. */
  redisEntriesPerSecond: 20,
  /** Where many come at once, as they do where it matters. */
  redisPerEntry: 0.006,
}

/** What one installation is taken to have: assumptions, to be replaced by one's own. */
const PARTS = {
  processesPerMachine: 2,
  gigabytesPerMachine: 8,
  /** More than this of a core, and waiting times grow faster than the load: see the second table. */
  busyShare: 0.6,
  databaseCores: 64,
  databaseConnections: 2_000,
  connectionsPerProcess: 6,
  redisGigabytes: 64,
  /** It uses one. */
  redisCores: 1,
}

type Load = { readonly seconds: number; readonly deltas: number; readonly isCharged: boolean }
type Need = { readonly what: string; readonly needed: number; readonly available: number; readonly unit: string }

/** Runs a second that the processes of so many machines carry. */
function runsPerSecond(machines: number, { deltas }: Load): number {
  const processes = machines * PARTS.processesPerMachine
  const perRun = COST.processPerRun + deltas * COST.processPerDelta
  return (processes * (PARTS.busyShare * 1_000 - COST.processIdle)) / perRun
}

/** What everybody shares, and what the machines themselves need, for all runs that their processes carry. */
function needsOf(machines: number, load: Load): Need[] {
  const { seconds, deltas, isCharged } = load
  const rate = runsPerSecond(machines, load)
  const processes = machines * PARTS.processesPerMachine
  const perRun = (isCharged ? COST.databasePerChargedRun : COST.databasePerRun) + seconds * COST.databasePerSecondOfRun
  const databaseMs = rate * perRun + processes * COST.databaseIdle
  const kept = rate * deltas * COST.redisKilobytesPerDelta * (seconds / 2 + COST.redisSecondsAfterEnd)
  const entries = rate * Math.min(deltas, seconds * COST.redisEntriesPerSecond)
  const streams = (rate * seconds * COST.kilobytesPerStream) / machines
  return [
    { what: 'memory of a machine', needed: streams / 1e6, available: PARTS.gigabytesPerMachine, unit: 'GB' },
    {
      what: 'PostgreSQL, CPU',
      needed: databaseMs / 1_000 / PARTS.busyShare,
      available: PARTS.databaseCores,
      unit: 'cores',
    },
    {
      what: 'PostgreSQL, connections',
      needed: processes * PARTS.connectionsPerProcess,
      available: PARTS.databaseConnections,
      unit: '',
    },
    { what: 'Redis, memory', needed: kept / 1e6, available: PARTS.redisGigabytes, unit: 'GB' },
    {
      what: 'Redis, CPU',
      needed: (entries * COST.redisPerEntry) / 1_000 / PARTS.busyShare,
      available: PARTS.redisCores,
      unit: 'cores',
    },
  ]
}

/** The cells of an installation: so many that nothing that is shared has more to do than it can. */
function cellsOf(needs: readonly Need[]): number {
  return Math.max(...needs.map(({ needed, available }) => Math.ceil(needed / available)))
}

function describeMachines(load: Load): string {
  const rows = [1, 10, 100, 1_000].map((machines) => {
    const needs = needsOf(machines, load)
    const fullest = needs.reduce((a, b) => (b.needed / b.available > a.needed / a.available ? b : a))
    const rate = runsPerSecond(machines, load)
    return [
      number(machines),
      number(rate),
      number(rate * load.seconds),
      ...needs.slice(1).map(({ needed, unit }) => `${number(needed)} ${unit}`.trim()),
      `${fullest.what} (${number((100 * fullest.needed) / fullest.available)} %)`,
      number(cellsOf(needs)),
    ]
  })
  const head = ['machines', 'runs/s', 'at once', 'PostgreSQL', 'connections', 'Redis', '', 'fullest', 'cells']
  return table([head, ...rows])
}

const DATABASE_CORES = 4
const SIMULATED_RUNS = 40_000

/** Waiting times at a database of four cores: runs come at random, and each needs three transactions there. */
function describeWaiting(load: Load): string {
  const perRun = load.isCharged ? COST.databasePerChargedRun : COST.databasePerRun
  const rows = [0.3, 0.6, 0.8, 0.9, 0.95].map((busy) => {
    const waits = simulateWaits(perRun / 3, busy)
    const rate = (busy * DATABASE_CORES * 1_000) / perRun
    return [
      `${Math.round(busy * 100)} %`,
      number(rate),
      ...[0.5, 0.99].map((p) => `${quantile(waits, p).toFixed(1)} ms`),
    ]
  })
  return table([['busy', 'runs/s', 'a transaction waits, p50', 'p99'], ...rows])
}

/** One line for whoever comes first; each core takes the next. Times of arrival and of work are random, the same ones each time. */
function simulateWaits(meanMs: number, busy: number): number[] {
  const random = seededRandom(1)
  const exponential = (mean: number): number => -mean * Math.log(1 - random())
  const freeAt = Array.from({ length: DATABASE_CORES }, () => 0)
  const waits: number[] = []
  let now = 0
  for (let transaction = 0; transaction < SIMULATED_RUNS * 3; transaction++) {
    now += exponential(meanMs / (DATABASE_CORES * busy))
    const core = freeAt.indexOf(Math.min(...freeAt))
    const begins = Math.max(now, freeAt[core]!)
    waits.push(begins - now)
    freeAt[core] = begins + exponential(meanMs)
  }
  return waits.toSorted((a, b) => a - b)
}

const quantile = (sorted: readonly number[], p: number): number => sorted[Math.floor(p * (sorted.length - 1))]!

/** Numbers from 0 to 1 that are the same for each start: a linear congruential generator. */
function seededRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32
    return state / 2 ** 32
  }
}

/** With three significant digits at most. */
const number = (value: number): string => Number(value.toPrecision(value < 1_000 ? 2 : 3)).toLocaleString('en-US')

function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

const values = readOptions(import.meta.filename, {
  seconds: { type: 'string', default: '20' },
  deltas: { type: 'string', default: '300' },
  plain: { type: 'boolean', default: false },
})
const load: Load = { seconds: Number(values.seconds), deltas: Number(values.deltas), isCharged: !values.plain }
if (!(load.seconds > 0 && load.deltas >= 0)) throw new Error('--seconds and --deltas are numbers above 0.')
console.log(
  `Runs of ${load.seconds} s with ${load.deltas} deltas${load.isCharged ? ', each charged to an allowance' : ''}`,
)
console.log(`\n${describeMachines(load)}`)
console.log(`\nWaiting for PostgreSQL on ${DATABASE_CORES} cores\n\n${describeWaiting(load)}`)
