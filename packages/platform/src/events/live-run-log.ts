import { sseFrame } from '@bureau/protocol'
import { type Frame, type FrameBody, frameData, inParts, numberFrame, readablePart } from './frame.ts'
import type { RunEventReader, RunSnapshot } from './run-event-log.ts'
import { orBreakOff, type StreamBroken } from './stream-broken.ts'

/** Frames that are kept elsewhere may leave memory down to this many bytes. */
const WINDOW_BYTES = 4 * 1024 * 1024

export type LiveRunLogOptions = {
  readonly snapshot: () => RunSnapshot
  /** Frames after `after` that have left memory, in order; not necessarily all. Nothing when they are lost. */
  readonly older: (after: number) => AsyncIterable<readonly Frame[]>
  /** Default 4 MiB. */
  readonly windowBytes?: number
}

/** The frames of one run in memory, shared by all its readers: each has a position, none has a queue. */
export class LiveRunLog implements RunEventReader {
  readonly #options: LiveRunLogOptions
  #frames: Frame[] = []
  #bytes = 0
  #lastSeq = 0
  #held: readonly Frame[] | undefined
  #ended = false
  #broken: StreamBroken | undefined
  readonly #waiting: (() => void)[] = []

  constructor(options: LiveRunLogOptions) {
    this.#options = options
  }

  get head(): number {
    return this.#lastSeq
  }

  get ended(): boolean {
    return this.#ended
  }

  /** False: ignored, because nothing can follow any more. */
  append(body: FrameBody): boolean {
    if (this.#held || this.#broken) return false
    this.#show([numberFrame(this.#lastSeq + 1, body)])
    return true
  }

  /** Numbers the last frames without showing them. Repeated, the new ones take their place. */
  hold(bodies: readonly FrameBody[]): readonly Frame[] {
    this.#held = bodies.map((body, index) => numberFrame(this.#lastSeq + 1 + index, body))
    return this.#held
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

  /** The visible frames after `seq` that are in memory. */
  after(seq: number): readonly Frame[] {
    return this.#frames.slice(this.#indexAfter(seq))
  }

  /** Frames up to `seq` are kept elsewhere: the oldest leave memory while there is more than the window. */
  letGo(seq: number): void {
    const { windowBytes = WINDOW_BYTES } = this.#options
    const until = Math.min(seq, this.#lastBodySeq)
    let count = 0
    while (count < this.#frames.length && this.#frames[count]!.seq <= until && this.#bytes > windowBytes) {
      this.#bytes -= Buffer.byteLength(this.#frames[count]!.text)
      count++
    }
    this.#frames.splice(0, count)
  }

  async *read(after: number, signal: AbortSignal): AsyncGenerator<readonly Frame[], void> {
    const leave = (): void => this.#wakeAll()
    signal.addEventListener('abort', leave, { once: true })
    try {
      for (let position = after; ;) {
        this.#check(signal)
        if (this.hasLeft(position + 1)) {
          position = yield* this.#readOlder(position, signal)
          continue
        }
        const batch = readablePart(this.#frames, this.#indexAfter(position))
        const last = batch.at(-1)
        if (last) {
          yield batch
          position = last.seq
        } else if (this.#ended) return
        else await this.#change()
      }
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }

  /** Yields what is kept elsewhere, or else a `reset`. @returns The number of the last frame. */
  async *#readOlder(after: number, signal: AbortSignal): AsyncGenerator<readonly Frame[], number> {
    let position = after
    for await (const older of orBreakOff(this.#options.older(after))) {
      const frames = older.filter(({ seq }) => seq > position)
      if (frames[0]?.seq !== position + 1) break
      for (const part of inParts(frames)) {
        this.#check(signal)
        yield part
        position = part.at(-1)!.seq
      }
    }
    if (position > after) return position
    this.#check(signal)
    const reset = this.resetFrame()
    yield [reset]
    return reset.seq
  }

  #check(signal: AbortSignal): void {
    signal.throwIfAborted()
    if (this.#broken) throw this.#broken
  }

  /** A `reset` frame that stands for everything before the terminal frames. */
  resetFrame(): Frame {
    const data = JSON.stringify({ reason: 'log_lost', ...this.#options.snapshot() })
    return numberFrame(this.#lastBodySeq, sseFrame(frameData(data), { event: 'reset' }))
  }

  /** The number of the last frame that is not a terminal one. */
  get #lastBodySeq(): number {
    return this.#lastSeq - (this.#ended ? (this.#held?.length ?? 0) : 0)
  }

  /** Whether this frame is no longer in memory. */
  hasLeft(seq: number): boolean {
    const oldest = this.#frames[0]?.seq ?? this.#lastSeq + 1
    return seq < oldest
  }

  /** Frames in memory are numbered without a gap. */
  #indexAfter(seq: number): number {
    const oldest = this.#frames[0]?.seq ?? this.#lastSeq + 1
    return Math.max(0, seq + 1 - oldest)
  }

  #show(frames: readonly Frame[]): void {
    for (const frame of frames) {
      this.#frames.push(frame)
      this.#bytes += Buffer.byteLength(frame.text)
      this.#lastSeq = frame.seq
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
