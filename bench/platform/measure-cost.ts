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

const CONCURRENCY = 8
const DELTAS = 50

export function startSelfHosted(upstream: Launched): Promise<Launched> {
  const model = { OPENAI_BASE_URL: `http://127.0.0.1:${upstream.port}/v1`, OPENAI_API_KEY: 'sk-bench' }
  return launch({ script: join(import.meta.dirname, '..', 'server.ts'), environment: model })
}

/** What the same run costs both servers, without the database's part; one round more warms them up. */
export async function measureCost(
  selfHosted: Launched,
  { tenant, readCpu }: { readonly tenant: Tenant; readonly readCpu: ReadCpu },
  effort: Effort,
): Promise<CostRounds> {
  const rounds = { selfHosted: [] as number[], hosted: [] as number[] }
  for (let round = 0; round <= effort.rounds; round++) {
    const warmUpMs = round === 0 ? effort.warmUpMs : effort.warmUpMs / 8
    const measureMs = effort.measureMs / 2
    const costs = {
      selfHosted: await costOfSelfHosted(selfHosted, warmUpMs, measureMs),
      hosted: await costOfHosted(tenant, readCpu, { warmUpMs, measureMs }),
    }
    if (round === 0) continue
    rounds.selfHosted.push(costs.selfHosted)
    rounds.hosted.push(costs.hosted)
  }
  return rounds
}

async function costOfSelfHosted({ port, pid }: Launched, warmUpMs: number, measureMs: number): Promise<number> {
  const target = {
    port,
    path: '/demo/get_response_stream',
    body: JSON.stringify({ message: 'What is the weather in Paris?' }),
    endMark: 'event: end',
    failMark: '{"data":{"type":"error"',
  }
  const readCpuNs = (): number => cpuNs(pid)
  const load = { concurrency: CONCURRENCY, deltas: DELTAS, warmUpMs, measureMs, readCpuNs }
  const result = await measureLoad(target, load)
  if (result.broken > 0) throw new Error(`a stream of the self-hosted server broke: ${result.firstProblem}`)
  return result.cpuNs / 1e6 / result.streams
}

async function costOfHosted(
  tenant: Tenant,
  readCpu: ReadCpu,
  times: { readonly warmUpMs: number; readonly measureMs: number },
): Promise<number> {
  let before = 0
  let after = 0
  const { runs } = await measureCompletions(tenant, {
    ...times,
    concurrency: CONCURRENCY,
    allowances: false,
    turns: 1,
    onPhase: (phase) => {
      if (phase === 'begin') before = readCpu().serverNs
      else after = readCpu().serverNs
    },
  })
  return (after - before) / 1e6 / runs
}
