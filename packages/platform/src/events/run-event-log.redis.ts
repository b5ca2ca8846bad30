import { ServiceError } from '@bureau/protocol'
import type { RedisConnection } from '@bureau/runtime'
import { FlushTimer } from './flush-timer.ts'
import { type Frame, type FrameBody, readablePart } from './frame.ts'
import { Lingering } from './lingering.ts'
import { LiveRunLog } from './live-run-log.ts'
import { RedisRunReader } from './redis-run-reader.ts'
import { RedisStream, serverLife } from './redis-stream.ts'
import type { NewRunLog, RunEventLog, RunEventLogs, RunEventReader, SealedLog } from './run-event-log.ts'
import { StreamBroken } from './stream-broken.ts'

/** Frames wait this long for others, unless there are more bytes of them than `BATCH_BYTES` or an item is complete. */
const BATCH_MS = 200
const BATCH_BYTES = 16 * 1024
/** A stream lives four times as long without being renewed. */
const RENEW_MS = 30_000
const LOOK_MS = 5_000
/** How long a log that has ended stays in memory; as long as Redis keeps it. */
const LINGER_MS = 120_000

export type RedisRunEventLogsOptions = {
  /** Keeps applications apart that share a Redis. Default `bureau:`. */
  readonly prefix?: string
  /** Frames that are in Redis may leave memory down to this many bytes. Default 4 MiB. */
  readonly windowBytes?: number
  /** How often readers of other processes' runs look without having been told. Default 5,000. */
  readonly lookMs?: number
}

/**
 * Scaled: logs are in the memory of the process that executes the run, and in Redis for all others.
 *
 * A run never waits for Redis. When a Redis that lost everything is back, the logs are written again.
 */
export class RedisRunEventLogs implements RunEventLogs {
  readonly #redis: RedisConnection
  readonly #options: Required<Pick<RedisRunEventLogsOptions, 'prefix' | 'lookMs'>> & RedisRunEventLogsOptions
  readonly #logs = new Map<string, RedisRunEventLog>()
  readonly #timer = new FlushTimer(BATCH_MS)
  readonly #ended = new Lingering(LINGER_MS)
  readonly #leaving = new AbortController()
  readonly #renewals: NodeJS.Timeout
  readonly #onReady = (): void => void this.#checkLife()
  #life: string | undefined
  #isSameRedis = false

