import type { ResponseStore, StoredResponse } from './response-store.ts'

const MAX_RESPONSES = 10_000
const MAX_BYTES = 134_217_728

type Kept = { readonly response: StoredResponse; readonly keptUntil: number; bytes: number }

/**
 * The responses of this process, each for a while and the newest ones as far as there is room. A conversation counts with
 * each of its responses as a whole, though they share its items.
 */
export class MemoryResponseStore implements ResponseStore {
  readonly #keepMs: number
  readonly #maxBytes: number
  readonly #responses = new Map<string, Kept>()
  #bytes = 0
  #expiry: NodeJS.Timeout | undefined

  /** @param keepMs - How long a response is kept after it was begun. @param maxBytes - Of all together. Default 128 MiB. */
  constructor(keepMs: number, maxBytes: number = MAX_BYTES) {
    this.#keepMs = keepMs
    this.#maxBytes = maxBytes
  }

  find(id: string): StoredResponse | undefined {
    return this.#responses.get(id)?.response
  }

  put(response: StoredResponse): void {
    this.#responses.set(response.id, { response, keptUntil: performance.now() + this.#keepMs, bytes: 0 })
    this.#makeRoom()
    if (this.#expiry === undefined) this.#expiry = this.#expireAfter(this.#keepMs)
  }

  sized(id: string, bytes: number): void {
    const kept = this.#responses.get(id)
    if (!kept) return
    this.#bytes += bytes - kept.bytes
    kept.bytes = bytes
    this.#makeRoom()
  }

  delete(id: string): void {
    this.#bytes -= this.#responses.get(id)?.bytes ?? 0
    this.#responses.delete(id)
  }

  #makeRoom(): void {
    for (const id of this.#responses.keys()) {
      if (this.#responses.size <= MAX_RESPONSES && this.#bytes <= this.#maxBytes) return
      this.delete(id)
    }
  }

  /** One timer, for the oldest: all are kept for the same time. */
  #expireAfter(ms: number): NodeJS.Timeout {
    return setTimeout(() => {
      const now = performance.now()
      for (const [id, { keptUntil }] of this.#responses) {
        if (keptUntil > now) break
        this.delete(id)
      }
      const [oldest] = this.#responses.values()
      this.#expiry = oldest && this.#expireAfter(Math.max(1, oldest.keptUntil - now))
    }, ms).unref()
  }
}
