import { type Cut, CuttingProxy } from '../cutting-proxy.ts'
import type { Fault } from '../fault.ts'
import { addWebhook, type Occurring } from '../operations.ts'
import { eventually, ONE, pause, type Plan, type Scene, TWO, within } from '../plan.ts'
import { oneRound } from '../traffic.ts'

const CUTS: readonly { readonly cut: Cut; readonly shut: boolean; readonly says: string }[] = [
  { cut: 'before COMMIT', shut: false, says: 'before COMMIT' },
  { cut: 'before the answer to COMMIT', shut: false, says: 'after COMMIT was sent, before its answer' },
  {
    cut: 'before the answer to COMMIT',
    shut: true,
    says: 'after COMMIT was sent, the database away until it was given up',
  },
]
/** A lost answer to COMMIT is asked for during two seconds. */
const AWAY_MS = 3_000
const REACH_MS = 30_000
/** Keepalives of PostgreSQL give a lost machine up after that. */
const NOTICED_MS = 9_000
/** Only who has watched for so long judges others. */
const WARM_UP_MS = 11_000

/** Connections to PostgreSQL that break at the COMMIT of each operation. */
export function cutPlans(occurring: readonly Occurring[]): Plan[] {
  const serving = occurring.filter(({ when }) => when === 'serving')
  return serving.flatMap(({ operation }) =>
    CUTS.map(({ cut, shut, says }): Plan => ({
      group: `connection cut ${says}`,
      title: `the connection of ${operation} breaks ${says}`,
      scale: ONE,
      engines: ['postgres'],
      play: (scene) => cutAtCommit(scene, operation, { cut, shut }),
    })),
  )
}

async function cutAtCommit(scene: Scene, operation: string, how: { cut: Cut; shut: boolean }): Promise<void> {
  const { installation, tenant, object } = scene
  const proxy = installation.database!
  const consumerId = await tenant.addConsumer()
  await addWebhook(tenant)
  const fault: Fault = { operation, point: 'inside', nth: 1, action: 'mark' }
  const restored = proxy.cutNextMarked(how.cut, how).then(async () => {
    if (how.shut) await pause(AWAY_MS)
    proxy.open()
  })
  installation.processes[0]!.arm(fault)
  await oneRound(scene, consumerId)
  if (proxy.isWaiting) await installation.restart(0, fault) // what a process remembers, it asks for only after its start
  const until = performance.now() + REACH_MS
  while (proxy.isWaiting && performance.now() < until) await oneRound(scene, consumerId)
  if (proxy.isWaiting) object(`never reached: the COMMIT of ${operation}`)
  else await restored
  proxy.open()
  // Cut off while it started, a process gives up.
  if (installation.processes[0]!.isOver) await installation.restart(0)
  installation.processes[0]!.arm(null)
}

/** Outages of what the processes need, in the middle of everything. */
export const OUTAGES: readonly Plan[] = [
  {
    group: 'cut cable',
    title: 'one of two processes is cut off from PostgreSQL without a word',
    scale: TWO,
    engines: ['postgres'],
    play: pullCable,
  },
  {
    group: 'database away',
    title: 'all connections to PostgreSQL break, 10 times under load',
    scale: ONE,
    engines: ['postgres'],
    play: (scene) => underLoad(scene, () => breakTenTimes(scene, scene.installation.database!)),
  },
  {
    group: 'database away',
    title: 'PostgreSQL is away for 8 seconds under load',
    scale: ONE,
    engines: ['postgres'],
    play: (scene) => underLoad(scene, () => away(scene.installation.database!, 8_000)),
  },
  {
    group: 'Redis away',
    title: 'all connections to Redis break, 10 times under load',
    scale: TWO,
    engines: ['postgres'],
    play: (scene) => underLoad(scene, () => breakTenTimes(scene, scene.installation.redis!)),
  },
  {
    group: 'Redis away',
    title: 'Redis is away for 5 seconds under load',
    scale: TWO,
    engines: ['postgres'],
    play: (scene) => underLoad(scene, () => away(scene.installation.redis!, 5_000)),
  },
]

/** The server ends the sessions of a lost machine after nine seconds; by then its process has fenced itself. */
async function pullCable(scene: Scene): Promise<void> {
  const { installation, tenant, object } = scene
  const cable = await CuttingProxy.start(installation.database!.url)
  try {
    await installation.restart(0, null, { DATABASE_URL: installation.databaseThrough(cable) })
    const consumerId = await tenant.addConsumer()
    await pause(WARM_UP_MS)
    const lasting = Array.from({ length: 6 }, () => tenant.send(tenant.ask({ consumerId, behaviour: 'tool-hold' })))
    await Promise.all(lasting.map((attempt) => attempt.speaking))
    const bootId = await installation.processes[0]!.bootId()
    installation.model.expectOverlaps(true)
    cable.swallow()
    const isFenced = within(Promise.all(lasting.map((attempt) => attempt.over)), NOTICED_MS)
    await pause(NOTICED_MS)
    if (!(await isFenced)) object('a process that was cut off does not let go of its clients before others act')
    cable.breakUpstream()
    const ids = lasting.map(({ runId }) => `'${runId}'`).join()
    const taken = `SELECT count(*)::int AS n FROM runs WHERE id IN (${ids}) AND boot_id <> '${bootId}'`
    const areTaken = async (): Promise<boolean> => (await installation.rows(taken))[0]?.['n'] === lasting.length
    if (!(await eventually(areTaken, REACH_MS))) object('I6: nobody goes on with the runs of a lost machine')
    cable.open()
    const isBack = async (): Promise<boolean> => (await installation.processes[0]!.bootId()) !== bootId
    if (!(await eventually(isBack, REACH_MS))) object('a process that was cut off goes on with its old life')
    installation.model.release()
    await eventually(async () => installation.model.calls.every(({ state }) => state !== 'active'), 10_000)
    installation.model.expectOverlaps(false)
    await installation.restart(0)
  } finally {
    cable.close()
  }
}

async function breakTenTimes({ random }: Scene, proxy: { breakAll(): void }): Promise<void> {
  for (let time = 0; time < 10; time++) {
    await pause(100 + random() * 400)
    proxy.breakAll()
  }
}

async function away(proxy: { shut(): void; open(): void }, milliseconds: number): Promise<void> {
  await pause(300)
  proxy.shut()
  await pause(milliseconds)
  proxy.open()
}

/** Rounds of traffic, and runs that last, while something is done to the connections. */
async function underLoad(scene: Scene, harm: () => Promise<void>): Promise<void> {
  const { tenant, installation } = scene
  const consumerId = await tenant.addConsumer()
  const lasting = Array.from({ length: 8 }, (_, index) =>
    tenant.send(tenant.ask({ consumerId, behaviour: 'hold' }), index % installation.processes.length),
  )
  await Promise.all(lasting.map((attempt) => attempt.speaking))
  const harmed = harm()
  const state = { isOver: false }
  const rounds = (async () => {
    while (!state.isOver) await oneRound(scene, consumerId)
  })()
  await harmed.finally(() => (state.isOver = true))
  await within(rounds, 30_000)
}
