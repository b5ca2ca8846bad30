type WebhookDelivererOptions = {
  /**
   * Delivers some of what is due. Answers in how many milliseconds something is due again: 0, there may be more now; null, nothing as
   * far as is known.
   */
  readonly deliver: () => Promise<number | null>
  readonly onError: (error: unknown) => void
}

/** Between two rounds: what is announced meanwhile is delivered together. */
const PAUSE_MS = 1_000

/** Delivers webhooks when something was announced or found to be due, and when one is to be tried again. */
export class WebhookDeliverer {
  readonly #options: WebhookDelivererOptions
  #timer: NodeJS.Timeout | undefined
  #dueAt = Number.POSITIVE_INFINITY
  #round: Promise<void> | undefined
  #lastRoundAt = Number.NEGATIVE_INFINITY
  #isWoken = false
  #isOver = false

  constructor(options: WebhookDelivererOptions) {
    this.#options = options
  }

  /** Something was announced, in a transaction that is committed, or is found to be due. */
  wake(): void {
    this.#isWoken = true
    if (!this.#round) this.#schedule(Math.max(0, this.#lastRoundAt + PAUSE_MS - performance.now()))
  }

  /** Waits for what is being delivered. The rest is for another process, or a later start. */
  async close(): Promise<void> {
    this.#isOver = true
    clearTimeout(this.#timer)
    await this.#round
  }

  /** The next round begins after `ms` at the latest. */
  #schedule(ms: number): void {
    const dueAt = performance.now() + ms
    if (this.#isOver || this.#dueAt <= dueAt) return
    clearTimeout(this.#timer)
    this.#dueAt = dueAt
    this.#timer = setTimeout(() => {
      this.#dueAt = Number.POSITIVE_INFINITY
      this.#round = this.#deliver().finally(() => (this.#round = undefined))
    }, ms).unref()
  }

  async #deliver(): Promise<void> {
    this.#isWoken = false
    this.#lastRoundAt = performance.now()
    let dueMs: number | null = null
    try {
      do dueMs = await this.#options.deliver()
      while (dueMs === 0 && !this.#isOver)
    } catch (error) {
      this.#options.onError(error)
    }
    const nextMs = this.#isWoken ? 0 : dueMs
    if (nextMs !== null) this.#schedule(Math.max(PAUSE_MS, nextMs))
  }
}
