import { decodeChunk, encodeChunk } from './event-text.ts'
import { Lingering } from './lingering.ts'
import { LiveRunLog } from './live-run-log.ts'
import {
  type ChunkStorage,
  type EventBatch,
  type EventChunk,
  lastSeqOf,
  type LogEvent,
  type NewRunLog,
  type RunLog,
  type RunLogs,
  type SealedLog,
} from './run-log.ts'
import { StreamBroken } from './stream-broken.ts'

/** For those who come a little late. */
const LINGER_MS = 1_000

type MemoryRunLogsOptions = {
  /** How long a log that has ended is kept, in milliseconds. Default 1,000: afterwards chunks answer. */
  readonly lingerMs?: number
  /** Default 4 MiB. */
  readonly windowBytes?: number
}

/** Embedded: one process executes all runs. Logs are in memory and, in chunks of a second, in durable storage if there is any. */
export class MemoryRunLogs implements RunLogs {
  readonly #options: MemoryRunLogsOptions
  readonly #logs = new Map<string, MemoryRunLog>()
  readonly #ended: Lingering

  constructor(options: MemoryRunLogsOptions = {}) {
    this.#options = options
    this.#ended = new Lingering(options.lingerMs ?? LINGER_MS)
  }

  create(run: NewRunLog): RunLog {
    if (this.#logs.has(run.runId)) throw new Error(`run ${run.runId} has a log already`)
    const { windowBytes } = this.#options
    const onEnd = (): void => this.#ended.add(() => this.forget(run.runId))
    const onAbandoned = (): void => this.forget(run.runId)
    const log = new MemoryRunLog(run, { onEnd, onAbandoned, ...(windowBytes !== undefined && { windowBytes }) })
    this.#logs.set(run.runId, log)
    return log
  }

  async find(runId: string): Promise<MemoryRunLog | undefined> {
    return this.#logs.get(runId)
  }

  forget(runId: string): void {
    this.#logs.delete(runId)
  }

  async nudge(): Promise<void> {}

  sendReadersAway(): void {}

  async close(): Promise<void> {
    for (const log of this.#logs.values()) log.abandon(new StreamBroken('server_shutdown'))
    this.#logs.clear()
  }
}

type MemoryRunLogOptions = {
  readonly onEnd: () => void
  readonly onAbandoned: () => void
  readonly windowBytes?: number
}

class MemoryRunLog implements RunLog {
  readonly #live: LiveRunLog
  readonly #chunks: ChunkStorage | undefined
  readonly #onEnd: () => void
  readonly #onAbandoned: () => void
  #storedSeq = 0
  #sealed = false
  #storing: Promise<void> | undefined
  /** Handed to storage, but not known to be there. */
  #unconfirmed: EventChunk | undefined

  constructor({ chunks, snapshot, resume }: NewRunLog, { onEnd, onAbandoned, ...window }: MemoryRunLogOptions) {
    const older = async function* (after: number): AsyncGenerator<EventBatch, void> {
      for (const chunk of (await chunks?.read(after)) ?? []) yield decodeChunk(chunk)
    }
    this.#live = new LiveRunLog({ snapshot, older, resume, ...window })
    this.#chunks = chunks
    this.#onEnd = onEnd
    this.#onAbandoned = onAbandoned
  }

  get head(): number {
    return this.#live.head
  }

  get ended(): boolean {
    return this.#live.ended
  }

  read(after: number, signal: AbortSignal): AsyncIterable<EventBatch> {
    return this.#live.read(after, signal)
  }

  append(event: LogEvent): void {
    this.#live.append(event)
    if (!this.#chunks) this.#live.forgetUpTo(this.#live.head)
  }

  store(): Promise<void> {
    if (!this.#chunks) return Promise.resolve()
    this.#storing ??= this.#storeNext(this.#chunks).finally(() => (this.#storing = undefined))
    return this.#storing
  }

  async #storeNext(chunks: ChunkStorage): Promise<void> {
    if (!this.#unconfirmed) {
      // What a sealed log still has belongs to the transaction that ends the run.
      const batch = this.#live.after(this.#storedSeq)
      if (this.#sealed || batch.events.length === 0) return
      this.#unconfirmed = await encodeChunk(batch)
    }
    await chunks.append(this.#unconfirmed)
    this.#storedSeq = this.#unconfirmed.lastSeq
    this.#unconfirmed = undefined
    this.#live.forgetUpTo(this.#storedSeq)
  }

  async seal(ending: readonly LogEvent[]): Promise<SealedLog> {
    const held = this.#live.hold(ending)
    if (!this.#chunks) return { lastSeq: lastSeqOf(held), chunk: null }
    this.#sealed = true
    await this.#storing?.catch(() => {})
    if (this.#unconfirmed) await this.store()
    const { first, events } = this.#live.after(this.#storedSeq)
    return { lastSeq: lastSeqOf(held), chunk: await encodeChunk({ first, events: [...events, ...held.events] }) }
  }

  release(): void {
    this.#live.release()
    this.#storedSeq = this.#live.head
    this.#live.forgetUpTo(this.#storedSeq)
    this.#onEnd()
  }

  abandon(error: StreamBroken): void {
    this.#live.abandon(error)
    this.#onAbandoned()
  }

  async handOver(): Promise<void> {
    await this.#storing?.catch(() => {})
    await this.store().catch(() => {}) // readers then miss what was shown last
    this.abandon(new StreamBroken('run_handed_over'))
  }
}
