import { type Frame, inParts, isEndFrame, isResetFrame } from './frame.ts'
import type { RedisStream } from './redis-stream.ts'
import type { RunEventReader } from './run-event-log.ts'
import { StreamBroken } from './stream-broken.ts'

/** How often a reader looks without having been told: a word of Redis may get lost with a connection. */
const LOOK_MS = 5_000

/** Reads the log of a run that another process executes. */
export class RedisRunReader implements RunEventReader {
  readonly head: number
  readonly ended: boolean
  readonly #stream: RedisStream

  constructor(stream: RedisStream, last: Frame) {
    this.#stream = stream
    this.head = last.seq
    this.ended = isEndFrame(last)
  }

  async *read(after: number, signal: AbortSignal): AsyncGenerator<readonly Frame[], void> {
    const news = new News(signal)
    const stop = await reach(this.#stream.watch(() => news.arrive()))
    try {
      for (let position = after; ;) {
        signal.throwIfAborted()
        const frames = await this.#after(position)
        yield* inParts(frames)
        const last = frames.at(-1)
        if (last ? isEndFrame(last) : this.ended) return
        if (last) position = last.seq
        else await news.wait(LOOK_MS)
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
