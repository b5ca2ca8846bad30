import type { ReplicaPulse } from './replicas.repo.ts'

/** A process is dead when its counter stood still over this many successful polls in a row: 45 seconds. */
const DEAD_AFTER_POLLS = 9
/** Polls that come faster than this do not count: a delayed timer cannot bunch them up. */
const POLL_MS = 5_000
/** Timers fire a little early or late. */
const TOLERANCE_MS = 250

/**
 * Judges which processes are dead, by the observer's own monotonic clock and nothing else.
 *
 * No wall clock is compared, so neither skew nor jumps of clocks matter. A failed poll forgets everything: a database
 * outage never makes the processes declare each other dead.
 */
export class ReplicaMonitor {
  readonly #seen = new Map<string, { hbSeq: number; still: number }>()
  #lastPollAt = -Infinity

  /** @param now Monotonic milliseconds. @returns Processes to declare dead, with the counter they stood still at. */
  observe(pulses: readonly ReplicaPulse[], now: number): ReplicaPulse[] {
    if (now - this.#lastPollAt < POLL_MS - TOLERANCE_MS) return []
    this.#lastPollAt = now
    const present = new Set(pulses.map((pulse) => pulse.bootId))
    for (const bootId of this.#seen.keys()) if (!present.has(bootId)) this.#seen.delete(bootId)
    return pulses.filter((pulse) => this.#count(pulse) >= DEAD_AFTER_POLLS)
  }

  pollFailed(): void {
    this.#seen.clear()
  }

  /** How many polls in a row the counter has stood still. The poll that saw it first does not count. */
  #count({ bootId, hbSeq }: ReplicaPulse): number {
    const seen = this.#seen.get(bootId)
    const still = seen?.hbSeq === hbSeq ? seen.still + 1 : 0
    this.#seen.set(bootId, { hbSeq, still })
    return still
  }
}
