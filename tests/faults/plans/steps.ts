import type { Fault } from '../fault.ts'
import { STEPS } from '../model.ts'
import { BOTH, ONE, type Plan, type Scene } from '../plan.ts'

const POINTS = ['before', 'inside', 'after'] as const
/** Each call is recorded twice: as begun, with the answer that asks for it, and with its output. */
const COMMITS = 2 * STEPS

/**
 * A kill -9 around each step of a run of ten tool calls. `after` an odd one: a call is recorded as begun and not made.
 * `before` an even one: it was made, and that is not recorded.
 */
export const STEP_KILLS: readonly Plan[] = Array.from({ length: COMMITS }, (_, index) => index + 1).flatMap((nth) =>
  POINTS.map((point): Plan => ({
    group: `kill -9 ${point} a step of a run`,
    title: `a run of ten steps is killed ${point} step ${nth}`,
    scale: ONE,
    engines: BOTH,
    play: (scene) => killAtStep(scene, { operation: 'recordStep', point, nth, action: 'kill' }),
  })),
)

async function killAtStep({ installation, tenant, object }: Scene, fault: Fault): Promise<void> {
  const consumerId = await tenant.addConsumer()
  const [process] = installation.processes
  process!.arm(fault)
  const attempt = tenant.send(tenant.ask({ consumerId, behaviour: 'steps' }))
  await attempt.over
  if (!process!.isOver && attempt.outcome === 'ended') object('the run ended without the fault')
  await process!.exited
  await installation.restart(0)
}
