import type { ReplicaPulse } from './replicas.repo.ts'

/** How often a process says that it lives and looks whether others do, and how long a counter may stand still. */
export type Pace = { readonly beatMs: number; readonly pollMs: number; readonly deadAfterMs: number }

/** Of processes whose lock goes with them: their heartbeats show only that they are not stopped. */
export const LOCKED: Pace = { beatMs: 5_000, pollMs: 15_000, deadAfterMs: 45_000 }
/** Of processes that have nothing else, because a pooler is between them and the database. */
export const UNLOCKED: Pace = { beatMs: 2_000, pollMs: 2_000, deadAfterMs: 12_000 }

/** Timers fire a little early or late. */
const TOLERANCE_MS = 250

/**
 * Judges which processes are dead, by the observer's own monotonic clock and nothing else.
 *
 * No wall clock is compared, so neither skew nor jumps of clocks matter. A failed poll forgets everything: a database
 * outage never makes the processes declare each other dead.
 */
export class ReplicaMonitor {
  readonly #seen = new Map<string, { hbSeq: number; stillMs: number }>()
  readonly #pollMs: number
  #lastPollAt = -Infinity

  /** @param pollMs - How often it is asked. Polls that come faster do not count: a delayed timer cannot bunch them up. */
  constructor({ pollMs }: { readonly pollMs: number }) {
    this.#pollMs = pollMs
  }

  /** @param now Monotonic milliseconds. */
  isDue(now: number): boolean {
    return now - this.#lastPollAt >= this.#pollMs - TOLERANCE_MS
  }

  /** @param now Monotonic milliseconds. @returns Processes to declare dead, with the counter they stood still at. */
  observe(pulses: readonly ReplicaPulse[], now: number): ReplicaPulse[] {
    if (!this.isDue(now)) return []
    this.#lastPollAt = now
    const present = new Set(pulses.map((pulse) => pulse.bootId))
    for (const bootId of this.#seen.keys()) if (!present.has(bootId)) this.#seen.delete(bootId)
    return pulses.filter((pulse) => this.#count(pulse) >= (pulse.isLocked ? LOCKED : UNLOCKED).deadAfterMs)
  }

  pollFailed(): void {
    this.#seen.clear()
  }

  /** For how long the counter has stood still, by whole polls. The poll that saw it first does not count. */
  #count({ bootId, hbSeq }: ReplicaPulse): number {
    const seen = this.#seen.get(bootId)
    const stillMs = seen?.hbSeq === hbSeq ? seen.stillMs + this.#pollMs : 0
    this.#seen.set(bootId, { hbSeq, stillMs })
    return stillMs
  }
}
