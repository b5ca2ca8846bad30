/** As for all that tests wait for: it comes in milliseconds, or in seconds on a machine that others use too. */
const PATIENCE_MS = 30_000

/** A count that only grows and that a test can wait for, so that no test has to sleep. */
export class Counter {
  readonly #noun: string
  readonly #waiting = new Set<() => void>()
  #value = 0

  /** @param noun - What is counted, in the plural, for the message of a wait that ran out. */
  constructor(noun: string) {
    this.#noun = noun
  }

  get value(): number {
    return this.#value
  }

  increment(): void {
    this.#value++
    for (const look of this.#waiting) look()
  }

  /**
   * Resolves once the count is `count` or more; at once when it already is.
   *
   * @throws Error naming how far the count came, when the time is over.
   */
  reach(count: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (finish: () => void): void => {
        clearTimeout(timer)
        this.#waiting.delete(look)
        finish()
      }
      const look = (): void => {
        if (this.#value >= count) settle(resolve)
      }
      const timer = setTimeout(() => {
        const message = `Waited ${PATIENCE_MS} ms for ${count} ${this.#noun}, saw ${this.#value}.`
        settle(() => reject(new Error(message)))
      }, PATIENCE_MS)
      this.#waiting.add(look)
      look()
    })
  }
}
