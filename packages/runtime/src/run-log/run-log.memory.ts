import { BriefMap } from '../brief-map.ts'
import { ChunkWriter } from './chunk-writer.ts'
import { decodeChunk } from './event-text.ts'
import { Lingering } from './lingering.ts'
import { LiveRunLog } from './live-run-log.ts'
import {
  type EventBatch,
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
  readonly #logs = new BriefMap<string, MemoryRunLog>()
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
    const log = new MemoryRunLog(run, { onEnd, onAbandoned, windowBytes })
    this.#logs.set(run.runId, log)
    return log
  }

  async find(runId: string): Promise<MemoryRunLog | undefined> {
    return this.#logs.get(runId)
  }

  forget(runId: string): void {
    this.#logs.delete(runId)
  }

  get isReachable(): boolean {
    return true
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
  readonly windowBytes: number | undefined
}

class MemoryRunLog implements RunLog {
  readonly #live: LiveRunLog
  readonly #writer: ChunkWriter | undefined
  readonly #onEnd: () => void
  readonly #onAbandoned: () => void

  constructor({ chunks, snapshot, resume }: NewRunLog, { onEnd, onAbandoned, windowBytes }: MemoryRunLogOptions) {
    const older = async function* (after: number): AsyncGenerator<EventBatch, void> {
      for (const chunk of (await chunks?.read(after)) ?? []) yield decodeChunk(chunk)
    }
    this.#live = new LiveRunLog({ snapshot, older, resume, windowBytes })
    this.#writer = chunks && new ChunkWriter(this.#live, chunks)
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
    if (!this.#writer) this.#live.forgetUpTo(this.#live.head)
  }

  async store(): Promise<void> {
    if (!this.#writer) return
    await this.#writer.store()
    this.#live.forgetUpTo(this.#writer.storedSeq)
  }

  async seal(ending: readonly LogEvent[]): Promise<SealedLog> {
    const held = this.#live.hold(ending)
    return { lastSeq: lastSeqOf(held), chunk: (await this.#writer?.seal(held)) ?? null }
  }

  release(): void {
    this.#live.release()
    this.#live.forgetUpTo(this.#live.head)
    this.#onEnd()
  }

  abandon(error: StreamBroken): void {
    this.#live.abandon(error)
    this.#onAbandoned()
  }

  async handOver(reason: 'run_handed_over' | 'run_waits'): Promise<void> {
    await this.#writer?.storeAll().catch(() => {}) // readers then miss what was shown last
    this.abandon(new StreamBroken(reason))
  }
}
