import type { RedisConnection } from '@bureau/runtime'
import { type Frame, parseFrames } from './frame.ts'

/** A stream that nobody renews disappears after this time: after the end of its run, or the death of its process. */
const STREAM_LIFETIME_SECONDS = 120

/**
 * One run's log in Redis: a stream whose entries hold some frames each and have the number of the last one as their id,
 * and a channel that tells of each new entry. Keys of a run share a hash tag, so that they live on one shard.
 */
export class RedisStream {
  readonly #redis: RedisConnection
  readonly #key: string
  readonly #channel: string

  constructor(redis: RedisConnection, { prefix, runId }: { readonly prefix: string; readonly runId: string }) {
    this.#redis = redis
    this.#key = `${prefix}{${runId}}:log`
    this.#channel = `${prefix}{${runId}}:n`
  }

  /** Writes frames that follow on the last entry. Repeated with the same or more of them, nothing appears twice to readers. */
  async write(frames: readonly Frame[], { anew }: { readonly anew: boolean }): Promise<void> {
    const last = String(frames.at(-1)!.seq)
    const transaction = this.#redis.commands.multi()
    if (anew) transaction.del(this.#key)
    transaction.xAdd(this.#key, `${last}-0`, { b: frames.map(({ text }) => text).join('') })
    transaction.expire(this.#key, STREAM_LIFETIME_SECONDS).sPublish(this.#channel, last)
    await transaction.exec().catch((error: unknown) => {
      // The answer to an earlier attempt was lost.
      if (!isDuplicate(error)) throw error
    })
  }

  /** Lets readers look, though nothing was written. */
  async nudge(): Promise<void> {
    await this.#redis.commands.sPublish(this.#channel, '')
  }

  async renew(): Promise<void> {
    await this.#redis.commands.expire(this.#key, STREAM_LIFETIME_SECONDS)
  }

  /** The frames of the next entries after `after`; undefined when there is no stream. */
  async read(after: number): Promise<Frame[] | undefined> {
    const entries = (await this.#redis.commands.xRange(this.#key, `(${after}-0`, '+', { COUNT: 4 })) ?? []
    if (entries.length === 0 && (await this.#redis.commands.exists(this.#key)) === 0) return undefined
    return entries.flatMap(({ message }) => parseFrames(message['b'] ?? '')).filter(({ seq }) => seq > after)
  }

  /** Undefined when there is no stream. */
  async lastFrame(): Promise<Frame | undefined> {
    const [last] = (await this.#redis.commands.xRevRange(this.#key, '+', '-', { COUNT: 1 })) ?? []
    return last && parseFrames(last.message['b'] ?? '').at(-1)
  }

  /** Calls `onEntry` for each new entry. @returns Ends that. */
  async watch(onEntry: () => void): Promise<() => Promise<void>> {
    const { subscriber } = this.#redis
    const listener = (): void => onEntry()
    await subscriber.sSubscribe(this.#channel, listener)
    return () => subscriber.sUnsubscribe(this.#channel, listener)
  }
}

function isDuplicate(error: unknown): boolean {
  const replies = (error as { replies?: unknown }).replies
  if (!Array.isArray(replies)) return false
  const failures = replies.filter((reply) => reply instanceof Error)
  return failures.every(({ message }) => message.includes('equal or smaller'))
}

/** Which life of a Redis server this is: another one may have lost what it held. */
export async function serverLife({ commands }: RedisConnection): Promise<string> {
  return /^run_id:(\w+)/m.exec(await commands.info('server'))?.[1] ?? ''
}
