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
  #isWorking = false

  /** @param send - Resolves to the status of the answer; null: there was none. Never rejects. */
  constructor(send: (notification: Notification) => Promise<number | null>) {
    this.#send = send
  }

  /** What is to be delivered now; undefined: nothing, and nothing is tried again. */
  set due(notification: Notification | undefined) {
    this.#due = notification
    if (!this.#isWorking) void this.#work()
  }

  async #work(): Promise<void> {
    this.#isWorking = true
    for (let attempts = 1; this.#due;) {
      const sent = this.#due
      const status = await this.#send(sent)
      if (isDelivered(status) || status === GONE || attempts === MAX_ATTEMPTS) {
        if (this.#due === sent) this.#due = undefined
        attempts = 1
      } else {
        await sleep(RETRY_MS * 2 ** (attempts++ - 1))
      }
    }
    this.#isWorking = false
  }
}

/** Keeps no process from ending. */
const sleep = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms).unref())
