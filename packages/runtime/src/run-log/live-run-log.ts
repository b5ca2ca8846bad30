import {
  batchAfter,
  type EventBatch,
  inParts,
  lastSeqOf,
  type LogEvent,
  type LogResume,
  partAfter,
  type RunLogReader,
  type RunSnapshot,
  sizeOf,
} from './run-log.ts'
import { orBreakOff, type StreamBroken } from './stream-broken.ts'

/** Events that are kept elsewhere may leave memory down to this many bytes. */
export const WINDOW_BYTES = 4 * 1024 * 1024

type LiveRunLogOptions = {
  readonly snapshot: () => RunSnapshot
  /** Events after `after` that have left memory, in order; not necessarily all. Nothing when they are lost. */
  readonly older: (after: number) => AsyncIterable<EventBatch>
  /** Default 4 MiB. */
  readonly windowBytes?: number | undefined
  readonly resume?: LogResume | undefined
}

/** The events of one run in memory, shared by all its readers: each has a position, none has a queue. */
export class LiveRunLog implements RunLogReader {
  readonly #options: LiveRunLogOptions
  /** Without a gap; the last one has the number `#lastSeq`. */
  #events: LogEvent[] = []
  #bytes = 0
  #lastSeq = 0
  #held: readonly LogEvent[] | undefined
  #ended = false
  #broken: StreamBroken | undefined
  readonly #waiting: (() => void)[] = []

  constructor(options: LiveRunLogOptions) {
    this.#options = options
    this.#lastSeq = (options.resume?.first ?? 1) - 1
  }

  get head(): number {
    return this.#lastSeq
  }

  get ended(): boolean {
    return this.#ended
  }

  /** False: ignored, because nothing can follow any more. */
  append(event: LogEvent): boolean {
    if (this.#held || this.#broken) return false
    this.#show([event])
    return true
  }

  /** Numbers the last events without showing them. Repeated, the new ones take their place. */
  hold(ending: readonly LogEvent[]): EventBatch {
    this.#held = [...ending, { type: 'log.ended' }]
    return { first: this.#lastSeq + 1, events: this.#held }
  }

  release(): void {
    if (!this.#held || this.#broken || this.#ended) return
    this.#ended = true
    this.#show(this.#held)
  }

  abandon(error: StreamBroken): void {
    if (this.#ended) return
    this.#broken ??= error
    this.#wakeAll()
  }

  /** The visible events after `seq` that are in memory. */
  after(seq: number): EventBatch {
    return batchAfter(this.#inMemory, seq)
  }

  /** As many of them as one reader may hold at a time. */
  partAfter(seq: number): EventBatch {
    return partAfter(this.#inMemory, seq)
  }

  /** Events up to `seq` are kept elsewhere: the oldest leave memory while there is more than the window. */
  forgetUpTo(seq: number): void {
    const { windowBytes = WINDOW_BYTES } = this.#options
    const until = Math.min(seq, this.#lastBodySeq) - this.#inMemory.first + 1
    let count = 0
    for (; count < until && this.#bytes > windowBytes; count++) this.#bytes -= sizeOf(this.#events[count]!)
    this.#events.splice(0, count)
  }

  async *read(after: number, signal: AbortSignal): AsyncGenerator<EventBatch, void> {
    const leave = (): void => this.#wakeAll()
    signal.addEventListener('abort', leave, { once: true })
    try {
      for (let position = after; ;) {
        this.#check(signal)
        if (this.#isBetween(position)) position = this.#options.resume!.first - 1
        if (this.hasForgotten(position + 1)) {
          position = yield* this.#readOlder(position, signal)
          continue
        }
        const batch = this.partAfter(position)
        if (batch.events.length > 0) {
          yield batch
          position = lastSeqOf(batch)
        } else if (this.#ended) return
        else await this.#change()
      }
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }

  /** Yields what is kept elsewhere, or else a reset. @returns The number of the last event. */
  async *#readOlder(after: number, signal: AbortSignal): AsyncGenerator<EventBatch, number> {
    let position = after
    for await (const stored of orBreakOff(this.#options.older(after))) {
      const older = batchAfter(stored, position)
      if (older.first !== position + 1) break
      for (const part of inParts(older)) {
        this.#check(signal)
        yield part
        position = lastSeqOf(part)
      }
    }
    if (position > after) return position
    this.#check(signal)
    const reset = this.reset()
    yield reset
    return reset.first
  }

  /** Whether nothing follows on this number before the first event of this process. */
  #isBetween(position: number): boolean {
    const { resume } = this.#options
    return resume !== undefined && position >= resume.earlier && position < resume.first - 1
  }

  #check(signal: AbortSignal): void {
    signal.throwIfAborted()
    if (this.#broken) throw this.#broken
  }

  /** One event that stands for everything before the last ones. */
  reset(): EventBatch {
    const event: LogEvent = { type: 'log.reset', reason: 'log_lost', ...this.#options.snapshot() }
    return { first: this.#lastBodySeq, events: [event] }
  }

  /** The number of the last event before the ending. */
  get #lastBodySeq(): number {
    return this.#lastSeq - (this.#ended ? (this.#held?.length ?? 0) : 0)
  }

  get #inMemory(): EventBatch {
    return { first: this.#lastSeq - this.#events.length + 1, events: this.#events }
  }

  /** Whether this event is no longer in memory. */
  hasForgotten(seq: number): boolean {
    return seq < this.#inMemory.first
  }

  #show(events: readonly LogEvent[]): void {
    for (const event of events) {
      this.#events.push(event)
      this.#bytes += sizeOf(event)
      this.#lastSeq++
    }
    this.#wakeAll()
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** Whoever finds nothing new waits again. */
  #wakeAll(): void {
    for (const wake of this.#waiting.splice(0)) wake()
  }
}
