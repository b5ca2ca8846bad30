import { median } from '../process-stats.ts'
import { commit, machine, row } from '../report.ts'
import type { Engine } from './engines.ts'
import type { CostRounds } from './measure-cost.ts'
import type { Rates } from './measure-rates.ts'

type MeasuredRates = { readonly name: string; readonly hasTarget: boolean; readonly rates: Rates }

export type EngineResults = {
  readonly engine: Engine
  readonly rates: readonly MeasuredRates[]
  readonly lookUpsPerSecond: number
  /** By how the deltas came. */
  readonly costs: readonly { readonly name: string; readonly rounds: CostRounds }[]
}

const RATE_TARGETS: Readonly<Record<Engine, number>> = { embedded: 100, PostgreSQL: 250 }
const COST_TARGET = 2
const COST_GOAL = 1.4

/** The results as Markdown, with all that is needed to judge and repeat them. */
export function report(results: readonly EngineResults[], command: string): string {
  return [
    `Command: \`${command}\``,
    `Date: ${new Date().toISOString().slice(0, 10)}, commit ${commit()}`,
    `Machine: ${machine()}, Node ${process.versions.node}; server, database, provider and load share it.`,
    '',
    '| completions, 5 deltas, read to `end` | runs/s | target | admission p50 / p99 | CPU per run: server | database | provider and load | runs/s that a core of its own would allow the server | others on the machine |',
    '|---|---|---|---|---|---|---|---|---|',
    ...results.flatMap(({ engine, rates }) => rates.map((each) => rateRow(engine, each))),
    '',
    '| status look-ups | per second |',
    '|---|---|',
    ...results.map(({ engine, lookUpsPerSecond }) => row([engine, lookUpsPerSecond.toFixed(0)])),
    '',
    '| CPU per run of 50 deltas, database excluded | self-hosted | hosted | multiple | target / goal |',
    '|---|---|---|---|---|',
    ...results.flatMap(({ engine, costs }) => costs.map(({ name, rounds }) => costRow(`${engine}, ${name}`, rounds))),
  ].join('\n')
}

function rateRow(engine: Engine, { name, hasTarget, rates }: MeasuredRates): string {
  const { perSecond, admissionMs, serverMs, databaseMs, outsideMs, foreignShare } = rates
  const target = RATE_TARGETS[engine]
  return row([
    `${engine}, ${name}`,
    `**${perSecond.toFixed(0)}**`,
    hasTarget ? `${target} ${perSecond >= target ? 'met' : 'MISSED'}` : '-',
    `${quantile(admissionMs, 0.5).toFixed(1)} / ${quantile(admissionMs, 0.99).toFixed(1)} ms`,
    `${serverMs.toFixed(2)} ms`,
    `${databaseMs.toFixed(2)} ms`,
    `${outsideMs.toFixed(2)} ms`,
    (1_000 / serverMs).toFixed(0),
    `${(foreignShare * 100).toFixed(0)} %`,
  ])
}

function costRow(name: string, { selfHosted, hosted }: CostRounds): string {
  const multiple = median(hosted.map((cost, round) => cost / (selfHosted[round] ?? Number.NaN)))
  const verdict = multiple <= COST_TARGET ? 'met' : 'MISSED'
  return row([
    name,
    `${median(selfHosted).toFixed(3)} ms`,
    `${median(hosted).toFixed(3)} ms`,
    `**${multiple.toFixed(2)}**`,
    `${COST_TARGET.toFixed(1)} / ${COST_GOAL.toFixed(1)} ${verdict}`,
  ])
}

function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
}
