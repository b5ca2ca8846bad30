/**
 * One timer for everything in a process that gathers things for a short while.
 *
 * It runs only while something waits.
 */
export class FlushTimer {
  readonly #intervalMs: number
  readonly #waiting = new Set<() => boolean>()
  #timer: NodeJS.Timeout | undefined

  /** @param intervalMs - Longest wait of what is added. */
  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs
  }

  /** Calls `flush` at every tick until it returns false. */
  add(flush: () => boolean): void {
    this.#waiting.add(flush)
    this.#timer ??= setInterval(() => this.#tick(), this.#intervalMs)
  }

  #tick(): void {
    for (const flush of this.#waiting) if (!flush()) this.#waiting.delete(flush)
    if (this.#waiting.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
