import { isDelivered } from '@bureau/runtime'
import type { Notification } from './push.ts'

/** After 5 s, 10 s, 20 s … : the last attempt is 21 minutes after the first. */
const RETRY_MS = 5_000
const MAX_ATTEMPTS = 9
const GONE = 410

/**
 * Notifies one receiver of one task, for as long as this process lives. Of several changes that it has missed, it gets the last
 * one.
 */
export class PushDelivery {
  readonly #send: (notification: Notification) => Promise<number | null>
  #due: Notification | undefined
  /** Of what is due. */
  #attempts = 0
  #isSending = false
  #timer: NodeJS.Timeout | undefined

  /** @param send - Resolves to the status of the answer; null: there was none. Never rejects. */
  constructor(send: (notification: Notification) => Promise<number | null>) {
    this.#send = send
  }

  /** What is to be delivered now; undefined: nothing, and nothing is tried again. */
  set due(notification: Notification | undefined) {
    this.#due = notification
    this.#attempts = 0
    clearTimeout(this.#timer)
    if (!this.#isSending) void this.#deliver()
  }

  /** One after the other, so that the receiver gets the last one last. */
  async #deliver(): Promise<void> {
    const sent = this.#due
    if (!sent) return
    this.#isSending = true
    const status = await this.#send(sent)
    this.#isSending = false
    if (this.#due !== sent) return this.#deliver()
    if (isDelivered(status) || status === GONE || ++this.#attempts === MAX_ATTEMPTS) this.#due = undefined
    else this.#timer = setTimeout(() => void this.#deliver(), RETRY_MS * 2 ** (this.#attempts - 1)).unref()
  }
}
