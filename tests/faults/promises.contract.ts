import { afterAll, expect, test } from 'vitest'
import { randomNumbers } from '../../bench/soak/plans.ts'
import type { Engine } from './installation.ts'
import type { Occurring } from './operations.ts'
import { APPROVALS } from './plans/approvals.ts'
import { cutPlans } from './plans/cuts.ts'
import { DEPLOYS } from './plans/deploys.ts'
import { killPlans } from './plans/kills.ts'
import { MIXED_KILLS } from './plans/mixed.ts'
import { randomKill } from './plans/random.ts'
import { STEP_KILLS } from './plans/steps.ts'
import { STORMS } from './plans/storms.ts'
import { FaultRunner } from './run-faults.ts'

/** What is killed and cut off here; `npm run faults` finds out what there is, and takes all of it. */
const HARMED: readonly Occurring[] = [
  { operation: 'admitRun', when: 'serving', times: 1 },
  { operation: 'recordOutcome', when: 'serving', times: 1 },
  { operation: 'takeUpRun', when: 'start', times: 1 },
]

const SAMPLE: readonly RegExp[] = [
  /^64 messages at once/,
  /^4 requests, each sent 32 times$/,
  /^20 messages allowed, 52 tried; /,
  /^kill -9 inside admitRun/,
  /^kill -9 after recordOutcome/,
  /^kill -9 inside takeUpRun/,
  /^a run of ten steps is killed (before|inside|after) step (1|2|13)$/,
  /lost (at the request|at the decision|as the call has ended): kill -9 inside/,
  /^a mixed run: kill -9 (inside a tool|inside recordStep) \(time (3|13)\)$/,
  /decision comes to another one$/,
  /^two persons decide differently/,
  /^nobody decides in time/,
  /^(a process is|both of two processes are) asked to end .*of ten steps/,
  /tool is gone/,
  /^kill -9 .*of 24 runs$/,
  /^the connection of admitRun breaks after COMMIT was sent, before its answer$/,
]

/** Every promise of the platform on one engine. Each engine has a file of its own, so that they are tested side by side. */
export function testPromises(engine: Engine): void {
  const random = randomNumbers(4)
  const runner = new FaultRunner(engine, random)
  afterAll(() => runner.close())

  const kills = ([2, 1, 1] as const).map((processes) =>
    randomKill({ engine, random, processes: engine === 'postgres' ? processes : 1 }),
  )
  const harm = [...killPlans(engine, HARMED, random), ...cutPlans(HARMED), ...kills]
  const all = [...STORMS, ...STEP_KILLS, ...APPROVALS, ...MIXED_KILLS, ...DEPLOYS, ...harm].toSorted(
    (a, b) => b.scale.processes - a.scale.processes,
  )
  const plans = all.filter(({ engines, title }) => engines.includes(engine) && SAMPLE.some((form) => form.test(title)))

  test.each(plans)('$title', async (plan) => {
    const { violations } = await runner.carryOut(plan)

    expect(violations).toEqual([])
  })
}
