import type { Attempt } from '../attempt.ts'
import { describeFault, type Fault } from '../fault.ts'
import { APPROVED_STEP, type Behaviour, callOf } from '../model.ts'
import { BOTH, eventually, ONE, pause, type Plan, type Scene, TWO, within } from '../plan.ts'

const POINTS = ['before', 'inside', 'after'] as const
const REACH_MS = 30_000
/** Runs go on at once with a decision; when the process that got it is gone, others look every five seconds. */
const GOES_ON_MS = 15_000

/** What happens between the request for a decision and the output of the call, and the record of the step right before. */
const MOMENTS: readonly (Pick<Fault, 'operation' | 'nth'> & { readonly says: string })[] = [
  { operation: 'recordStep', nth: 2 * APPROVED_STEP - 2, says: 'before the request' },
  { operation: 'recordWaiting', nth: 1, says: 'at the request' },
  { operation: 'decideApprovals', nth: 1, says: 'at the decision' },
  { operation: 'takeUpRun', nth: 1, says: 'between the decision and the call' },
  { operation: 'startRun', nth: 1, says: 'between the decision and the call' },
  { operation: 'recordStep', nth: 2 * APPROVED_STEP - 1, says: 'as the call begins' },
  { operation: 'recordStep', nth: 2 * APPROVED_STEP, says: 'as the call has ended' },
  { operation: 'recordStep', nth: 2 * APPROVED_STEP + 1, says: 'after the call' },
]

/** A run of ten calls, about one of which a person decides: across deaths, restarts and other processes. */
export const APPROVALS: readonly Plan[] = [
  ...MOMENTS.flatMap(({ says, ...moment }) =>
    POINTS.map((point): Plan => {
      const fault: Fault = { ...moment, point, action: 'kill' }
      return {
        group: `kill -9 ${point} a step of an approval`,
        title: `a run that a person decides about is lost ${says}: ${describeFault(fault)}`,
        scale: ONE,
        engines: BOTH,
        play: (scene) => killAround(scene, fault, 'pay-steps'),
      }
    }),
  ),
  {
    group: 'approvals',
    title: 'a run waits over two deaths of its process, and is decided about then',
    scale: ONE,
    engines: BOTH,
    play: waitOverDeaths,
  },
  {
    group: 'approvals',
    title: 'nobody decides in time, and the process is dead meanwhile',
    scale: ONE,
    engines: BOTH,
    play: expireMeanwhile,
  },
  {
    group: 'approvals',
    title: 'the process that asked is killed, and the decision comes to another one',
    scale: TWO,
    engines: ['postgres'],
    play: decideElsewhere,
  },
  {
    group: 'approvals',
    title: 'the process that gets the decision is killed right after it',
    scale: TWO,
    engines: ['postgres'],
    play: loseDecider,
  },
  {
    group: 'approvals',
    title: 'two persons decide differently at two processes at once, 8 times',
    scale: TWO,
    engines: ['postgres'],
    play: decideTwice,
  },
]

async function startWaiting({ tenant, object }: Scene): Promise<Attempt> {
  const attempt = tenant.send(tenant.ask({ consumerId: await tenant.addConsumer(), behaviour: 'pay-steps' }))
  await attempt.over
  if (attempt.result?.status !== 'waiting') object(`no run waits: ${attempt.outcome} ${attempt.result?.status}`)
  return attempt
}

/** The decision that was lost on its way comes again, and is as good as the first time. */
export async function killAround(scene: Scene, fault: Fault, behaviour: Behaviour): Promise<void> {
  const { installation, tenant, object } = scene
  const [process] = installation.processes
  process!.arm(fault)
  const attempt = tenant.send(tenant.ask({ consumerId: await tenant.addConsumer(), behaviour }))
  await attempt.over
  if (!process!.isOver && attempt.runId !== null) await tenant.decide(attempt.runId, true)
  if (!(await within(process!.exited, REACH_MS))) object(`never reached: ${describeFault(fault)}`)
  await installation.restart(0)
  if (fault.operation !== 'decideApprovals') return
  const again = await tenant.decide(attempt.runId!, true)
  if (again?.status !== 200) object(`the same decision again is answered ${again?.status} ${again?.body.code}`)
}

async function waitOverDeaths(scene: Scene): Promise<void> {
  await startWaiting(scene)
  await scene.installation.restart(0)
  await scene.installation.restart(0)
}

async function expireMeanwhile(scene: Scene): Promise<void> {
  const { installation, tenant, object } = scene
  await installation.restart(0, null, { PLATFORM_APPROVAL_SECONDS: '1' })
  const { ask, runId } = await startWaiting(scene)
  installation.processes[0]!.kill()
  await pause(1_200)
  await installation.restart(0)
  const late = await tenant.decide(runId!, true)
  if (late?.status !== 409) object(`a decision after its time is answered ${late?.status}`)
  if (!(await eventually(() => isCompleted(scene, runId), REACH_MS))) object('nobody goes on after the time is over')
  if (installation.toolCalls.includes(callOf(ask.number, APPROVED_STEP))) object('a call was made that nobody approved')
}

async function isCompleted({ tenant }: Scene, runId: string | null, processIndex = 0): Promise<boolean> {
  const run = await tenant.tryCall('GET', `/v1/runs/${runId}`, undefined, { processIndex })
  return run?.body.status === 'completed'
}

async function decideElsewhere(scene: Scene): Promise<void> {
  const { installation, tenant, object } = scene
  const { runId } = await startWaiting(scene)
  installation.processes[0]!.kill()
  const decided = await tenant.decide(runId!, true, 1)
  if (decided?.status !== 200) object(`another process answers a decision with ${decided?.status}`)
  if (!(await eventually(() => isCompleted(scene, runId, 1), GOES_ON_MS))) object('the other process does not go on')
  await installation.restart(0)
}

async function loseDecider(scene: Scene): Promise<void> {
  const { installation, tenant, object } = scene
  const { runId } = await startWaiting(scene)
  const [, decider] = installation.processes
  decider!.arm({ operation: 'decideApprovals', point: 'after', nth: 1, action: 'kill' })
  await tenant.decide(runId!, true, 1)
  if (!(await within(decider!.exited, REACH_MS))) object('the decision never came')
  if (!(await eventually(() => isCompleted(scene, runId), GOES_ON_MS))) object('the other process does not go on')
  await installation.restart(1)
}

async function decideTwice(scene: Scene): Promise<void> {
  const { installation, tenant, object } = scene
  const runs = await Promise.all(Array.from({ length: 8 }, () => startWaiting(scene)))
  const decided = await Promise.all(
    runs.map(async ({ ask, runId }) => ({
      number: ask.number,
      runId,
      answers: await Promise.all([tenant.decide(runId!, true, 0), tenant.decide(runId!, false, 1)]),
    })),
  )
  for (const { number, runId, answers } of decided) {
    const [yes, no] = answers.map((answer) => answer?.status)
    const isOne = (yes === 200) !== (no === 200) && [yes, no].includes(409)
    if (!isOne) object(`two decisions about ${runId} are answered ${yes} and ${no}`)
    if (!(await eventually(() => isCompleted(scene, runId), GOES_ON_MS))) object(`${runId} does not end`)
    const isMade = installation.toolCalls.includes(callOf(number, APPROVED_STEP))
    if (isMade !== (yes === 200)) object(`the call of ${runId} was${isMade ? '' : ' not'} made, against the decision`)
  }
}
