import { ServiceError } from '@bureau/protocol'
import type { LiveRun } from '@bureau/runtime'

/** Limits how many runs this process works on at once. */
export class RunSlots {
  readonly #limit: number
  #taken = 0

  constructor(limit = 10_000) {
    this.#limit = limit
  }

  /**
   * Starts a run; its place is free again when it has ended.
   *
   * @throws ServiceError `overloaded` all places are taken. Nothing has begun then.
   */
  async start(begin: () => Promise<LiveRun>): Promise<LiveRun> {
    if (this.#taken >= this.#limit) throw new ServiceError('overloaded', { headers: { 'retry-after': '1' } })
    this.#taken++
    const free = (): void => void this.#taken--
    try {
      const run = await begin()
      void run.ended.then(free)
      return run
    } catch (error) {
      free()
      throw error
    }
  }
}
