import { ServiceError } from '@bureau/protocol'
import { BriefMap } from '../brief-map.ts'
import type { Logger } from '../log.ts'
import type { RedisConnection } from '../redis/connect-redis.ts'
import { FlushTimer } from './flush-timer.ts'
import { Lingering } from './lingering.ts'
import { RedisRunLog } from './redis-run-log.ts'
import { RedisRunReader } from './redis-run-reader.ts'
import { RedisStream, serverRunId } from './redis-stream.ts'
import type { NewRunLog, RunLog, RunLogReader, RunLogs } from './run-log.ts'
import { StreamBroken } from './stream-broken.ts'

/** Events wait this long for others, unless there are many of them or an item is complete. */
const BATCH_MS = 200
/** A stream lives four times as long without being renewed. */
const RENEW_MS = 30_000
const LOOK_MS = 5_000
const LINGER_MS = 120_000
/** A stream that has grown to this many bytes begins anew, with the state of its run. */
const STREAM_BYTES = 8 * 1024 * 1024

type RedisRunLogsOptions = {
  /** Keeps applications apart that share a Redis. Default `bureau:`. */
  readonly prefix?: string
  /** Events that are in Redis may leave memory down to this many bytes. Default 4 MiB. */
  readonly windowBytes?: number
  /** What one run may take in Redis, in bytes. Default 8 MiB. */
  readonly streamBytes?: number
  /** How long a log that has ended is kept, in memory and in Redis, in milliseconds. Default 120,000. */
  readonly lingerMs?: number
  /** How often readers of other processes' runs look without having been told. Default 5,000. */
  readonly lookMs?: number
  /** Says when Redis refuses what runs write, and when it no longer does. Default: nothing. */
  readonly log?: Pick<Logger, 'warn' | 'info'>
}

/**
 * Scaled: logs are in the memory of the process that executes the run, and in Redis for all others. A run never waits for Redis. While it
 * is away, logs go to durable storage; when a Redis that lost everything is back, they are written again.
 */
export class RedisRunLogs implements RunLogs {
  readonly #redis: RedisConnection
  readonly #options: Required<Pick<RedisRunLogsOptions, 'prefix' | 'lingerMs' | 'lookMs'>> & RedisRunLogsOptions
  readonly #logs = new BriefMap<string, RedisRunLog>()
  readonly #timer = new FlushTimer(BATCH_MS)
  readonly #ended: Lingering
  readonly #leaving = new AbortController()
  readonly #renewals: NodeJS.Timeout
  readonly #onReady = (): void => void this.#checkLife()
  #redisRunId: string | undefined
  #isSameRedis = false
  /** Redis answers but refuses writes, for instance because it is full. */
  #isRefusing = false
  #nextCheck: NodeJS.Timeout | undefined

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
    if (redis.commands.isReady) await logs.#checkLife()
    return logs
  }

  get isReachable(): boolean {
    return this.#redis.commands.isReady && !this.#isRefusing
  }

  create({ runId, snapshot, chunks, resume }: NewRunLog): RunLog {
    if (this.#logs.has(runId)) throw new Error(`run ${runId} has a log already`)
    const { windowBytes, streamBytes = STREAM_BYTES } = this.#options
    const log = new RedisRunLog({
      stream: this.#streamOf(runId),
      streamBytes,
      isReady: () => this.#isSameRedis && this.#redis.commands.isReady,
      timer: this.#timer,
      snapshot,
      resume,
      onFailedWrite: (error) => this.#onFailed(error),
      onEnd: () => this.#ended.add(() => this.forget(runId)),
      ...(chunks && { chunks }),
      // Whoever goes on with the run writes to the same stream, where readers find it.
      onAbandoned: () => this.forget(runId),
      windowBytes,
    })
    this.#logs.set(runId, log)
    return log
  }

  async find(runId: string): Promise<RunLogReader | undefined> {
    const local = this.#logs.get(runId)
    if (local) return local
    if (!this.isReachable) throw new ServiceError('stream_unavailable', { headers: { 'Retry-After': '2' } })
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
    clearTimeout(this.#nextCheck)
    const logs = [...this.#logs.values()]
    for (const log of logs) log.abandon(new StreamBroken('server_shutdown'))
    await Promise.all(logs.map((log) => log.lastWrite()))
    this.#logs.clear()
  }

  /** Nothing is added to a stream before it is known whether the stream is still there. */
  async #checkLife(): Promise<void> {
    this.#isSameRedis = false
    // Without an answer it is asked again: by the next connection, or at the next renewal.
    const runId = await this.#tryRedis().catch((error: unknown) => this.#onFailed(error))
    if (runId === undefined) return
    if (this.#isRefusing) this.#options.log?.info('Redis accepts writes again')
    this.#isRefusing = false
    this.#isSameRedis = true
    if (runId === this.#redisRunId) return
    this.#redisRunId = runId
    for (const log of this.#logs.values()) log.writeAnew()
  }

  /** Writes what a run would. @returns Which life of Redis this is. */
  async #tryRedis(): Promise<string> {
    await this.#streamOf('probe').write({ first: 1, events: [{ type: 'log.ended' }] }, { anew: true })
    return serverRunId(this.#redis)
  }

  /** A Redis that refuses writes is treated as unreachable until a later attempt succeeds. */
  #onFailed(error: unknown): void {
    if (!isRefusal(error)) return
    this.#isSameRedis = false
    if (!this.#isRefusing) {
      const consequence = 'others follow the runs of this process by what is stored'
      this.#options.log?.warn({ reason: error.message }, `Redis refuses writes: ${consequence}`)
    }
    this.#isRefusing = true
    clearTimeout(this.#nextCheck)
    this.#nextCheck = setTimeout(() => void this.#checkLife(), this.#options.lookMs).unref()
  }

  #renew(): void {
    if (!this.#redis.commands.isReady) return
    // A process without runs of its own notices as well that there is nothing to be found in Redis.
    if (this.#isSameRedis) void this.#tryRedis().catch((error: unknown) => this.#onFailed(error))
    else void this.#checkLife()
    // The next renewal makes up for a failed one.
    for (const log of this.#logs.values()) if (!log.ended) log.renew().catch(() => {})
  }

  #streamOf(runId: string): RedisStream {
    return new RedisStream(this.#redis, { ...this.#options, runId })
  }
}

/** Answers of the server begin with a word in capitals, such as OOM, READONLY or NOPERM; errors of the connection do not. */
const isRefusal = (error: unknown): error is Error => error instanceof Error && /^[A-Z]+ /.test(error.message)
