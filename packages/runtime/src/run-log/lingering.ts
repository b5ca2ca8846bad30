/** Longest time that something stays too long. */
const STEP_MS = 1_000

/** Keeps things for a while after they are over: all for as long, so one timer does for all of them. */
export class Lingering {
  readonly #ms: number
  readonly #waiting: { readonly until: number; readonly expire: () => void }[] = []
  #timer: NodeJS.Timeout | undefined

  constructor(ms: number) {
    this.#ms = ms
  }

  /** Calls `expire` when the time is over. Does not keep the process alive. */
  add(expire: () => void): void {
    this.#waiting.push({ until: performance.now() + this.#ms, expire })
    this.#timer ??= setTimeout(() => this.#tick(), Math.min(this.#ms, STEP_MS)).unref()
  }

  #tick(): void {
    const now = performance.now()
    const left = this.#waiting.findIndex(({ until }) => until > now)
    for (const { expire } of this.#waiting.splice(0, left < 0 ? this.#waiting.length : left)) expire()
    this.#timer = left < 0 ? undefined : this.#timer?.refresh()
  }
}
