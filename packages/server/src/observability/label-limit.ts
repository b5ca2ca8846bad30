const MAX_CHARACTERS = 128

/** Keeps the values of a label few and short: what comes after the first `limit` values is `other`. */
export class LabelLimit {
  readonly #limit: number
  readonly #known = new Set<string>()

  constructor(limit: number) {
    this.#limit = limit
  }

  of(given: string): string {
    const value = given.slice(0, MAX_CHARACTERS)
    if (this.#known.has(value)) return value
    if (this.#known.size >= this.#limit) return 'other'
    this.#known.add(value)
    return value
  }
}
