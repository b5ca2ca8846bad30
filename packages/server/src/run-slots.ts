import { ServiceError } from '@bureau/protocol'
import type { LiveRun } from '@bureau/runtime'

/** Limits how many runs and voice sessions this process works on at once. */
export class RunSlots {
  readonly #limit: number
  #taken = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /**
   * Takes a place. Returns what gives it back, once.
   *
   * @throws ServiceError `overloaded` all places are taken.
   */
  take(): () => void {
    if (this.#taken >= this.#limit) throw new ServiceError('overloaded', { headers: { 'retry-after': '1' } })
    this.#taken++
    let held = true
    return () => {
      if (held) this.#taken--
      held = false
    }
  }

  /**
   * Starts a run; its place is free again when it has ended.
   *
   * @throws ServiceError `overloaded` all places are taken. Nothing has begun then.
   */
  async start<Run extends Pick<LiveRun, 'ended'>>(begin: () => Promise<Run>): Promise<Run> {
    const free = this.take()
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
