import { type RunOutcome, terminalFrames } from '../completions/encode-completion.ts'
import { decodeChunk } from './event-chunk.ts'
import { type Frame, inParts, isEndFrame, numberFrame } from './frame.ts'
import type { ChunkStorage, RunEventReader } from './run-event-log.ts'
import { orBreakOff } from './stream-broken.ts'

export type StoredRun = {
  readonly chunks: Pick<ChunkStorage, 'read'>
  /** The number of `end`, as the record of the run has it. */
  readonly lastSeq: number
  readonly outcome: RunOutcome
}

/** What is left of the log of a run that has ended. */
export class StoredRunLog implements RunEventReader {
  readonly ended = true
  readonly head: number
  readonly #run: StoredRun

  constructor(run: StoredRun) {
    this.#run = run
    this.head = run.lastSeq
  }

  /** Whether a reader at `after` is given everything. Otherwise only the terminal frames follow (`replayed`). */
  async hasAllAfter(after: number): Promise<boolean> {
    if (after >= this.head - this.#terminal().length) return true
    const [next] = await this.#run.chunks.read(after)
    return next !== undefined && next.firstSeq <= after + 1
  }

  /**
   * The frames that were stored, as far as they follow on each other, and then the terminal ones: stored with them, or
   * made from the record when the process that executed the run died, or when the stored ones are gone.
   */
  async *read(after: number, signal: AbortSignal): AsyncGenerator<readonly Frame[], void> {
    let position = after
    for await (const frames of orBreakOff(this.#stored(after))) {
      signal.throwIfAborted()
      yield frames
      if (isEndFrame(frames.at(-1)!)) return
      position = frames.at(-1)!.seq
    }
    signal.throwIfAborted()
    const terminal = this.#terminal().filter(({ seq }) => seq > position)
    if (terminal.length > 0) yield terminal
  }

  async *#stored(after: number): AsyncGenerator<readonly Frame[], void> {
    for (let position = after; ;) {
      const chunks = await this.#run.chunks.read(position)
      if (chunks.length === 0) return
      for (const chunk of chunks) {
        if (chunk.firstSeq > position + 1) return
        const frames = (await decodeChunk(chunk)).filter(({ seq }) => seq > position)
        yield* inParts(frames)
        position = Math.max(position, chunk.lastSeq)
      }
    }
  }

  #terminal(): Frame[] {
    const bodies = terminalFrames(this.#run.outcome)
    const first = Math.max(1, this.#run.lastSeq - bodies.length + 1)
    return bodies.map((body, index) => numberFrame(first + index, body))
  }
}
