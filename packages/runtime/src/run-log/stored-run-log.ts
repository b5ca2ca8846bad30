import type { Message } from '@bureau/protocol'
import { decodeChunk } from './event-text.ts'
import {
  batchAfter,
  type ChunkStorage,
  type EventBatch,
  inParts,
  isAnnounced,
  isLastBatch,
  lastSeqOf,
  type LogEvent,
  type RunLogReader,
} from './run-log.ts'
import { orBreakOff } from './stream-broken.ts'

type StoredRun = {
  readonly chunks: Pick<ChunkStorage, 'read'>
  /** The number of `log.ended`, as the record of the run has it. */
  readonly lastSeq: number
  /** The last events before `log.ended`, made from the record. */
  readonly ending: readonly LogEvent[]
  /** What the run has produced, for readers who miss events before the ending. Absent: they are given the ending alone. */
  readonly produced?: readonly Message[]
}

/** What is left of the log of a run that has ended. */
export class StoredRunLog implements RunLogReader {
  readonly ended = true
  readonly head: number
  readonly #chunks: StoredRun['chunks']
  readonly #ending: EventBatch
  readonly #produced: readonly Message[] | undefined

  constructor({ chunks, lastSeq, ending, produced }: StoredRun) {
    this.head = lastSeq
    this.#chunks = chunks
    this.#produced = produced
    this.#ending = { first: Math.max(1, lastSeq - ending.length), events: [...ending, { type: 'log.ended' }] }
  }

  /** Whether a reader at `after` is given everything. Otherwise only the last events follow. */
  async hasAllAfter(after: number): Promise<boolean> {
    if (after >= this.head - this.#ending.events.length) return true
    const [next] = await this.#chunks.read(after)
    return next !== undefined && (next.firstSeq <= after + 1 || isAnnounced(await decodeChunk(next)))
  }

  /**
   * The events that were stored, as far as they follow on each other, and then the last ones: stored with them, or made
   * from the record when the process that executed the run died, or when the stored ones are gone.
   */
  async *read(after: number, signal: AbortSignal): AsyncGenerator<EventBatch, void> {
    let position = after
    for await (const batch of orBreakOff(this.#stored(after))) {
      signal.throwIfAborted()
      yield batch
      if (isLastBatch(batch)) return
      position = lastSeqOf(batch)
    }
    signal.throwIfAborted()
    const ending = batchAfter(this.#ending, position)
    if (ending.events.length > 0) yield this.#announced(ending, position)
  }

  /** Numbers that are missing are announced: what the run has produced stands in place of their events. */
  #announced({ first, events }: EventBatch, position: number): EventBatch {
    if (!this.#produced || first === position + 1) return { first, events }
    const reset: LogEvent = { type: 'log.reset', reason: 'log_lost', new_messages: this.#produced }
    return { first: first - 1, events: [reset, ...events] }
  }

  async *#stored(after: number): AsyncGenerator<EventBatch, void> {
    for (let position = after; ;) {
      const chunks = await this.#chunks.read(position)
      if (chunks.length === 0) return
      for (const chunk of chunks) {
        const batch = await decodeChunk(chunk)
        if (chunk.firstSeq > position + 1 && !isAnnounced(batch)) return
        yield* inParts(batchAfter(batch, position))
        position = Math.max(position, chunk.lastSeq)
      }
    }
  }
}