  private constructor(redis: RedisConnection, options: RedisRunEventLogsOptions) {
    this.#redis = redis
    this.#options = { prefix: 'bureau:', lookMs: LOOK_MS, ...options }
    redis.commands.on('ready', this.#onReady)
    this.#renewals = setInterval(() => this.#renew(), RENEW_MS).unref()
  }

  /** `redis` stays its owner's to close. */
  static async open(redis: RedisConnection, options: RedisRunEventLogsOptions = {}): Promise<RedisRunEventLogs> {
    const logs = new RedisRunEventLogs(redis, options)
    await logs.#checkLife()
    return logs
  }

  create({ runId, snapshot }: NewRunLog): RunEventLog {
    if (this.#logs.has(runId)) throw new Error(`run ${runId} has a log already`)
    const { windowBytes } = this.#options
    const log = new RedisRunEventLog({
      stream: this.#streamOf(runId),
      isReady: () => this.#isSameRedis && this.#redis.commands.isReady,
      timer: this.#timer,
      snapshot,
      onEnd: () => this.#ended.add(() => this.#forget(runId)),
      ...(windowBytes !== undefined && { windowBytes }),
    })
    this.#logs.set(runId, log)
    return log
  }

  async find(runId: string): Promise<RunEventReader | undefined> {
    const local = this.#logs.get(runId)
    if (local) return local
    const stream = this.#streamOf(runId)
    const last = await stream.lastFrame().catch((cause: unknown) => {
      throw new ServiceError('stream_unavailable', { cause })
    })
    return last && new RedisRunReader(stream, { last, leaving: this.#leaving.signal, lookMs: this.#options.lookMs })
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
    for (const log of this.#logs.values()) log.abandon(new StreamBroken('server_shutdown'))
    await Promise.all([...this.#logs.values()].map((log) => log.lastWrite()))
    this.#logs.clear()
  }

  #forget(runId: string): void {
    this.#logs.get(runId)?.stop()
    this.#logs.delete(runId)
  }

  /** Nothing is added to a stream before it is known whether the stream is still there. */
  async #checkLife(): Promise<void> {
    this.#isSameRedis = false
    // Without an answer it is asked again: by the next connection, or at the next renewal.
    const life = await serverLife(this.#redis).catch(() => undefined)
    if (life === undefined) return
    this.#isSameRedis = true
    if (life === this.#life) return
    this.#life = life
    for (const log of this.#logs.values()) log.writeAnew()
  }

  #renew(): void {
    if (!this.#isSameRedis && this.#redis.commands.isReady) void this.#checkLife()
    // The next renewal makes up for a failed one.
    for (const log of this.#logs.values()) if (!log.ended) log.renew().catch(() => {})
  }

  #streamOf(runId: string): RedisStream {
    return new RedisStream(this.#redis, { prefix: this.#options.prefix, runId })
  }
}

type RedisRunEventLogOptions = Pick<NewRunLog, 'snapshot'> & {
  readonly stream: RedisStream
  /** False: writing now would fail, or spoil the stream. */
  readonly isReady: () => boolean
  readonly timer: FlushTimer
  readonly onEnd: () => void
  readonly windowBytes?: number
}

class RedisRunEventLog implements RunEventLog {
  readonly #live: LiveRunLog
  readonly #options: RedisRunEventLogOptions
  #writtenSeq = 0
  /** How often Redis lost everything. */
  #losses = 0
  #anew = false
  #waitingBytes = 0
  #ticking = false
  #writing: Promise<void> | undefined
  #stopped = false

  constructor(options: RedisRunEventLogOptions) {
    const { stream, snapshot, windowBytes } = options
    const older = async function* (after: number): AsyncGenerator<readonly Frame[], void> {
      yield (await stream.read(after).catch(() => [])) ?? []
    }
    this.#live = new LiveRunLog({ snapshot, older, ...(windowBytes !== undefined && { windowBytes }) })
    this.#options = options
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
    if (!this.#live.append(body)) return
    this.#waitingBytes += body.length
    if (this.#waitingBytes >= BATCH_BYTES || body.startsWith(COMPLETE_ITEM)) this.#write()
    else this.#writeSoon()
  }

  /** Redis is written to all the time. */
  async store(): Promise<void> {}

  async seal(terminal: readonly FrameBody[]): Promise<SealedLog> {
    return { lastSeq: this.#live.hold(terminal).at(-1)?.seq ?? this.#live.head, chunk: null }
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
    this.#options.onEnd()
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
    this.#writtenSeq = 0
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
        if (this.#unwritten().length > 0) this.#writeSoon()
      })
  }

  async #writeAll(): Promise<void> {
    if (!this.#options.isReady()) return
    for (let frames = this.#unwritten(); frames.length > 0; frames = this.#unwritten()) {
      const losses = this.#losses
      const part = readablePart(frames, 0)
      await this.#options.stream.write(part, { anew: this.#anew })
      if (losses !== this.#losses) continue
      this.#anew = false
      this.#writtenSeq = part.at(-1)!.seq
      this.#live.letGo(this.#writtenSeq)
    }
  }

  #unwritten(): readonly Frame[] {
    if (this.#stopped || this.#writtenSeq === this.#live.head) return []
    return this.#live.hasLeft(this.#writtenSeq + 1) ? [this.#live.resetFrame()] : this.#live.after(this.#writtenSeq)
  }
}

const COMPLETE_ITEM = 'data: {"data":{"type":"run_item_stream_event"'
