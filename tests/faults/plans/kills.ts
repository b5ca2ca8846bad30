import { describeFault, type Fault } from '../fault.ts'
import type { Engine } from '../installation.ts'
import type { Occurring } from '../operations.ts'
import { addWebhook } from '../operations.ts'
import { ONE, type Plan, type Scene } from '../plan.ts'
import { oneRound } from '../traffic.ts'

const POINTS = ['before', 'inside', 'after'] as const
/** Timers of the server come every ten seconds or sooner, of its deliveries every second. */
const REACH_MS = 60_000

/** A kill -9 at each point of each operation, and the restart. */
export function killPlans(engine: Engine, occurring: readonly Occurring[], random: () => number): Plan[] {
  return occurring.flatMap(({ operation, when, times }) =>
    POINTS.map((point): Plan => {
      const nth = when === 'first start' ? 1 : 1 + Math.floor(random() * Math.min(times, 3))
      const fault: Fault = { operation, point, nth, action: 'kill' }
      const play = when === 'serving' ? killServing : when === 'start' ? killStarting : useAfterFirstStart
      return {
        group: `kill -9 ${point} an operation`,
        title: `${describeFault(fault)}, ${when}`,
        scale: ONE,
        engines: [engine],
        ...(when === 'first start' && { firstFault: fault }),
        play: (scene) => play(scene, fault),
      }
    }),
  )
}

/** While a process serves. */
export async function killServing(scene: Scene, fault: Fault): Promise<void> {
  const { installation, tenant, object } = scene
  const consumerId = await tenant.addConsumer()
  await addWebhook(tenant)
  installation.processes[0]?.arm(fault)
  await oneRound(scene, consumerId)
  // What a process remembers, it asks for only after its start.
  if (!installation.processes[0]?.isOver) await installation.restart(0, fault)
  const process = installation.processes[0]!
  const until = performance.now() + REACH_MS
  while (!process.isOver && performance.now() < until) await oneRound(scene, consumerId)
  if (!process.isOver) object(`never reached: ${describeFault(fault)}`)
  await installation.restart(0)
}

/** While a process that starts ends what the one before it has left. */
async function killStarting(scene: Scene, fault: Fault): Promise<void> {
  const { installation, tenant, object } = scene
  const consumerId = await tenant.addConsumer()
  const lost = Array.from({ length: 3 }, () => tenant.send(tenant.ask({ consumerId, behaviour: 'hold' })))
  await Promise.all(lost.map((attempt) => attempt.speaking))
  if (await installation.restart(0, fault)) object(`never reached: ${describeFault(fault)}`)
  await installation.restart(0)
}

/** An installation whose very first start was cut short is as good as a new one. */
async function useAfterFirstStart(scene: Scene): Promise<void> {
  await oneRound(scene, await scene.tenant.addConsumer())
}
