import { checkScene } from './checks/check-scene.ts'
import { type Engine, Installation } from './installation.ts'
import { type Plan, type PlanResult, within } from './plan.ts'
import { Tenant } from './tenant.ts'

/** Far above what any plan takes, on a busy machine too. */
const PLAN_MS = 300_000

/** Carries out plans on one engine, one after the other, on the same installation as long as it serves. */
export class FaultRunner {
  readonly #engine: Engine
  readonly #random: () => number
  #installation: Installation | undefined

  constructor(engine: Engine, random: () => number) {
    this.#engine = engine
    this.#random = random
  }

  async carryOut(plan: Plan): Promise<PlanResult> {
    const startedAt = performance.now()
    const violations: string[] = []
    const object = (violation: string): void => void violations.push(violation)
    let admitted = 0
    try {
      const installation = await this.#installationFor(plan)
      const tenant = await Tenant.create(installation)
      const scene = { installation, tenant, random: this.#random, object }
      const played = plan.play(scene).then(() => checkScene(scene))
      if (await within(played, PLAN_MS)) admitted = await played
      else object('the plan did not end')
    } catch (error) {
      object(`the plan broke off: ${error instanceof Error ? error.stack : String(error)}`)
    }
    if (violations.length > 0) violations.push(`servers said: ${this.#lastWords()}`)
    // What went wrong may go on: the next plan has a new installation.
    if (violations.length > 0 || plan.firstFault) await this.close()
    return { engine: this.#engine, plan, admitted, violations, seconds: (performance.now() - startedAt) / 1_000 }
  }

  async close(): Promise<void> {
    const installation = this.#installation
    this.#installation = undefined
    await installation?.close()
  }

  async #installationFor({ scale, firstFault }: Plan): Promise<Installation> {
    const current = this.#installation?.scale
    if (current?.processes !== scale.processes || current.redis !== scale.redis || firstFault) await this.close()
    this.#installation ??= await Installation.open({ engine: this.#engine, ...scale }, { firstFault })
    return this.#installation
  }

  #lastWords(): string {
    const lines = this.#installation?.output.split('\n') ?? []
    return lines
      .filter((line) => /"level":(40|50|60)/.test(line))
      .slice(-5)
      .map((line) => line.slice(0, 400))
      .join('\n')
  }
}
