type WebhookDelivererOptions = {
  /** Delivers what is due. Answers in how many milliseconds something is due again; null: not as far as is known. */
  readonly deliver: () => Promise<number | null>
  readonly onError: (error: unknown) => void
}

/** For what another process announced and did not live to deliver. */
const POLL_MS = 30_000
/** Between two rounds: what is announced meanwhile is delivered together. */
const PAUSE_MS = 1_000

/** Delivers webhooks when something was announced here, when one is to be tried again, and every half minute. */
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
    this.#schedule(POLL_MS)
  }

  /** Something was announced, in a transaction that is committed. */
  wake(): void {
    this.#isWoken = true
    if (!this.#round) this.#schedule(Math.max(0, this.#lastRoundAt + PAUSE_MS - performance.now()))
  }

  /** Waits for the round under way. */
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
      dueMs = await this.#options.deliver()
    } catch (error) {
      this.#options.onError(error)
    }
    const nextMs = this.#isWoken ? PAUSE_MS : Math.max(PAUSE_MS, dueMs ?? POLL_MS)
    this.#schedule(Math.min(POLL_MS, nextMs))
  }
}
