import { eventually, ONE, pause, type Plan, type Scene, TWO, within } from '../plan.ts'

/** 45 seconds until the others call a silent process dead, and the sweep after it. */
const LEASE_MS = 75_000
const CLIENT_MS = 30_000

/** Processes that are stopped and go on, as on an overloaded machine, and one that is asked to end. */
export const FREEZES: readonly Plan[] = [
  {
    group: 'SIGSTOP beyond the lease',
    title: 'one of two processes sleeps until the other has ended its runs, then wakes',
    scale: TWO,
    engines: ['postgres'],
    play: sleepBeyondLease,
  },
  {
    group: 'kill -9 without help',
    title: 'one of two processes is killed; the other finds out by itself',
    scale: TWO,
    engines: ['postgres'],
    play: dieUnnoticed,
  },
  {
    group: 'SIGSTOP in a transaction',
    title: 'one of two processes sleeps inside an admission, with the locks of a member and a chat',
    scale: TWO,
    engines: ['postgres'],
    play: sleepInTransaction,
  },
  {
    group: 'SIGSTOP below the lease',
    title: 'a process sleeps for 8 seconds in the middle of its runs',
    scale: ONE,
    engines: ['embedded', 'postgres'],
    play: nap,
  },
  {
    group: 'SIGTERM',
    title: 'a process is asked to end in the middle of its runs',
    scale: ONE,
    engines: ['embedded', 'postgres'],
    play: terminate,
  },
]

type Lasting = { readonly consumerId: string; readonly runs: readonly ReturnType<Scene['tenant']['send']>[] }

/** Runs of the first process that last until the model is released. */
async function startLasting({ tenant }: Scene, count = 6): Promise<Lasting> {
  const consumerId = await tenant.addConsumer()
  const runs = Array.from({ length: count }, () => tenant.send(tenant.ask({ consumerId, behaviour: 'hold' })))
  await Promise.all(runs.map((run) => run.speaking))
  return { consumerId, runs }
}

/** Whether all these runs have ended as lost, as another process says. */
async function areLost({ tenant }: Scene, { runs }: Lasting): Promise<boolean> {
  const views = await Promise.all(
    runs.map(({ runId }) => tenant.call('GET', `/v1/runs/${runId}`, undefined, { processIndex: 1 })),
  )
  return views.every(({ body }) => body.error?.code === 'runner_lost')
}

/** New messages in the chats of lost runs, answered by the other process. */
async function talkElsewhere({ tenant, object }: Scene, { runs, consumerId }: Lasting): Promise<void> {
  const others = runs.map(({ ask }) => tenant.send(tenant.ask({ consumerId, chat: ask.chat }), 1))
  await Promise.all(others.map((attempt) => attempt.over))
  for (const { ask, outcome, code } of others) {
    if (outcome !== 'ended')
      object(`${ask.chat} of a lost run is not answered by the other process: ${outcome} ${code}`)
  }
}

async function sleepBeyondLease(scene: Scene): Promise<void> {
  const { installation, object } = scene
  const [sleeper] = installation.processes
  const lasting = await startLasting(scene)
  const bootId = await sleeper!.bootId()
  sleeper!.child.kill('SIGSTOP')
  installation.model.expectOverlaps(true)
  try {
    if (!(await eventually(() => areLost(scene, lasting), LEASE_MS)))
      object('I6: runs of a sleeping process are not ended')
    await talkElsewhere(scene, lasting)
    installation.model.release() // what the sleeper had asked for arrives while it sleeps
  } finally {
    sleeper!.child.kill('SIGCONT')
  }
  const isOver = await within(Promise.all(lasting.runs.map((run) => run.over)), CLIENT_MS)
  if (!isOver) object('clients of a fenced process wait for ever')
  for (const { runId, outcome } of lasting.runs) {
    if (outcome === 'ended') object(`I14: a fenced process showed the end of ${runId}`)
  }
  const isFenced = await eventually(async () => (await sleeper!.bootId()) !== bootId, CLIENT_MS)
  if (!isFenced) object('a process that was called dead goes on with its old life')
  await eventually(async () => installation.model.calls.every(({ state }) => state !== 'active'), 10_000)
  installation.model.expectOverlaps(false)
}

async function dieUnnoticed(scene: Scene): Promise<void> {
  const { installation, object } = scene
  const lasting = await startLasting(scene)
  const [killed] = installation.processes
  killed!.kill()
  await killed!.exited
  if (!(await eventually(() => areLost(scene, lasting), LEASE_MS))) object('I6: runs of a killed process are not ended')
  await talkElsewhere(scene, lasting)
  await installation.restart(0)
}

/** The locks of a stopped process go with its transaction, after ten seconds; nobody waits longer. */
async function sleepInTransaction(scene: Scene): Promise<void> {
  const { installation, tenant, object } = scene
  const [sleeper] = installation.processes
  const consumerId = await tenant.addConsumer()
  sleeper!.arm({ operation: 'admitRun', point: 'inside', nth: 1, action: 'stop' })
  const chat = `locked-${tenant.integrationId}`
  const asleep = tenant.send(tenant.ask({ consumerId, chat }))
  await sleeper!.reached('admitRun')
  try {
    const isFree = await eventually(async () => {
      const attempt = tenant.send(tenant.ask({ consumerId, chat }), 1)
      await attempt.over
      if (attempt.status !== 503 && attempt.outcome !== 'ended')
        object(`a locked chat answers ${attempt.status} ${attempt.code}`)
      return attempt.outcome === 'ended'
    }, 25_000)
    if (!isFree) object('a stopped process keeps its locks for ever')
  } finally {
    sleeper!.arm(null)
    sleeper!.child.kill('SIGCONT')
  }
  await asleep.over
  if (asleep.status === 200) object('a transaction that the database has ended was taken for committed')
}

async function nap(scene: Scene): Promise<void> {
  const { installation, object } = scene
  const lasting = await startLasting(scene)
  const [process] = installation.processes
  process!.child.kill('SIGSTOP')
  await pause(8_000)
  process!.child.kill('SIGCONT')
  installation.model.release()
  await Promise.all(lasting.runs.map((run) => run.over))
  for (const { runId, result } of lasting.runs) {
    if (result?.status !== 'completed') object(`${runId} did not survive a nap: ${result?.status}`)
  }
}

/** Longer than the drain: runs fail as `server_shutdown`, and clients see it. */
async function terminate(scene: Scene): Promise<void> {
  const { installation, object } = scene
  await installation.restart(0, null, { PLATFORM_DRAIN_SECONDS: '1' })
  const lasting = await startLasting(scene)
  const [process] = installation.processes
  process!.child.kill('SIGTERM')
  await Promise.all(lasting.runs.map((run) => run.over))
  for (const { runId, result } of lasting.runs) {
    if (result?.error?.code !== 'server_shutdown') object(`${runId} saw ${result?.status} ${result?.error?.code}`)
  }
  if (!(await within(process!.exited, CLIENT_MS))) object('a process that was asked to end goes on')
  else if ((await process!.exited) !== 0)
    object(`a process that was asked to end ended with ${String(await process!.exited)}`)
  await installation.restart(0)
}
