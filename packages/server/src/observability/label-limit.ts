/** Keeps the values of a label few: what comes after the first `limit` values is `other`. */
export class LabelLimit {
  readonly #limit: number
  readonly #known = new Set<string>()

  constructor(limit: number) {
    this.#limit = limit
  }

  of(value: string): string {
    if (this.#known.has(value)) return value
    if (this.#known.size >= this.#limit) return 'other'
    this.#known.add(value)
    return value
  }
}
