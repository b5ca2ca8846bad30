import { request, Agent as HttpAgent } from 'undici'
import type { Launched } from '../launch.ts'
import { pause } from '../load.ts'
import { cpuNs } from '../process-stats.ts'
import { type CompletionLoad, measureCompletions } from './completion-load.ts'
import { type CpuShares, machineNs, type ReadCpu } from './cpu-shares.ts'
import type { Tenant } from './tenant.ts'

/** How long each measurement takes. A warm-up ends after so many runs or, on a busy machine, after that time. */
export type Effort = {
  readonly warmUpRuns: number
  readonly warmUpMs: number
  readonly measureMs: number
  readonly rounds: number
}

export type RateScenario = Pick<CompletionLoad, 'allowances' | 'turns'> & { readonly name: string }

export type Rates = {
  readonly perSecond: number
  readonly admissionMs: readonly number[]
  /** Milliseconds of CPU per run. */
  readonly serverMs: number
  readonly databaseMs: number
  /** Provider and load. */
  readonly outsideMs: number
  /** Part of the machine's working time that went to processes that have nothing to do with this. */
  readonly foreignShare: number
  readonly requestIds: readonly string[]
}

export const CONCURRENCY = 24

/** Admitted and finished runs per second through the whole route, over HTTP. */
export async function measureRates(
  scenario: RateScenario,
  { tenant, upstream, readCpu }: { tenant: Tenant; upstream: Launched; readCpu: ReadCpu },
  { warmUpRuns, warmUpMs, measureMs }: Effort,
): Promise<Rates> {
  const read = (): CpuShares & { outsideNs: number; machineNs: number } => ({
    ...readCpu(),
    outsideNs: cpuNs(process.pid) + cpuNs(upstream.pid),
    machineNs: machineNs(),
  })
  let before = read()
  let after = before
  const result = await measureCompletions(tenant, {
    ...scenario,
    concurrency: CONCURRENCY,
    warmUpRuns,
    warmUpMs,
    measureMs,
    onPhase: (phase) => {
      if (phase === 'begin') before = read()
      else after = read()
    },
  })
  const perRun = (ns: number): number => ns / 1e6 / result.runs
  const serverNs = after.serverNs - before.serverNs
  const databaseNs = after.databaseNs - before.databaseNs
  const outsideNs = after.outsideNs - before.outsideNs
  const allNs = after.machineNs - before.machineNs
  return {
    perSecond: result.runs / result.seconds,
    admissionMs: result.admissionMs,
    serverMs: perRun(serverNs),
    databaseMs: perRun(databaseNs),
    outsideMs: perRun(outsideNs),
    foreignShare: Math.max(0, 1 - (serverNs + databaseNs + outsideNs) / allNs),
    requestIds: result.requestIds,
  }
}

/** Look-ups of `/v1/chat_status` per second. */
export async function measureLookUps(
  { port, token, integrations: { plain } }: Tenant,
  requestIds: readonly string[],
  { measureMs }: Effort,
): Promise<number> {
  const dispatcher = new HttpAgent({ connections: CONCURRENCY })
  const headers = { authorization: `Bearer ${token}` }
  const state = { answered: 0, over: false }
  const client = async (index: number): Promise<void> => {
    for (let at = index; !state.over; at++) {
      const id = requestIds[at % requestIds.length] ?? ''
      const url = `http://127.0.0.1:${port}/v1/chat_status?apiIntegrationId=${plain}&usageRequestId=${id}`
      const { statusCode, body } = await request(url, { headers, dispatcher })
      const text = await body.text()
      if (statusCode !== 200) throw new Error(`a look-up answered ${statusCode}: ${text}`)
      state.answered++
    }
  }
  const clients = Promise.all(Array.from({ length: CONCURRENCY }, (_, index) => client(index)))
  await Promise.race([clients, pause(measureMs / 4)])
  const [from, startedAt] = [state.answered, performance.now()]
  await Promise.race([clients, pause(measureMs)])
  const perSecond = ((state.answered - from) * 1_000) / (performance.now() - startedAt)
  state.over = true
  await clients
  await dispatcher.close()
  return perSecond
}
