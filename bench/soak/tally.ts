import type { Plan } from './plans.ts'

/** How the streams of each plan ended. */
export class Tally {
  readonly #plans = new Map<Plan, { streams: number; bad: number; first: string | null }>()
  #begun = 0

  /** The name of the next run. */
  begin(): string {
    this.#begun++
    return String(this.#begun)
  }

  /** `problem` is null for a stream that ended as it must. */
  end(plan: Plan, problem: string | null): void {
    const entry = this.#plans.get(plan) ?? { streams: 0, bad: 0, first: null }
    this.#plans.set(plan, entry)
    entry.streams++
    if (problem === null) return
    entry.bad++
    entry.first ??= problem
  }

  /** One line for each plan that did not go well. */
  problems(): string[] {
    return [...this.#plans].flatMap(([{ behaviour, act }, { streams, bad, first }]) =>
      bad === 0 ? [] : [`${bad} of ${streams} streams (${behaviour}, ${act}): ${first}`],
    )
  }

  /** As Markdown. */
  table(): string[] {
    const rows = [...this.#plans].toSorted(([a], [b]) => a.behaviour.localeCompare(b.behaviour))
    const all = rows.reduce((sum, [, { streams }]) => sum + streams, 0)
    const bad = rows.reduce((sum, [, entry]) => sum + entry.bad, 0)
    return [
      '| the provider | the client | the stream must be | streams | otherwise |',
      '|---|---|---|---|---|',
      ...rows.map(([plan, entry]) => {
        const { behaviour, act, ending } = plan
        return `| ${[behaviour.replaceAll('_', ' '), act, ending, entry.streams, entry.bad].join(' | ')} |`
      }),
      `| all | | | ${all} | ${bad} |`,
    ]
  }
}
