import type { RedisStream } from './redis-stream.ts'
import {
  type EventBatch,
  inParts,
  isAnnounced,
  isLastBatch,
  lastSeqOf,
  type LogEvent,
  type RunLogReader,
} from './run-log.ts'
import { StreamBroken } from './stream-broken.ts'

type RedisRunReaderOptions = {
  /** The last event that there is now. */
  readonly last: { readonly seq: number; readonly event: LogEvent }
  /** Aborts when this process leaves its readers to others. */
  readonly leaving: AbortSignal
  /** How often a reader looks without having been told, in milliseconds: a word of Redis may get lost with a connection. */
  readonly lookMs: number
}

/** Reads the log of a run that another process executes. */
export class RedisRunReader implements RunLogReader {
  readonly head: number
  readonly ended: boolean
  readonly #stream: RedisStream
  readonly #options: RedisRunReaderOptions

  constructor(stream: RedisStream, options: RedisRunReaderOptions) {
    const { last } = options
    this.#stream = stream
    this.#options = options
    this.head = last.seq
    this.ended = last.event.type === 'log.ended'
  }

  async *read(after: number, signal: AbortSignal): AsyncGenerator<EventBatch, void> {
    const { leaving, lookMs } = this.#options
    const news = new News()
    let isNudged = false
    const onEntry = (): void => news.arrive()
    for (const each of [signal, leaving]) each.addEventListener('abort', onEntry, { once: true })
    const onNudge = (): void => {
      isNudged = true
      news.arrive()
    }
    let stop: (() => Promise<void>) | undefined
    try {
      stop = await reach(this.#stream.watch({ onEntry, onNudge }))
      for (let position = after, silent = false; ;) {
        signal.throwIfAborted()
        if (leaving.aborted) throw new StreamBroken('server_shutdown')
        const batch = await this.#after(position)
        yield* inParts(batch)
        const isNew = batch.events.length > 0
        if (isNew ? isLastBatch(batch) : this.ended) return
        if (isNew) {
          position = lastSeqOf(batch)
          silent = false
          continue
        }
        if (silent || isNudged) yield batch
        silent = true
        isNudged = false
        await news.wait(lookMs)
      }
    } finally {
      // The process outlives its readers: a signal made of both would be kept with what listens to it.
      for (const each of [signal, leaving]) each.removeEventListener('abort', onEntry)
      // Redis may be away; the subscription then means nothing any more, and nobody waits for its end.
      stop?.().catch(() => {})
    }
  }

  async #after(position: number): Promise<EventBatch> {
    const batch = await reach(this.#stream.read(position))
    const isWhole = batch && (batch.first === position + 1 || isAnnounced(batch))
    if (!isWhole) throw new StreamBroken('log_lost')
    return batch
  }
}

/** Whatever Redis answers with: the reader's client comes again. */
async function reach<T>(answer: Promise<T>): Promise<T> {
  return answer.catch((cause: unknown) => {
    throw new StreamBroken('log_unreachable', { cause })
  })
}

/** Remembers that something arrived, and lets one reader wait for it. */
class News {
  #arrived = false
  #wake: (() => void) | undefined

  arrive(): void {
    this.#arrived = true
    this.#wake?.()
  }

  async wait(longestMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, longestMs)
    this.#wake = resolve
    if (!this.#arrived) await promise
    clearTimeout(timer)
    this.#arrived = false
    this.#wake = undefined
  }
}
