import type { AgencyVersion } from '../fault.ts'
import { BOTH, eventually, ONE, type Plan, type Scene, TWO, within } from '../plan.ts'

const CLIENT_MS = 30_000
/** Both steps of a call are recorded: so far is a run of ten in its middle. */
const STEPS_BEFORE = 9

/** Processes that are asked to end while their runs go on, and those of another version beside them. */
export const DEPLOYS: readonly Plan[] = [
  {
    group: 'hand-over at a deploy',
    title: 'a process is asked to end in the middle of runs of ten steps, with another one that waits',
    scale: ONE,
    engines: BOTH,
    play: (scene) => deploy(scene, 'usual'),
  },
  {
    group: 'hand-over at a deploy',
    title: 'both of two processes are asked to end one after the other, in the middle of runs of ten steps',
    scale: TWO,
    engines: ['postgres'],
    play: async (scene) => {
      await deploy(scene, 'usual', 0)
      await deploy(scene, 'usual', 1)
    },
  },
  {
    group: 'two versions side by side',
    title: 'runs go on in a process whose agency has a tool more',
    scale: TWO,
    engines: ['postgres'],
    play: (scene) => meetVersion(scene, 'larger'),
  },
  {
    group: 'two versions side by side',
    title: 'runs fail with agency_changed where their tool is gone, and only there',
    scale: TWO,
    engines: ['postgres'],
    play: (scene) => meetVersion(scene, 'smaller'),
  },
  {
    group: 'two versions side by side',
    title: 'a process that does not know the state of a run leaves it to one that does',
    scale: TWO,
    engines: ['postgres'],
    play: leaveUnknownState,
  },
]

/** SIGTERM without any drain, while runs are between their steps; then the next process. */
async function deploy(scene: Scene, version: AgencyVersion, index = 0): Promise<void> {
  const { installation, tenant, object } = scene
  await installation.restart(index, null, { PLATFORM_DRAIN_SECONDS: '0' })
  const process = installation.processes[index]!
  const consumerId = await tenant.addConsumer()
  const waiting = tenant.send(tenant.ask({ consumerId, behaviour: 'pay-steps' }), index)
  await waiting.over
  const reached = process.reached('recordStep', (process.serving.get('recordStep') ?? 0) + 4 * STEPS_BEFORE)
  const runs = Array.from({ length: 4 }, () => tenant.send(tenant.ask({ consumerId, behaviour: 'steps' }), index))
  await reached
  process.child.kill('SIGTERM')
  await Promise.all(runs.map((run) => run.over))
  if (!(await within(process.exited, CLIENT_MS))) object('a process that was asked to end goes on')
  else if ((await process.exited) !== 0) object(`a process ended with ${String(await process.exited)}`)
  await installation.restart(index, null, { AGENCY_VERSION: version })
  const stalled = await installation.processes[index]!.rows(
    `SELECT id FROM runs WHERE stalled > 0 AND integration_id = '${tenant.integrationId}'`,
  )
  if (stalled.length > 0) object(`a planned stop counts as a death of ${JSON.stringify(stalled)}`)
}

/** The process of the usual version is killed: what it has begun, and what waits, is for the one of the other version. */
async function meetVersion(scene: Scene, version: AgencyVersion): Promise<void> {
  const { installation, tenant, object } = scene
  await installation.restart(1, null, { AGENCY_VERSION: version })
  const mayFailWith = 'agency_changed'
  const consumerId = await tenant.addConsumer()
  const [usual] = installation.processes
  const [waiting, begun] = (['pay-steps', 'tool-hold'] as const).map((behaviour) =>
    tenant.send(
      tenant.ask({ consumerId, behaviour, ...(version === 'smaller' && behaviour === 'pay-steps' && { mayFailWith }) }),
    ),
  )
  await Promise.all([waiting!.over, begun!.speaking])
  usual!.kill()
  await usual!.exited
  await tenant.decide(waiting!.runId!, true, 1)
  const expected = version === 'smaller' ? 'failed' : 'completed'
  if (!(await eventually(() => isStatus(scene, waiting!.runId, expected), CLIENT_MS)))
    object(`the run that waited is not ${expected} in the ${version} agency`)
  const goesOn = async (): Promise<boolean> => {
    installation.model.release()
    return isStatus(scene, begun!.runId, 'completed')
  }
  if (!(await eventually(goesOn, CLIENT_MS))) object('the run whose tool is still there does not end')
  await installation.restart(0)
  await installation.restart(1)
}

async function isStatus({ tenant }: Scene, runId: string | null, status: string): Promise<boolean> {
  const run = await tenant.tryCall('GET', `/v1/runs/${runId}`, undefined, { processIndex: 1 })
  return run?.body.status === status
}

async function leaveUnknownState(scene: Scene): Promise<void> {
  const { installation, tenant, object } = scene
  const run = tenant.send(tenant.ask({ consumerId: await tenant.addConsumer(), behaviour: 'tool-hold' }))
  await run.speaking
  await installation.restart(1, null, { STATE_VERSION: '1000' })
  const other = installation.processes[1]!
  installation.processes[0]!.kill()
  await installation.processes[0]!.exited
  await installation.declareDeaths()
  await other.reached('takeUpRun', (other.serving.get('takeUpRun') ?? 0) + 2)
  const [record] = await other.rows(`SELECT state, attempt FROM runs WHERE id = '${run.runId}'`)
  if (record?.['state'] !== 'running' || record['attempt'] !== 1)
    object(`a run whose state a process does not know is ${JSON.stringify(record)} after it`)
  await installation.restart(0)
  await installation.restart(1)
}
