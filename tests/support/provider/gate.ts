import { Counter } from './counter.ts'

/**
 * A stop in an answer that a test opens.
 *
 * Everything before the stop has been handed to the socket when `reached` resolves. Once released, a
 * gate stays open for every later answer.
 */
export class Gate {
  readonly #arrivals = new Counter('answers at the gate')
  readonly #open = Promise.withResolvers<void>()

  /**
   * Resolves when `count` answers have come to this stop.
   *
   * @throws Error after 10 seconds.
   */
  reached(count = 1): Promise<void> {
    return this.#arrivals.reach(count)
  }

  release(): void {
    this.#open.resolve()
  }

  /** Waits until the gate is open or `signal` aborts. Never rejects. */
  async pass(signal: AbortSignal): Promise<void> {
    this.#arrivals.increment()
    if (signal.aborted) return
    const gone = Promise.withResolvers<void>()
    const leave = (): void => gone.resolve()
    signal.addEventListener('abort', leave, { once: true })
    await Promise.race([this.#open.promise, gone.promise])
    signal.removeEventListener('abort', leave)
  }
}
