import type { Scene } from '../plan.ts'
import { eventually, within } from '../plan.ts'
import { checkAttempts } from './check-attempts.ts'
import { checkChats } from './check-chats.ts'
import { checkMoney } from './check-money.ts'
import { checkRecords } from './check-records.ts'
import { checkRuns } from './check-runs.ts'
import { checkStreams } from './check-streams.ts'
import { isEnded, type RunRecord } from './run-record.ts'

/** Beyond the 30 seconds of a self-fence and the 20 after which a process looks after forgotten runs. */
const RECOVERY_MS = 60_000
const CLIENT_MS = 30_000
const RELEASE_MS = 100

/**
 * Everything that must hold when the harm is over and every process serves, with the evidence of what does not.
 *
 * @returns How many runs were admitted.
 */
export async function checkScene(scene: Scene): Promise<number> {
  // A run that was taken up may ask the model at any moment.
  const releasing = setInterval(() => scene.installation.model.release(), RELEASE_MS)
  try {
    return await checkAll(scene)
  } finally {
    clearInterval(releasing)
  }
}

async function checkAll(scene: Scene): Promise<number> {
  const { installation, tenant, object } = scene
  const clients = Promise.all(tenant.attempts.map((attempt) => attempt.over))
  if (!(await within(clients, CLIENT_MS))) {
    const waiting = tenant.attempts.filter(({ outcome }) => outcome === 'pending')
    object(`${waiting.length} clients wait in vain, e.g. for #${waiting[0]?.ask.number}`)
    for (const attempt of waiting) attempt.leave()
    await clients
  }
  const runs = await endedRuns(scene)
  checkAttempts(scene, runs)
  await checkRuns(scene, runs)
  await checkStreams(scene, runs)
  await checkChats(scene, runs)
  const after = await endedRuns(scene)
  for (const run of runs) {
    const now = after.find(({ runId }) => runId === run.runId)
    if (now?.status !== run.status) object(`I9: ${run.runId} was ${run.status} and is ${now?.status ?? 'gone'}`)
  }
  await checkMoney(scene, after)
  await checkRecords(scene)
  for (const complaint of installation.model.complaints.splice(0)) object(complaint)
  return runs.length
}

async function endedRuns({ tenant, object }: Scene): Promise<RunRecord[]> {
  let runs: RunRecord[] = []
  const isQuiet = async (): Promise<boolean> => {
    runs = await tenant.list(`/v1/runs?apiIntegrationId=${tenant.integrationId}`)
    // A person decides in the end.
    const waiting = runs.filter(({ status }) => status === 'waiting')
    await Promise.all(waiting.map(({ runId }) => tenant.decide(runId, true)))
    return runs.every(isEnded)
  }
  if (!(await eventually(isQuiet, RECOVERY_MS))) {
    for (const run of runs) if (!isEnded(run)) object(`I6: ${run.runId} is ${run.status} for ever`)
  }
  return runs
}
