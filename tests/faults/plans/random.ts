import type { Fault } from '../fault.ts'
import type { Engine } from '../installation.ts'
import type { Behaviour } from '../model.ts'
import { eventually, ONE, pause, pick, type Plan, type Scene, TWO, within } from '../plan.ts'
import { killServing } from './kills.ts'

const GROUP = 'kill -9 at random'
const BEHAVIOURS: readonly Behaviour[] = ['answer', 'tool', 'tool', 'steps', 'steps', 'pay-steps', 'hold', 'tool-hold']
const RUNS = 24
const LOAD_MS = 1_500
const CLIENT_MS = 60_000
const RELEASE_MS = 200
const NOTICED_MS = 30_000

type Chosen = { readonly engine: Engine; readonly random: () => number; readonly processes: 1 | 2 }

/** Of one process at a random operation or moment, or of one of two at a random moment: under load. */
export function randomKill({ engine, random, processes }: Chosen): Plan {
  const isAtOperation = processes === 1 && random() < 0.5
  return isAtOperation ? killAtOperation(engine, random) : killAtMoment({ engine, random, processes })
}

/** Whatever the operation is. */
function killAtOperation(engine: Engine, random: () => number): Plan {
  const point = pick(['before', 'after'] as const, random)
  const fault: Fault = { operation: '*', point, nth: 1 + Math.floor(random() * 60), action: 'kill' }
  return {
    group: GROUP,
    title: `kill -9 ${point} database operation ${fault.nth}`,
    scale: ONE,
    engines: [engine],
    play: (scene) => killServing(scene, fault),
  }
}

function killAtMoment({ engine, random, processes }: Chosen): Plan {
  const moment = Math.floor(random() * LOAD_MS)
  const victim = Math.floor(random() * processes)
  const isFoundOut = processes > 1 && random() < 0.5
  const whose = processes === 1 ? '' : ` of process ${victim + 1} of 2${isFoundOut ? ', unhelped,' : ''}`
  return {
    group: GROUP,
    title: `kill -9${whose} after ${moment} ms of ${RUNS} runs`,
    scale: processes === 1 ? ONE : TWO,
    engines: [engine],
    play: (scene) => killUnderLoad(scene, { moment, victim, isFoundOut }),
  }
}

type Death = {
  readonly moment: number
  readonly victim: number
  /** The other process notices by itself. Otherwise the next one is started at once, and the death declared. */
  readonly isFoundOut: boolean
}

async function killUnderLoad(scene: Scene, { moment, victim, isFoundOut }: Death): Promise<void> {
  const { installation, object } = scene
  const consumerId = await scene.tenant.addConsumer()
  const releasing = setInterval(() => installation.model.release(), RELEASE_MS)
  try {
    const load = Promise.all(Array.from({ length: RUNS }, () => oneRun(scene, consumerId)))
    await pause(moment)
    const process = installation.processes[victim]!
    process.kill()
    await process.exited
    if (isFoundOut && !(await eventually(() => isNothingLost(scene, victim), NOTICED_MS)))
      object('I6: nobody goes on with the runs of a killed process')
    await installation.restart(victim)
    if (!(await within(load, CLIENT_MS))) object('clients wait for ever')
  } finally {
    clearInterval(releasing)
  }
}

/** Begun at any moment of the load, at any process. Somebody decides if it waits, and some are cancelled. */
async function oneRun({ tenant, installation, random }: Scene, consumerId: string): Promise<void> {
  const processIndex = Math.floor(random() * installation.processes.length)
  const ask = tenant.ask({ consumerId, behaviour: pick(BEHAVIOURS, random) })
  const isUnwanted = random() < 0.1
  await pause(random() * LOAD_MS)
  const attempt = tenant.send(ask, processIndex)
  await (isUnwanted ? attempt.answered : attempt.over)
  if (attempt.runId === null) return
  const path = `/v1/runs/${attempt.runId}`
  if (isUnwanted) await tenant.tryCall('POST', `${path}/cancel`, { cancel_mode: 'immediate' }, { processIndex })
  else if (attempt.result?.status === 'waiting') await tenant.decide(attempt.runId, true, processIndex)
  await attempt.over
}

async function isNothingLost({ installation, tenant }: Scene, victim: number): Promise<boolean> {
  const live = await installation.processes[1 - victim]!.bootId()
  const lost = await installation.rows(`SELECT 1 FROM runs WHERE state IN ('reserved','running')
    AND integration_id = '${tenant.integrationId}' AND boot_id <> '${live}'`)
  return lost.length === 0
}
