import { setTimeout as sleep } from 'node:timers/promises'
import { decodeChunk } from './event-text.ts'
import {
  batchAfter,
  type ChunkStorage,
  type EventBatch,
  inParts,
  isAnnounced,
  isLastBatch,
  lastSeqOf,
  type RunLogReader,
} from './run-log.ts'
import { orBreakOff, StreamBroken } from './stream-broken.ts'

type StoredRunFollowerOptions = {
  readonly chunks: Pick<ChunkStorage, 'read'>
  /** The number of the last event that is stored. */
  readonly head: number
  /** True: the log itself can be read again, and its readers are to come back for it. */
  readonly isOver: () => boolean
}

/** As often as processes store the logs of their runs. */
const LOOK_MS = 1_000

/** Follows a run of another process by what that gives to durable storage, while its log cannot be reached. */
export class StoredRunFollower implements RunLogReader {
  readonly ended = false
  readonly head: number
  readonly #options: StoredRunFollowerOptions

  constructor(options: StoredRunFollowerOptions) {
    this.head = options.head
    this.#options = options
  }

  async *read(after: number, signal: AbortSignal): AsyncGenerator<EventBatch, void> {
    let position = after
    for (;;) {
      signal.throwIfAborted()
      for await (const batch of orBreakOff(this.#stored(position))) {
        yield batch
        if (isLastBatch(batch)) return
        position = lastSeqOf(batch)
      }
      if (this.#options.isOver()) throw new StreamBroken('log_unreachable')
      yield { first: position + 1, events: [] }
      await sleep(LOOK_MS, undefined, { signal, ref: false })
    }
  }

  async *#stored(after: number): AsyncGenerator<EventBatch, void> {
    let position = after
    for (const chunk of await this.#options.chunks.read(after)) {
      const batch = batchAfter(await decodeChunk(chunk), position)
      if (batch.first !== position + 1 && !isAnnounced(batch)) throw new StreamBroken('log_lost')
      yield* inParts(batch)
      position = lastSeqOf(batch)
    }
  }
}
