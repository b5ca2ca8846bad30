import { setTimeout as sleep } from 'node:timers/promises'
import { ChunkWriter } from './chunk-writer.ts'
import type { FlushTimer } from './flush-timer.ts'
import { LiveRunLog } from './live-run-log.ts'
import type { RedisStream } from './redis-stream.ts'
import {
  type EventBatch,
  lastSeqOf,
  type LogEvent,
  type NewRunLog,
  type RunLog,
  type SealedLog,
  sizeOf,
} from './run-log.ts'
import { StreamBroken } from './stream-broken.ts'

/** A Redis that does not answer keeps nobody from going on for longer. */
const LAST_WRITE_MS = 5_000
/** So many bytes of events do not wait for others. */
const BATCH_BYTES = 16 * 1024

type RedisRunLogOptions = Pick<NewRunLog, 'snapshot' | 'chunks' | 'resume'> & {
  readonly stream: RedisStream
  readonly streamBytes: number
  /** False: writing now would fail, or spoil the stream. */
  readonly isReady: () => boolean
  /** What could not be written is written later. */
  readonly onFailedWrite: (error: unknown) => void
  readonly timer: FlushTimer
  readonly onEnd: () => void
  readonly onAbandoned: () => void
  readonly windowBytes: number | undefined
}

/** The log of a run of this process: in its memory, in Redis for others, and in durable storage while Redis is away. */
export class RedisRunLog implements RunLog {
  readonly #live: LiveRunLog
  readonly #options: RedisRunLogOptions
  readonly #writer: ChunkWriter | undefined
  #writtenSeq: number
  /** How often Redis lost everything. */
  #losses = 0
  #anew = false
  #waitingBytes = 0
  #ticking = false
  #writing: Promise<void> | undefined
  #stopped = false

  constructor(options: RedisRunLogOptions) {
    const { stream, snapshot, chunks, resume, windowBytes } = options
    const older = async function* (after: number): AsyncGenerator<EventBatch, void> {
      const batch = await stream.read(after).catch(() => undefined)
      if (batch) yield batch
    }
    this.#live = new LiveRunLog({ snapshot, older, resume, windowBytes })
    this.#writer = chunks && new ChunkWriter(this.#live, chunks)
    this.#options = options
    this.#writtenSeq = this.#live.head
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
    if (!this.#live.append(event)) return
    this.#waitingBytes += sizeOf(event)
    if (this.#waitingBytes >= BATCH_BYTES || event.type === 'item.created') this.#write()
    else this.#writeSoon()
  }

  /** Redis is written to all the time. While it is away, storage is what others read. */
  async store(): Promise<void> {
    if (!this.#options.isReady()) await this.#writer?.store()
  }

  async seal(ending: readonly LogEvent[]): Promise<SealedLog> {
    const held = this.#live.hold(ending)
    const chunk = this.#options.isReady() ? null : ((await this.#writer?.seal(held)) ?? null)
    return { lastSeq: lastSeqOf(held), chunk }
  }

  release(): void {
    this.#live.release()
    this.#write()
    this.#options.onEnd()
  }

  /** Others' readers notice when the stream has expired, or read the record of whoever took over. */
  abandon(error: StreamBroken): void {
    if (!this.#live.ended) this.stop()
    this.#live.abandon(error)
    this.#options.onAbandoned()
  }

  async handOver(reason: 'run_handed_over' | 'run_waits'): Promise<void> {
    await this.lastWrite()
    if (!this.#options.isReady()) await this.#writer?.storeAll().catch(() => {}) // readers then miss what was shown last
    this.abandon(new StreamBroken(reason))
    this.#options.stream.nudge().catch(() => {}) // whoever is not reached looks by itself a little later
  }

  /** Nothing more is written to Redis. */
  stop(): void {
    this.#stopped = true
  }

  renew(): Promise<void> {
    return this.#options.stream.renew()
  }

  /** Redis has lost the log: all of it is written again, or a `reset` for what has left memory. */
  writeAnew(): void {
    this.#writtenSeq = (this.#options.resume?.first ?? 1) - 1
    this.#losses++
    this.#anew = true
    this.#writeSoon()
  }

  /** Resolves when everything is written or cannot be, or Redis does not say which. */
  async lastWrite(): Promise<void> {
    this.#write()
    await Promise.race([this.#writing, sleep(LAST_WRITE_MS, undefined, { ref: false })])
  }

  #writeSoon(): void {
    if (this.#ticking) return
    this.#ticking = true
    this.#options.timer.add(() => {
      this.#write()
      this.#ticking = false
      return false
    })
  }

  #write(): void {
    this.#waitingBytes = 0
    // What a failed write left, or what came at the very end of one, is written at the next tick.
    this.#writing ??= this.#writeAll()
      .catch(this.#options.onFailedWrite)
      .finally(() => {
        this.#writing = undefined
        if (this.#unwritten()) this.#writeSoon()
      })
  }

  async #writeAll(): Promise<void> {
    if (!this.#options.isReady()) return
    for (let part = this.#unwritten(); part; part = this.#unwritten()) {
      const losses = this.#losses
      await this.#options.stream.write(part, { anew: this.#anew })
      if (losses !== this.#losses) continue
      this.#anew = false
      this.#writtenSeq = lastSeqOf(part)
      this.#live.forgetUpTo(this.#writtenSeq)
    }
    if (this.#options.stream.bytes > this.#options.streamBytes && !this.#live.ended) await this.#beginAnew()
  }

  /** Whoever has read all so far goes on; others get the state of the run for what they have missed. */
  async #beginAnew(): Promise<void> {
    const reset = this.#live.reset()
    // Otherwise more has come: after the next write.
    if (lastSeqOf(reset) === this.#writtenSeq) await this.#options.stream.write(reset, { anew: true })
  }

  /** The next part that Redis does not have. */
  #unwritten(): EventBatch | undefined {
    if (this.#stopped || this.#writtenSeq === this.#live.head) return undefined
    if (this.#live.hasForgotten(this.#writtenSeq + 1)) return this.#live.reset()
    return this.#live.partAfter(this.#writtenSeq)
  }
}
