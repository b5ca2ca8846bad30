import { monitorEventLoopDelay } from 'node:perf_hooks'
import { ServiceError } from '@bureau/protocol'

const SAMPLE_MS = 1_000
/** Each sample wakes the process, also an idle one. */
const RESOLUTION_MS = 100

/** Notices that this process cannot keep up, by the delay of its event loop over the last second. */
export class Overload {
  readonly #maxLagMs: number
  readonly #delays: ReturnType<typeof monitorEventLoopDelay>
  readonly #timer: NodeJS.Timeout
  #lagMs = 0

  /** @param maxLagMs 0: never overloaded. */
  constructor(maxLagMs: number) {
    this.#maxLagMs = maxLagMs
    this.#delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
    this.#delays.enable()
    this.#timer = setInterval(() => this.#sample(), SAMPLE_MS).unref()
  }

  /** Mean delay in milliseconds. */
  get lagMs(): number {
    return this.#lagMs
  }

  /** @throws ServiceError `overloaded` */
  check(): void {
    if (this.#maxLagMs > 0 && this.#lagMs > this.#maxLagMs) throw overloaded()
  }

  close(): void {
    clearInterval(this.#timer)
    this.#delays.disable()
  }

  #sample(): void {
    const mean = this.#delays.mean / 1e6
    this.#lagMs = Number.isFinite(mean) ? Math.max(0, mean - RESOLUTION_MS) : 0
    this.#delays.reset()
  }
}

export function overloaded(): ServiceError {
  return new ServiceError('overloaded', { headers: { 'Retry-After': '1' } })
}
