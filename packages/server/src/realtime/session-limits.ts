import type { RealtimeSettings } from './realtime-options.ts'

type SessionLimitSettings = Pick<
  RealtimeSettings,
  'maxMessagesPerSecond' | 'maxSessionBytes' | 'maxSessionMs' | 'idleMs'
>

/** Bounds what one session may cost: its length, its silence, and how much and how often its client sends. */
export class SessionLimits {
  readonly #settings: SessionLimitSettings
  readonly #end: (reason: string) => void
  readonly #lifetime: NodeJS.Timeout
  #idle: NodeJS.Timeout | undefined
  #lastActiveAt = performance.now()
  #receivedBytes = 0
  /** Messages that may come at once: at most those of one second. */
  #credit: number
  #creditedAt = performance.now()

  /** @param end - Called once with the reason, when the session is over. */
  constructor(settings: SessionLimitSettings, end: (reason: string) => void) {
    this.#settings = settings
    this.#credit = settings.maxMessagesPerSecond
    this.#end = (reason) => {
      this.close()
      end(reason)
    }
    this.#lifetime = setTimeout(() => this.#end('session too long'), settings.maxSessionMs).unref()
    this.#watchIdleness(settings.idleMs)
  }

  /** False: the client sends too fast, and should be read again when this is true. */
  get mayGoOn(): boolean {
    const { maxMessagesPerSecond: rate } = this.#settings
    const now = performance.now()
    this.#credit = Math.min(rate, this.#credit + ((now - this.#creditedAt) * rate) / 1000)
    this.#creditedAt = now
    return this.#credit > 0
  }

  /** The client or the model has sent something. */
  touch(): void {
    this.#lastActiveAt = performance.now()
  }

  /** The client has sent a message. */
  count(bytes: number): void {
    this.touch()
    this.#credit--
    this.#receivedBytes += bytes
    if (this.#receivedBytes > this.#settings.maxSessionBytes) this.#end('session too large')
  }

  close(): void {
    clearTimeout(this.#lifetime)
    clearTimeout(this.#idle)
  }

  /** Looked at when it may be over, because a timer for each message and each piece of audio would cost more. */
  #watchIdleness(delayMs: number): void {
    this.#idle = setTimeout(() => {
      const leftMs = this.#settings.idleMs - (performance.now() - this.#lastActiveAt)
      if (leftMs <= 0) this.#end('session idle')
      else this.#watchIdleness(leftMs)
    }, delayMs).unref()
  }
}
