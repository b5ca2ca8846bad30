import type { RedisConnection } from '../redis/connect-redis.ts'
import { decodeEvents, encodeEvents } from './event-text.ts'
import { batchAfter, type EventBatch, isLastBatch, lastSeqOf, type LogEvent, sizeOf } from './run-log.ts'

/** The stream of a run that has not ended disappears when nobody renews it for this long: its process has died. */
const LIFETIME_MS = 120_000

/** Readers wait this long for an answer. */
const ANSWER_MS = 5_000
/** On the channel of a run, in place of the number of an entry. */
const NUDGE = ''

type RedisStreamOptions = {
  readonly prefix: string
  readonly runId: string
  /** How long the stream stays after its last event, in milliseconds. */
  readonly lingerMs: number
}

/**
 * One run's log in Redis: a stream whose entries hold some events each and have the number of the last one as their id,
 * and a channel that announces each new entry. Keys of a run share a hash tag, so that they live on one shard.
 */
export class RedisStream {
  readonly #redis: RedisConnection
  readonly #key: string
  readonly #channel: string
  readonly #lingerMs: number
  #bytes = 0

  constructor(redis: RedisConnection, { prefix, runId, lingerMs }: RedisStreamOptions) {
    this.#redis = redis
    this.#lingerMs = lingerMs
    this.#key = `${prefix}{${runId}}:events`
    this.#channel = `${prefix}{${runId}}:n`
  }

  /** About what this process has written to it since it began anew. */
  get bytes(): number {
    return this.#bytes
  }

  /** Writes events that follow on the last entry. Repeated with the same or more of them, nothing appears twice to readers. */
  async write(batch: EventBatch, { anew }: { readonly anew: boolean }): Promise<void> {
    const last = String(lastSeqOf(batch))
    const transaction = this.#redis.commands.multi()
    if (anew) transaction.del(this.#key)
    transaction.xAdd(this.#key, `${last}-0`, { events: encodeEvents(batch.events) })
    transaction.pExpire(this.#key, isLastBatch(batch) ? this.#lingerMs : LIFETIME_MS).sPublish(this.#channel, last)
    await transaction.exec().catch((error: unknown) => {
      // The answer to an earlier attempt was lost.
      if (!isDuplicate(error)) throw error
    })
    const written = batch.events.reduce((sum, event) => sum + sizeOf(event), 0)
    this.#bytes = anew ? written : this.#bytes + written
  }

  /** Lets readers look at the record of the run, though nothing was written. */
  async nudge(): Promise<void> {
    await this.#redis.commands.sPublish(this.#channel, NUDGE)
  }

  async renew(): Promise<void> {
    await this.#redis.commands.pExpire(this.#key, LIFETIME_MS)
  }

  /** The events of the next entries after `after`; undefined when there is no stream. */
  async read(after: number): Promise<EventBatch | undefined> {
    const { commands } = this.#redis
    const entries = (await inTime(commands.xRange(this.#key, `(${after}-0`, '+', { COUNT: 4 }))) ?? []
    if (entries.length === 0 && (await inTime(commands.exists(this.#key))) === 0) return undefined
    return joined(entries, after)
  }

  /** Undefined when there is no stream. */
  async lastEvent(): Promise<{ readonly seq: number; readonly event: LogEvent } | undefined> {
    const [last] = (await inTime(this.#redis.commands.xRevRange(this.#key, '+', '-', { COUNT: 1 }))) ?? []
    return last && { seq: seqOf(last), event: eventsOf(last).at(-1)! }
  }

  /** Calls `onEntry` for each new entry, and `onNudge` for a look at the record. @returns Ends that. */
  async watch({ onEntry, onNudge }: Watcher): Promise<() => Promise<void>> {
    const { subscriber } = this.#redis
    const listener = (message: string): void => (message === NUDGE ? onNudge() : onEntry())
    const stop = (): Promise<void> => subscriber.sUnsubscribe(this.#channel, listener)
    try {
      await inTime(subscriber.sSubscribe(this.#channel, listener))
    } catch (error) {
      stop().catch(() => {}) // it may still come about
      throw error
    }
    return stop
  }
}

type Watcher = { readonly onEntry: () => void; readonly onNudge: () => void }

/** Rejects when Redis has not answered for so long: it may be there and silent. The command itself is not taken back. */
async function inTime<T>(answer: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error(`Redis did not answer within ${ANSWER_MS} ms`)), ANSWER_MS)
  try {
    return await Promise.race([answer, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

type Entry = { readonly id: string; readonly message: Readonly<Record<string, string>> }

/** The events after `after`, as far as they follow on each other. An entry may repeat what an earlier one holds. */
function joined(entries: readonly Entry[], after: number): EventBatch {
  let batch: EventBatch = { first: after + 1, events: [] }
  for (const entry of entries) {
    const events = eventsOf(entry)
    const rest = batchAfter({ first: seqOf(entry) - events.length + 1, events }, lastSeqOf(batch))
    if (batch.events.length === 0) batch = rest
    else if (rest.first === lastSeqOf(batch) + 1) batch = { ...batch, events: [...batch.events, ...rest.events] }
    else break
  }
  return batch
}

const seqOf = ({ id }: Entry): number => Number.parseInt(id, 10)

const eventsOf = ({ message }: Entry): LogEvent[] => decodeEvents(message['events'] ?? '')

function isDuplicate(error: unknown): boolean {
  const replies = (error as { replies?: unknown }).replies
  if (!Array.isArray(replies)) return false
  const failures = replies.filter((reply) => reply instanceof Error)
  return failures.every(({ message }) => message.includes('equal or smaller'))
}

/** Which start of a Redis server this is: after another start it may have lost what it held. */
export async function serverRunId({ commands }: RedisConnection): Promise<string> {
  return /^run_id:(\w+)/m.exec(await commands.info('server'))?.[1] ?? ''
}
