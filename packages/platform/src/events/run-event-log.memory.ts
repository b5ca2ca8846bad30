import { decodeChunk, encodeChunk } from './event-chunk.ts'
import type { Frame, FrameBody } from './frame.ts'
import { Lingering } from './lingering.ts'
import { LiveRunLog } from './live-run-log.ts'
import type { ChunkStorage, NewRunLog, RunEventLog, RunEventLogs, SealedLog } from './run-event-log.ts'
import type { EventChunk } from '../runs/settle-run.ts'
import { StreamBroken } from './stream-broken.ts'

/** How long a log that has ended stays in memory for those who come late; afterwards chunks answer. */
const LINGER_MS = 1_000

export type MemoryRunEventLogsOptions = {
  /** Default 1,000. */
  readonly lingerMs?: number
  /** Default 4 MiB. */
  readonly windowBytes?: number
}

/** Embedded: one process executes all runs. Logs are in memory and, in chunks of a second, in durable storage. */
export class MemoryRunEventLogs implements RunEventLogs {
  readonly #options: MemoryRunEventLogsOptions
  readonly #logs = new Map<string, MemoryRunEventLog>()
  readonly #ended: Lingering

  constructor(options: MemoryRunEventLogsOptions = {}) {
    this.#options = options
    this.#ended = new Lingering(options.lingerMs ?? LINGER_MS)
  }

  create(run: NewRunLog): RunEventLog {
    if (this.#logs.has(run.runId)) throw new Error(`run ${run.runId} has a log already`)
    const { windowBytes } = this.#options
    const onEnd = (): void => this.#ended.add(() => this.#logs.delete(run.runId))
    const log = new MemoryRunEventLog(run, { onEnd, ...(windowBytes !== undefined && { windowBytes }) })
    this.#logs.set(run.runId, log)
    return log
  }

  async find(runId: string): Promise<MemoryRunEventLog | undefined> {
    return this.#logs.get(runId)
  }

  async nudge(): Promise<void> {}

  sendReadersAway(): void {}

  async close(): Promise<void> {
    for (const log of this.#logs.values()) log.abandon(new StreamBroken('server_shutdown'))
    this.#logs.clear()
  }
}

class MemoryRunEventLog implements RunEventLog {
  readonly #live: LiveRunLog
  readonly #chunks: ChunkStorage
  readonly #onEnd: () => void
  #storedSeq = 0
  #sealed = false
  #storing: Promise<void> | undefined
  /** Handed to storage, but not known to be there. */
  #unconfirmed: EventChunk | undefined

  constructor(
    { chunks, snapshot }: NewRunLog,
    { onEnd, ...window }: { readonly onEnd: () => void; readonly windowBytes?: number },
  ) {
    const older = async function* (after: number): AsyncGenerator<readonly Frame[], void> {
      for (const chunk of await chunks.read(after)) yield decodeChunk(chunk)
    }
    this.#live = new LiveRunLog({ snapshot, older, ...window })
    this.#chunks = chunks
    this.#onEnd = onEnd
  }

  get head(): number {
    return this.#live.head
  }

  get ended(): boolean {
    return this.#live.ended
  }

  read(after: number, signal: AbortSignal): AsyncIterable<readonly Frame[]> {
    return this.#live.read(after, signal)
  }

  append(body: FrameBody): void {
    this.#live.append(body)
  }

  store(): Promise<void> {
    this.#storing ??= this.#storeNext().finally(() => (this.#storing = undefined))
    return this.#storing
  }

  async #storeNext(): Promise<void> {
    if (!this.#unconfirmed) {
      // What a sealed log still has belongs to the transaction that ends the run.
      const frames = this.#sealed ? [] : this.#live.after(this.#storedSeq)
      if (frames.length === 0) return
      this.#unconfirmed = await encodeChunk(frames)
    }
    await this.#chunks.append(this.#unconfirmed)
    this.#storedSeq = this.#unconfirmed.lastSeq
    this.#unconfirmed = undefined
    this.#live.letGo(this.#storedSeq)
  }

  async seal(terminal: readonly FrameBody[]): Promise<SealedLog> {
    const held = this.#live.hold(terminal)
    this.#sealed = true
    await this.#storing?.catch(() => {})
    if (this.#unconfirmed) await this.store()
    const rest = [...this.#live.after(this.#storedSeq), ...held]
    return { lastSeq: held.at(-1)?.seq ?? this.#live.head, chunk: rest.length > 0 ? await encodeChunk(rest) : null }
  }

  release(): void {
    this.#live.release()
    this.#storedSeq = this.#live.head
    this.#live.letGo(this.#storedSeq)
    this.#onEnd()
  }

  abandon(error: StreamBroken): void {
    this.#live.abandon(error)
    this.#onEnd()
  }
}
