import { eventually, ONE, pause, type Plan, type Scene, TWO, within } from '../plan.ts'

/** 45 seconds until the others call a silent process dead, and the sweep after it. */
const LEASE_MS = 75_000
const CLIENT_MS = 30_000
/** Two reads of the watcher, half a second apart, and what a loaded machine needs besides. */
const NOTICED_S = 6

/** Processes that are stopped and go on, as on an overloaded machine, and one that is asked to end. */
export const FREEZES: readonly Plan[] = [
  {
    group: 'SIGSTOP beyond the lease',
    title: 'one of two processes sleeps until the other has taken its runs up, then wakes',
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
    group: 'SIGSTOP below the lease',
    title: 'one of two processes sleeps for 20 seconds, and the other leaves its runs alone',
    scale: TWO,
    engines: ['postgres'],
    play: napBesideOther,
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

/** Whether the other process works on all these runs. */
async function areTakenUp({ installation }: Scene, { runs }: Lasting): Promise<boolean> {
  const ids = runs.map(({ runId }) => `'${runId}'`).join()
  const bootId = await installation.processes[1]!.bootId()
  const taken = await installation.processes[1]!.rows(
    `SELECT 1 FROM runs WHERE id IN (${ids}) AND boot_id = '${bootId}'`,
  )
  return taken.length === runs.length
}

/** The model goes on: the runs end at the other process, and their chats are free for new messages. */
async function endElsewhere({ installation, tenant, object }: Scene, { runs, consumerId }: Lasting): Promise<void> {
  const followed = runs.map(({ ask, runId }) => tenant.follow(ask, runId ?? '', '0', 1))
  const ended = Promise.all(followed.map((attempt) => attempt.over))
  // A run is this process's a moment before it asks the model.
  for (const until = performance.now() + CLIENT_MS; performance.now() < until;) {
    installation.model.release()
    if (await within(ended, 250)) break
  }
  for (const { ask, result } of followed) {
    if (result?.status !== 'completed') object(`#${ask.number} does not end at the other process: ${result?.status}`)
  }
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
    if (!(await eventually(() => areTakenUp(scene, lasting), LEASE_MS)))
      object('I6: nobody goes on with the runs of a sleeping process')
    await endElsewhere(scene, lasting) // what the sleeper had asked for arrives while it sleeps
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

/** A lock is held by a process that is stopped, and not by one that is dead. */
async function napBesideOther(scene: Scene): Promise<void> {
  const { installation, object } = scene
  const [sleeper] = installation.processes
  const lasting = await startLasting(scene)
  const bootId = await sleeper!.bootId()
  sleeper!.child.kill('SIGSTOP')
  await pause(20_000)
  sleeper!.child.kill('SIGCONT')
  await pause(3_000)
  if ((await sleeper!.bootId()) !== bootId) object('a process that was stopped for 20 seconds is taken for dead')
  installation.model.release()
  await Promise.all(lasting.runs.map((run) => run.over))
  for (const { runId, result } of lasting.runs) {
    if (result?.status !== 'completed') object(`${runId} did not survive a nap: ${result?.status}`)
  }
}

async function dieUnnoticed(scene: Scene): Promise<void> {
  const { installation, object } = scene
  // Its lock tells of a death only to who has watched for a while.
  await pause(12_000)
  const lasting = await startLasting(scene)
  const [killed] = installation.processes
  const diedAt = performance.now()
  killed!.kill()
  await killed!.exited
  if (!(await eventually(() => areTakenUp(scene, lasting), LEASE_MS)))
    object('I6: nobody goes on with the runs of a killed process')
  const seconds = (performance.now() - diedAt) / 1_000
  if (seconds > NOTICED_S) object(`the runs of a killed process went on after ${seconds.toFixed(1)} seconds`)
  await endElsewhere(scene, lasting)
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

/** Longer than the drain: the runs are given up, and go on in the next process. */
async function terminate(scene: Scene): Promise<void> {
  const { installation, object } = scene
  await installation.restart(0, null, { PLATFORM_DRAIN_SECONDS: '1' })
  const lasting = await startLasting(scene)
  const [process] = installation.processes
  process!.child.kill('SIGTERM')
  await Promise.all(lasting.runs.map((run) => run.over))
  for (const { runId, outcome, result } of lasting.runs) {
    if (outcome !== 'broken') object(`${runId} saw an end of a run that goes on: ${result?.status}`)
  }
  if (!(await within(process!.exited, CLIENT_MS))) object('a process that was asked to end goes on')
  else if ((await process!.exited) !== 0)
    object(`a process that was asked to end ended with ${String(await process!.exited)}`)
  await installation.restart(0)
}
