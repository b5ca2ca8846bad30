import { execFileSync } from 'node:child_process'
import { cpus, totalmem } from 'node:os'
import type { CpuRounds, Fresh } from './measure.ts'
import { median } from './process-stats.ts'
import type { Scenario } from './scenarios.ts'

export type CpuResult = { readonly scenario: Scenario; readonly rounds: CpuRounds }

export type Results = {
  readonly cpu: readonly CpuResult[]
  /** These are absent where only single scenarios were measured. */
  readonly firstDelta?: CpuRounds
  readonly fresh?: { readonly proxy: readonly Fresh[]; readonly server: readonly Fresh[] }
}

/** The results as Markdown, with all that is needed to judge and repeat them. */
export function report(results: Results, about: { command: string; rounds: number; pinned: boolean }): string {
  return [
    `Command: \`${about.command}\``,
    `Date: ${new Date().toISOString().slice(0, 10)}, commit ${commit()}`,
    `Machine: ${machine()}, Node ${process.versions.node}`,
    `Medians of ${about.rounds} interleaved rounds; ${about.pinned ? 'server on one core, load on another' : 'cores not pinned'}.`,
    '',
    ...cpuTable(results.cpu),
    ...otherTable(results),
  ].join('\n')
}

function cpuTable(results: readonly CpuResult[]): readonly string[] {
  return [
    '| CPU per stream of `get_response_stream` | byte proxy | Bureau | per delta | **multiple** | first target / goal |',
    '|---|---|---|---|---|---|',
    ...results.map(({ scenario, rounds }) => {
      const [proxy, server] = [median(rounds.proxy), median(rounds.server)]
      const perDelta = `${number((server * 1000) / scenario.answering.deltas)} us`
      const targets = scenario.targets ? scenario.targets.map((target) => target.toFixed(1)).join(' / ') : '-'
      const multiple = number(median(ratios(rounds)))
      return row([scenario.name, `${number(proxy)} ms`, `${number(server)} ms`, perDelta, `**${multiple}**`, targets])
    }),
  ]
}

function otherTable({ firstDelta, fresh }: Results): readonly string[] {
  if (!firstDelta || !fresh) return []
  const of = (name: 'proxy' | 'server', field: keyof Fresh): number => median(fresh[name].map((each) => each[field]))
  const line = (title: string, field: keyof Fresh, [size, unit]: Unit, targets = '-'): string => {
    const [proxy, server] = [of('proxy', field) / size, of('server', field) / size]
    const more = number(server - proxy)
    return row([title, `${number(proxy)} ${unit}`, `${number(server)} ${unit}`, `${more} ${unit}`, targets])
  }
  const [proxy, server] = [median(firstDelta.proxy), median(firstDelta.server)]
  const added = number(median(firstDelta.server.map((ms, round) => ms - (firstDelta.proxy[round] ?? Number.NaN))))
  return [
    '',
    '| | byte proxy | Bureau | added | first target / goal |',
    '|---|---|---|---|---|',
    row(['time to first delta, idle, p50', `${number(proxy)} ms`, `${number(server)} ms`, `${added} ms`, '3 / 1 ms']),
    line('memory per open idle stream', 'bytesPerStream', [1024, 'KB'], '60 / 25 KB'),
    line('of that, heap', 'heapPerStream', [1024, 'KB']),
    line('spawn to ready', 'startUpMs', [1, 'ms']),
    line('resident when idle', 'idleBytes', [1024 * 1024, 'MB']),
  ]
}

type Unit = readonly [size: number, name: string]

export const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`

const number = (value: number): string => (Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3))

const ratios = ({ proxy, server }: CpuRounds): readonly number[] =>
  server.map((value, round) => value / (proxy[round] ?? Number.NaN))

export function machine(): string {
  const processors = cpus()
  const gigabytes = Math.round(totalmem() / 1024 ** 3)
  return `${processors[0]?.model.trim() ?? 'unknown processor'}, ${processors.length} cores, ${gigabytes} GB`
}

export function commit(): string {
  try {
    return execFileSync('git', ['describe', '--always', '--dirty'], { encoding: 'utf8' }).trim()
  } catch {
    return 'unknown'
  }
}
