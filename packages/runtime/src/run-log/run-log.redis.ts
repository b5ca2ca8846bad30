import { ServiceError } from '@bureau/protocol'
import type { RedisConnection } from '../redis/connect-redis.ts'
import { FlushTimer } from './flush-timer.ts'
import { Lingering } from './lingering.ts'
import { LiveRunLog } from './live-run-log.ts'
import { RedisRunReader } from './redis-run-reader.ts'
import { RedisStream, serverRunId } from './redis-stream.ts'
import {
  type EventBatch,
  lastSeqOf,
  type LogEvent,
  type NewRunLog,
  type RunLog,
  type RunLogReader,
  type RunLogs,
  type SealedLog,
  sizeOf,
} from './run-log.ts'
import { StreamBroken } from './stream-broken.ts'

/** Events wait this long for others, unless there are more bytes of them than `BATCH_BYTES` or an item is complete. */
const BATCH_MS = 200
const BATCH_BYTES = 16 * 1024
/** A stream lives four times as long without being renewed. */
const RENEW_MS = 30_000
const LOOK_MS = 5_000
const LINGER_MS = 120_000

type RedisRunLogsOptions = {
  /** Keeps applications apart that share a Redis. Default `bureau:`. */
  readonly prefix?: string
  /** Events that are in Redis may leave memory down to this many bytes. Default 4 MiB. */
  readonly windowBytes?: number
  /** How long a log that has ended is kept, in memory and in Redis, in milliseconds. Default 120,000. */
  readonly lingerMs?: number
  /** How often readers of other processes' runs look without having been told. Default 5,000. */
  readonly lookMs?: number
}

/**
 * Scaled: logs are in the memory of the process that executes the run, and in Redis for all others.
 *
 * A run never waits for Redis. When a Redis that lost everything is back, the logs are written again.
 */
export class RedisRunLogs implements RunLogs {
  readonly #redis: RedisConnection
  readonly #options: Required<Pick<RedisRunLogsOptions, 'prefix' | 'lingerMs' | 'lookMs'>> & RedisRunLogsOptions
  readonly #logs = new Map<string, RedisRunLog>()
  readonly #timer = new FlushTimer(BATCH_MS)
  readonly #ended: Lingering
  readonly #leaving = new AbortController()
  readonly #renewals: NodeJS.Timeout
  readonly #onReady = (): void => void this.#checkLife()
  #redisRunId: string | undefined
  #isSameRedis = false

