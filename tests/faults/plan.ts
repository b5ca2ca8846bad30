import type { Fault } from './fault.ts'
import type { Engine, Installation, Scale } from './installation.ts'
import type { Tenant } from './tenant.ts'

/** What a plan acts on: an installation that earlier plans may have used, and an integration of its own. */
export type Scene = {
  readonly installation: Installation
  readonly tenant: Tenant
  /** Numbers from 0 to 1, the same for the same seed. */
  readonly random: () => number
  /** Reports what must not be. */
  readonly object: (violation: string) => void
}

export type Plan = {
  /** The row of the table. */
  readonly group: string
  /** The line: what exactly is done. */
  readonly title: string
  readonly scale: Omit<Scale, 'engine'>
  readonly engines: readonly Engine[]
  /** On a new installation, whose first start this ends. */
  readonly firstFault?: Fault
  /** Does the harm and undoes it: afterwards every process is to serve. */
  readonly play: (scene: Scene) => Promise<void>
}

export type PlanResult = {
  readonly engine: Engine
  readonly plan: Plan
  readonly admitted: number
  readonly violations: readonly string[]
  readonly seconds: number
}

export const BOTH: readonly Engine[] = ['embedded', 'postgres']
export const ONE = { processes: 1, redis: false } as const
export const TWO = { processes: 2, redis: true } as const

export const pick = <Item>(items: readonly Item[], random: () => number): Item =>
  items[Math.floor(random() * items.length)]!

/** Resolves to false when `promise` takes longer. */
export async function within(promise: Promise<unknown>, milliseconds: number): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<false>()
  const timer = setTimeout(() => resolve(false), milliseconds)
  const inTime = await Promise.race([promise.then(() => true), late])
  clearTimeout(timer)
  return inTime
}

export function pause(milliseconds: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  setTimeout(resolve, milliseconds)
  return promise
}

/**
 * Asks again until the answer is true; false when it is not after `milliseconds`. For what other processes do without
 * telling anybody: recovering, taking over, letting go of a lock.
 */
export async function eventually(isTrue: () => Promise<boolean>, milliseconds: number): Promise<boolean> {
  for (const until = performance.now() + milliseconds; ;) {
    if (await isTrue()) return true
    if (performance.now() > until) return false
    await pause(100)
  }
}
