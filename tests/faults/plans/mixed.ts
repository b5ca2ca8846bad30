import { describeFault, type Fault, TOOL } from '../fault.ts'
import { BOTH, ONE, type Plan, type Scene } from '../plan.ts'
import { killAround } from './approvals.ts'

const GROUP = 'kill -9 anywhere in a mixed run'
const POINTS = ['before', 'inside', 'after'] as const

/**
 * How often a mixed run comes to each of its moments, from its first record to its last. Its ten answers of the model and
 * what follows on them are steps: calls, begun and ended, also of another agent, and a handoff.
 */
const MOMENTS: Readonly<Record<string, number>> = {
  startRun: 1,
  recordStep: 17,
  recordWaiting: 1,
  decideApprovals: 1,
  takeUpRun: 1,
  recordOutcome: 1,
}
/** Calls of tools. */
const CALLS = 6

const FAULTS: readonly Fault[] = [
  ...Object.entries(MOMENTS).flatMap(([operation, times]) =>
    Array.from({ length: times }, (_, index) =>
      POINTS.map((point): Fault => ({ operation, point, nth: index + 1, action: 'kill' })),
    ).flat(),
  ),
  ...Array.from({ length: CALLS }, (_, index): Fault => ({
    operation: TOOL,
    point: 'inside',
    nth: index + 1,
    action: 'kill',
  })),
]

/** A run of answers, tools, a nested agent, a handoff and an approval, killed at each of its steps and inside each. */
export const MIXED_KILLS: readonly Plan[] = [
  ...FAULTS.map((fault): Plan => ({
    group: GROUP,
    title: `a mixed run: ${describeFault(fault)}`,
    scale: ONE,
    engines: BOTH,
    play: (scene) => killAround(scene, fault, 'mixed'),
  })),
  {
    group: GROUP,
    title: 'a mixed run: kill -9 while it waits for a person',
    scale: ONE,
    engines: BOTH,
    play: killWaiting,
  },
  {
    group: GROUP,
    title: 'a mixed run: kill -9 while its last answer streams',
    scale: ONE,
    engines: BOTH,
    play: killStreaming,
  },
  {
    group: GROUP,
    title: 'a mixed run without a fault comes to as many moments as are killed at',
    scale: ONE,
    engines: BOTH,
    play: countMoments,
  },
]

async function killWaiting(scene: Scene): Promise<void> {
  const { installation, tenant } = scene
  const attempt = tenant.send(tenant.ask({ consumerId: await tenant.addConsumer(), behaviour: 'mixed' }))
  await attempt.over
  await installation.restart(0)
}

async function killStreaming(scene: Scene): Promise<void> {
  const { installation, tenant, object } = scene
  const attempt = tenant.send(tenant.ask({ consumerId: await tenant.addConsumer(), behaviour: 'mixed-hold' }))
  await attempt.over
  await tenant.decide(attempt.runId!, true)
  const rest = tenant.follow(attempt.ask, attempt.runId!, attempt.lastId)
  await rest.speaking
  if (rest.outcome !== 'pending') object(`nothing streams: ${rest.outcome} ${rest.status}`)
  await installation.restart(0)
}

/** Otherwise some moments would be left out without a word. */
async function countMoments(scene: Scene): Promise<void> {
  const { installation, tenant, object } = scene
  await installation.restart(0)
  const attempt = tenant.send(tenant.ask({ consumerId: await tenant.addConsumer(), behaviour: 'mixed' }))
  await attempt.over
  await tenant.decide(attempt.runId!, true)
  await tenant.follow(attempt.ask, attempt.runId!, attempt.lastId).over
  const { serving } = installation.processes[0]!
  for (const [operation, times] of Object.entries(MOMENTS)) {
    const found = serving.get(operation)
    if (found !== times) object(`${operation} occurs ${found} times, and not ${times} times`)
  }
  const calls = installation.toolCalls.filter((call) => call.startsWith(`#${attempt.ask.number}.`))
  if (calls.length !== CALLS) object(`its tools are called ${calls.length} times, and not ${CALLS} times`)
}
