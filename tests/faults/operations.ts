import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Engine, Installation } from './installation.ts'
import { ONE, within } from './plan.ts'
import { Tenant } from './tenant.ts'
import { oneRound } from './traffic.ts'

/** When an operation occurs: on an empty database only, at every start, or while the process serves. */
type Occurrence = 'first start' | 'start' | 'serving'

export type Occurring = { readonly operation: string; readonly when: Occurrence; readonly times: number }

const SOURCES = fileURLToPath(new URL('../../packages/platform/src', import.meta.url))
const TIMED = ['beatReplica', 'findDueWork', 'listOwnRuns', 'settleDelivery']
const TIMERS_MS = 30_000

/** Operations of running runs and admissions that a round of traffic on one process cannot show, and why. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  declareDead: 'the plans that stop a process for longer than its lease, and that kill one of two',
  endSession: 'the plan that stops a process for longer than its lease',
  expireApprovals: 'the plan in which nobody decides in time',
  listOverdueRuns: 'the same',
  releaseRun: 'the plan that stops a process in order',
  setReplicaState: 'the plan that stops a process in order',
  readLeftOut: 'agencies that sum long chats up: tests/platform/history-summary.test.ts',
  keepSummary: 'the same',
  takeLease: 'tool servers that ask users to sign in: tests/oauth',
  renewLease: 'the same',
  releaseLease: 'the same',
}

type Watched = {
  readonly occurring: readonly Occurring[]
  /** Operations of runs and admissions that exist and that the traffic does not reach. */
  readonly missing: readonly string[]
}

/** What the database is asked for in the life of an installation: watched, not listed by hand. */
export async function watchOperations(engine: Engine, random: () => number): Promise<Watched> {
  const installation = await Installation.open({ engine, ...ONE })
  try {
    const [first] = installation.processes
    const firstStart = new Map(first!.starting)
    const tenant = await Tenant.create(installation)
    const consumerId = await tenant.addConsumer()
    await addWebhook(tenant)
    const lost = tenant.send(tenant.ask({ consumerId, behaviour: 'hold' }))
    await lost.speaking
    await installation.restart(0)
    const process = installation.processes[0]!
    await oneRound({ random, installation, tenant, object: () => {} }, consumerId)
    // A run that is there when the process looks after those that it has had for a while.
    await tenant.send(tenant.ask({ consumerId, behaviour: 'hold' })).speaking
    const timed = [...TIMED, ...(engine === 'postgres' ? ['listPulses'] : [])]
    await within(Promise.all(timed.map((name) => process.reached(name))), TIMERS_MS)
    const occurring = [
      ...[...process.serving].map(([operation, times]) => ({ operation, times, when: 'serving' as const })),
      ...[...process.starting].map(([operation, times]) => ({ operation, times, when: 'start' as const })),
      ...[...firstStart].map(([operation, times]) => ({ operation, times, when: 'first start' as const })),
    ]
    const firstOf = (operation: string): number => occurring.findIndex((each) => each.operation === operation)
    const once = occurring.filter(({ operation }, at) => firstOf(operation) === at)
    return { occurring: once, missing: missingOf(engine, new Set(once.map(({ operation }) => operation))) }
  } finally {
    await installation.close()
  }
}

/** Nobody listens there: deliveries are tried, fail, and are kept. */
export async function addWebhook(tenant: Tenant): Promise<void> {
  const hook = { url: 'https://127.0.0.1/hook', events: ['run.completed', 'run.failed', 'run.cancelled'] }
  const added = await tenant.call('POST', '/v1/webhook_endpoints', hook)
  if (added.status !== 201) throw new Error(`no webhook endpoint: ${JSON.stringify(added.body)}`)
}

function missingOf(engine: Engine, occurring: ReadonlySet<string>): string[] {
  const ofOtherEngine = engine === 'embedded' ? 'listPulses' : 'declareOthersDead'
  return operationsOfRuns().filter((name) => !occurring.has(name) && !(name in ELSEWHERE) && name !== ofOtherEngine)
}

/** The names of all operations in the lanes of runs and admissions, from their declarations. */
export function operationsOfRuns(): string[] {
  const declaration = /name: '(\w+)', lane: '(?:run|admission)'/g
  const files = globSync('**/*.ts', { cwd: SOURCES }).filter(
    (file) => !/\.(test|contract|test-[a-z-]+)\.ts$/.test(file),
  )
  return files.flatMap((file) => {
    const matches = readFileSync(path.join(SOURCES, file), 'utf8').matchAll(declaration)
    return [...matches].map(([, name = '']) => name)
  })
}
