import { join } from 'node:path'
import { launch, type Launched } from '../launch.ts'
import { measureLoad } from '../load.ts'
import { cpuNs } from '../process-stats.ts'
import { measureCompletions } from './completion-load.ts'
import type { ReadCpu } from './cpu-shares.ts'
import type { Effort } from './measure-rates.ts'
import type { Tenant } from './tenant.ts'

/** Milliseconds of CPU per run, one number per round. */
export type CostRounds = { readonly selfHosted: readonly number[]; readonly hosted: readonly number[] }

/** How the deltas of an answer come. */
export type Delivery = {
  readonly name: string
  /** Milliseconds between two of them; 0: all at once. */
  readonly paceMs: number
  /** Runs at a time. */
  readonly concurrency: number
}

const DELTAS = 50
/** Between two measurements, for what the one before has left to do. */
const PAUSE_MS = 500

export function startSelfHosted(upstream: Launched): Promise<Launched> {
  const model = { OPENAI_BASE_URL: `http://127.0.0.1:${upstream.port}/v1`, OPENAI_API_KEY: 'sk-bench' }
  return launch({ script: join(import.meta.dirname, '..', 'server.ts'), environment: model })
}

/** What the same run costs both servers, without the database's part, in turn. */
export async function measureCost(
  selfHosted: Launched,
  { tenant, readCpu }: { readonly tenant: Tenant; readonly readCpu: ReadCpu },
  { concurrency }: Delivery,
  effort: Effort,
): Promise<CostRounds> {
  const rounds = { selfHosted: [] as number[], hosted: [] as number[] }
  const { warmUpRuns, warmUpMs } = effort
  const measureMs = effort.measureMs / 2
  await costOfSelfHosted(selfHosted, { concurrency, warmUpMs: warmUpMs / 2, measureMs })
  await costOfHosted(tenant, readCpu, { concurrency, warmUpRuns, warmUpMs, measureMs })
  for (let round = 0; round < effort.rounds; round++) {
    const times = { concurrency, warmUpMs: PAUSE_MS, measureMs }
    rounds.selfHosted.push(await costOfSelfHosted(selfHosted, times))
    rounds.hosted.push(await costOfHosted(tenant, readCpu, { ...times, warmUpRuns: 50 }))
  }
  return rounds
}

type Times = { readonly concurrency: number; readonly warmUpMs: number; readonly measureMs: number }

async function costOfSelfHosted({ port, pid }: Launched, times: Times): Promise<number> {
  const target = {
    port,
    path: '/demo/get_response_stream',
    body: JSON.stringify({ message: 'What is the weather in Paris?' }),
    endMark: 'event: end',
    failMark: '{"data":{"type":"error"',
  }
  const readCpuNs = (): number => cpuNs(pid)
  const result = await measureLoad(target, { ...times, deltas: DELTAS, readCpuNs })
  if (result.broken > 0) throw new Error(`a stream of the self-hosted server broke: ${result.firstProblem}`)
  return result.cpuNs / 1e6 / result.streams
}

async function costOfHosted(
  tenant: Tenant,
  readCpu: ReadCpu,
  times: Times & { readonly warmUpRuns: number },
): Promise<number> {
  let before = 0
  let after = 0
  const { runs } = await measureCompletions(tenant, {
    ...times,
    allowances: false,
    turns: 1,
    onPhase: (phase) => {
      if (phase === 'begin') before = readCpu().serverNs
      else after = readCpu().serverNs
    },
  })
  return (after - before) / 1e6 / runs
}
