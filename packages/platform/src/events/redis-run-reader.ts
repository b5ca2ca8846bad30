import { type Frame, inParts, isEndFrame, isResetFrame } from './frame.ts'
import type { RedisStream } from './redis-stream.ts'
import type { RunEventReader } from './run-event-log.ts'
import { StreamBroken } from './stream-broken.ts'

export type RedisRunReaderOptions = {
  /** The last frame that there is now. */
  readonly last: Frame
  /** Aborts when this process leaves its readers to others. */
  readonly leaving: AbortSignal
  /** How often a reader looks without having been told, in milliseconds: a word of Redis may get lost with a connection. */
  readonly lookMs: number
}

/** Reads the log of a run that another process executes. */
export class RedisRunReader implements RunEventReader {
  readonly head: number
  readonly ended: boolean
  readonly #stream: RedisStream
  readonly #options: RedisRunReaderOptions

  constructor(stream: RedisStream, options: RedisRunReaderOptions) {
    const { last } = options
    this.#stream = stream
    this.#options = options
    this.head = last.seq
    this.ended = isEndFrame(last)
  }

  async *read(after: number, signal: AbortSignal): AsyncGenerator<readonly Frame[], void> {
    const { leaving, lookMs } = this.#options
    const news = new News(AbortSignal.any([signal, leaving]))
    const stop = await reach(this.#stream.watch(() => news.arrive()))
    try {
      for (let position = after, silent = false; ;) {
        signal.throwIfAborted()
        if (leaving.aborted) throw new StreamBroken('server_shutdown')
        const frames = await this.#after(position)
        yield* inParts(frames)
        const last = frames.at(-1)
        if (last ? isEndFrame(last) : this.ended) return
        if (last) {
          position = last.seq
          silent = false
          continue
        }
        if (silent) yield []
        silent = true
        await news.wait(lookMs)
      }
    } finally {
      // Redis may be away; the subscription then means nothing any more.
      await stop().catch(() => {})
    }
  }

  async #after(position: number): Promise<readonly Frame[]> {
    const frames = await reach(this.#stream.read(position))
    const first = frames?.[0]
    const isTorn = first && first.seq !== position + 1 && !isResetFrame(first)
    if (!frames || isTorn) throw new StreamBroken('log_lost')
    return frames
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

  constructor(signal: AbortSignal) {
    signal.addEventListener('abort', () => this.arrive(), { once: true })
  }

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
