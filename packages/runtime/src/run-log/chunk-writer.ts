import { encodeChunk } from './event-text.ts'
import type { LiveRunLog } from './live-run-log.ts'
import type { ChunkStorage, EventBatch, EventChunk } from './run-log.ts'

/** Gives the log of a run to durable storage, in chunks that follow on each other. */
export class ChunkWriter {
  readonly #live: LiveRunLog
  readonly #chunks: ChunkStorage
  #storedSeq = 0
  #sealed = false
  #storing: Promise<void> | undefined
  /** Handed to storage, but not known to be there. */
  #unconfirmed: EventChunk | undefined

  constructor(live: LiveRunLog, chunks: ChunkStorage) {
    this.#live = live
    this.#chunks = chunks
  }

  /** The number of the last event that storage has. */
  get storedSeq(): number {
    return this.#storedSeq
  }

  /** Stores what is new. Calls do not overlap; a failed one is repeated with the same chunk. */
  store(): Promise<void> {
    this.#storing ??= this.#storeNext().finally(() => (this.#storing = undefined))
    return this.#storing
  }

  /** Stores all that there is now, also what came while something was being stored. */
  async storeAll(): Promise<void> {
    await this.#storing?.catch(() => {})
    await this.store()
  }

  async #storeNext(): Promise<void> {
    if (!this.#unconfirmed) {
      // What a sealed log still has belongs to the transaction that ends the run.
      const batch = this.#live.after(this.#storedSeq)
      if (this.#sealed || batch.events.length === 0) return
      this.#unconfirmed = await encodeChunk(batch)
    }
    await this.#chunks.append(this.#unconfirmed)
    this.#storedSeq = this.#unconfirmed.lastSeq
    this.#unconfirmed = undefined
  }

  /** The last chunk, with the events of the ending. Waits until what was handed over before is stored. May be repeated. */
  async seal(held: EventBatch): Promise<EventChunk> {
    this.#sealed = true
    await this.#storing?.catch(() => {})
    if (this.#unconfirmed) await this.store()
    const { first, events } = this.#live.after(this.#storedSeq)
    return encodeChunk({ first, events: [...events, ...held.events] })
  }
}
