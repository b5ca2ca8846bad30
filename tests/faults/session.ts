import { setTimeout as pause } from 'node:timers/promises'
import { randomNumbers } from '../../bench/soak/plans.ts'
import type { Engine } from './installation.ts'
import { ONE, type Plan, type PlanResult } from './plan.ts'
import { type Occurring, operationsOfRuns, watchOperations } from './operations.ts'
import { APPROVALS } from './plans/approvals.ts'
import { cutPlans, OUTAGES } from './plans/cuts.ts'
import { DEPLOYS } from './plans/deploys.ts'
import { FREEZES } from './plans/freezes.ts'
import { killPlans } from './plans/kills.ts'
import { MIXED_KILLS } from './plans/mixed.ts'
import { randomKill } from './plans/random.ts'
import { STEP_KILLS } from './plans/steps.ts'
import { STORMS } from './plans/storms.ts'
import { FaultRunner } from './run-faults.ts'

type SessionOptions = {
  readonly engine: Engine
  readonly seed: number
  /** Which of the plans; absent: all. */
  readonly isWanted?: (plan: Plan) => boolean
  /** No plan is begun after this moment of `performance.now()`; after every plan had its turn, random ones go on until then. */
  readonly until?: number
  /** So many random plans, and no others. */
  readonly randomKills?: number
  readonly onResult: (result: PlanResult) => void
}

type Session = {
  readonly results: readonly PlanResult[]
  /** Plans for which there was no time. */
  readonly left: number
}

/** Carries out every plan of an engine once, in an order and with choices that the seed decides, and then random ones. */
export async function runSession(options: SessionOptions): Promise<Session> {
  const { engine, seed, isWanted = () => true, until = Infinity, randomKills, onResult } = options
  const random = randomNumbers(seed)
  const runner = new FaultRunner(engine, random)
  const results: PlanResult[] = []
  const isTime = (): boolean => performance.now() < until
  const carryOut = async (plan: Plan): Promise<void> => {
    const result = await runner.carryOut(plan)
    results.push(result)
    onResult(result)
  }
  const killAtRandom = (share: number): Promise<void> =>
    carryOut(randomKill({ engine, random, processes: engine === 'postgres' && share < 0.5 ? 2 : 1 }))
  try {
    if (randomKills !== undefined) {
      let done = 0
      for (; done < randomKills && isTime(); done++) await killAtRandom(done / randomKills)
      return { results, left: randomKills - done }
    }
    const { occurring, watched } = await watch(engine, random)
    results.push(watched)
    onResult(watched)
    const plans = plansOf(engine, occurring, random).filter(isWanted)
    let done = 0
    for (; done < plans.length && isTime(); done++) await carryOut(plans[done]!)
    if (until !== Infinity) while (isTime()) await killAtRandom(1)
    return { results, left: plans.length - done }
  } finally {
    await runner.close()
  }
}

/** The plan before all others: what there is to harm. */
async function watch(
  engine: Engine,
  random: () => number,
): Promise<{ occurring: readonly Occurring[]; watched: PlanResult }> {
  const startedAt = performance.now()
  const { occurring, missing } = await watchOperations(engine, random)
  const plan: Plan = {
    group: 'what there is to harm',
    title: `${occurring.length} database operations occur`,
    scale: ONE,
    engines: [engine],
    play: () => pause(0),
  }
  const violations = missing.map((name) => `${name} never occurs: extend tests/faults/traffic.ts`)
  const seconds = (performance.now() - startedAt) / 1_000
  return { occurring, watched: { engine, plan, admitted: 0, violations, seconds } }
}

/** Plans of the same scale one after the other: they share an installation. What runs depend on comes first. */
function plansOf(engine: Engine, occurring: readonly Occurring[], random: () => number): Plan[] {
  const harmful = (operations: readonly Occurring[]): Plan[] => [
    ...killPlans(engine, operations, random),
    ...cutPlans(operations),
  ]
  const names = new Set(operationsOfRuns())
  const ofRuns = occurring.filter(({ operation }) => names.has(operation))
  const others = occurring.filter(({ operation }) => !names.has(operation))
  const all = [
    ...STORMS,
    ...FREEZES,
    ...OUTAGES,
    ...STEP_KILLS,
    ...APPROVALS,
    ...MIXED_KILLS,
    ...DEPLOYS,
    ...shuffled(harmful(ofRuns), random),
    ...shuffled(harmful(others), random),
  ]
  const own = all.filter(({ engines }) => engines.includes(engine))
  return own.toSorted((a, b) => b.scale.processes - a.scale.processes)
}

function shuffled<Item>(items: readonly Item[], random: () => number): Item[] {
  return items
    .map((item) => ({ item, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item)
}