  private constructor(redis: RedisConnection, options: RedisRunLogsOptions) {
    this.#redis = redis
    this.#options = { prefix: 'bureau:', lingerMs: LINGER_MS, lookMs: LOOK_MS, ...options }
    this.#ended = new Lingering(this.#options.lingerMs)
    redis.commands.on('ready', this.#onReady)
    this.#renewals = setInterval(() => this.#renew(), RENEW_MS).unref()
  }

  /** `redis` stays its owner's to close. */
  static async open(redis: RedisConnection, options: RedisRunLogsOptions = {}): Promise<RedisRunLogs> {
    const logs = new RedisRunLogs(redis, options)
    await logs.#checkLife()
    return logs
  }

  create({ runId, snapshot, resume }: NewRunLog): RunLog {
    if (this.#logs.has(runId)) throw new Error(`run ${runId} has a log already`)
    const { windowBytes } = this.#options
    const log = new RedisRunLog({
      stream: this.#streamOf(runId),
      isReady: () => this.#isSameRedis && this.#redis.commands.isReady,
      timer: this.#timer,
      snapshot,
      resume,
      onEnd: () => this.#ended.add(() => this.forget(runId)),
      // Whoever goes on with the run writes to the same stream, where readers find it.
      onAbandoned: () => this.forget(runId),
      ...(windowBytes !== undefined && { windowBytes }),
    })
    this.#logs.set(runId, log)
    return log
  }

  async find(runId: string): Promise<RunLogReader | undefined> {
    const local = this.#logs.get(runId)
    if (local) return local
    const stream = this.#streamOf(runId)
    const last = await stream.lastEvent().catch((cause: unknown) => {
      throw new ServiceError('stream_unavailable', { cause })
    })
    return last && new RedisRunReader(stream, { last, leaving: this.#leaving.signal, lookMs: this.#options.lookMs })
  }

  forget(runId: string): void {
    this.#logs.get(runId)?.stop()
    this.#logs.delete(runId)
  }

  async nudge(runId: string): Promise<void> {
    await this.#streamOf(runId).nudge()
  }

  sendReadersAway(): void {
    this.#leaving.abort()
  }

  async close(): Promise<void> {
    this.sendReadersAway()
    this.#redis.commands.off('ready', this.#onReady)
    clearInterval(this.#renewals)
    const logs = [...this.#logs.values()]
    for (const log of logs) log.abandon(new StreamBroken('server_shutdown'))
    await Promise.all(logs.map((log) => log.lastWrite()))
    this.#logs.clear()
  }

  /** Nothing is added to a stream before it is known whether the stream is still there. */
  async #checkLife(): Promise<void> {
    this.#isSameRedis = false
    // Without an answer it is asked again: by the next connection, or at the next renewal.
    const runId = await serverRunId(this.#redis).catch(() => undefined)
    if (runId === undefined) return
    this.#isSameRedis = true
    if (runId === this.#redisRunId) return
    this.#redisRunId = runId
    for (const log of this.#logs.values()) log.writeAnew()
  }

  #renew(): void {
    if (!this.#isSameRedis && this.#redis.commands.isReady) void this.#checkLife()
    // The next renewal makes up for a failed one.
    for (const log of this.#logs.values()) if (!log.ended) log.renew().catch(() => {})
  }

  #streamOf(runId: string): RedisStream {
    return new RedisStream(this.#redis, { ...this.#options, runId })
  }
}

type RedisRunLogOptions = Pick<NewRunLog, 'snapshot' | 'resume'> & {
  readonly stream: RedisStream
  /** False: writing now would fail, or spoil the stream. */
  readonly isReady: () => boolean
  readonly timer: FlushTimer
  readonly onEnd: () => void
  readonly onAbandoned: () => void
  readonly windowBytes?: number
}

class RedisRunLog implements RunLog {
  readonly #live: LiveRunLog
  readonly #options: RedisRunLogOptions
  #writtenSeq: number
  /** How often Redis lost everything. */
  #losses = 0
  #anew = false
  #waitingBytes = 0
  #ticking = false
  #writing: Promise<void> | undefined
  #stopped = false

  constructor(options: RedisRunLogOptions) {
    const { stream, snapshot, resume, windowBytes } = options
    const older = async function* (after: number): AsyncGenerator<EventBatch, void> {
      const batch = await stream.read(after).catch(() => undefined)
      if (batch) yield batch
    }
    this.#live = new LiveRunLog({ snapshot, older, resume, ...(windowBytes !== undefined && { windowBytes }) })
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

  /** Redis is written to all the time. */
  async store(): Promise<void> {}

  async seal(ending: readonly LogEvent[]): Promise<SealedLog> {
    return { lastSeq: lastSeqOf(this.#live.hold(ending)), chunk: null }
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
    this.abandon(new StreamBroken(reason))
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

  /** Resolves when everything is written or cannot be. */
  async lastWrite(): Promise<void> {
    this.#write()
    await this.#writing
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
      .catch(() => {})
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
  }

  /** The next part that Redis does not have. */
  #unwritten(): EventBatch | undefined {
    if (this.#stopped || this.#writtenSeq === this.#live.head) return undefined
    if (this.#live.hasForgotten(this.#writtenSeq + 1)) return this.#live.reset()
    return this.#live.partAfter(this.#writtenSeq)
  }
}
