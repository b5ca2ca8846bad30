import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RunEnded } from '@bureau/protocol'
import type { RedisConnection } from '../redis/connect-redis.ts'
import { cancelAndWait } from './cancel-and-wait.ts'
import { type CancelOutcome, type CancelRequest, type LiveRun, REPEAT_MS, type RunRegistry } from './run-registry.ts'

/** Entries of a dead process disappear after this time. A live one renews them three times as often. */
const LEASE_MS = 15_000
/** The end of a cancelled run waits this long for whoever asked. */
const END_MS = 120_000
/** How often a canceller looks whether the run has ended. */
const POLL_MS = 50

export type RedisRunRegistryOptions = {
  /** Keeps applications apart that share a Redis. Default `bureau:`. */
  readonly prefix?: string
  readonly leaseMs?: number
}

type Command = Pick<CancelRequest, 'runId' | 'mode' | 'timeoutMs'>

/**
 * Scaled: an entry with an expiry for every run, a channel for every process.
 *
 * A cancel is published to the process that executes the run; the end comes back as a key, since it may be large.
 */
export class RedisRunRegistry implements RunRegistry {
  readonly #redis: RedisConnection
  readonly #prefix: string
  readonly #leaseMs: number
  readonly #process = randomUUID()
  readonly #runs = new Map<string, LiveRun>()
  readonly #cancelled = new Set<string>()
  #listening: Promise<void> | undefined
  #renewals: NodeJS.Timeout | undefined

  /** `redis` stays its owner's to close. */
  constructor(redis: RedisConnection, options: RedisRunRegistryOptions = {}) {
    this.#redis = redis
    this.#prefix = options.prefix ?? 'bureau:'
    this.#leaseMs = options.leaseMs ?? LEASE_MS
  }

  async register(run: LiveRun): Promise<void> {
    await this.#listen()
    const { commands } = this.#redis
    this.#runs.set(run.runId, run)
    try {
      await commands.set(this.#entryOf(run.runId), this.#entry(run), {
        expiration: { type: 'PX', value: this.#leaseMs },
      })
    } catch (error) {
      this.#runs.delete(run.runId)
      throw error
    }
    void run.ended.then(() => {
      if (!this.#cancelled.has(run.runId)) return this.#forget(run.runId)
      setTimeout(() => void this.#forget(run.runId), REPEAT_MS).unref()
    })
  }

  async cancel(request: CancelRequest): Promise<CancelOutcome | undefined> {
    const run = this.#runs.get(request.runId)
    if (run) return belongsTo(run, request) ? this.#cancelHere(run, request) : undefined
    const executing = await this.#executing(request)
    return executing === undefined ? undefined : this.#cancelElsewhere(executing, request)
  }

  async close(): Promise<void> {
    clearInterval(this.#renewals)
    const ids = [...this.#runs.keys()]
    this.#runs.clear()
    this.#cancelled.clear()
    const { commands, subscriber } = this.#redis
    if (commands.isReady && ids.length > 0) await commands.del(ids.map((id) => this.#entryOf(id)))
    if (this.#listening && subscriber.isReady) await subscriber.unsubscribe(this.#channelOf(this.#process))
  }

  #cancelHere(run: LiveRun, how: Pick<CancelRequest, 'mode' | 'timeoutMs'>): Promise<CancelOutcome> {
    this.#cancelled.add(run.runId)
    return cancelAndWait(run, how)
  }

  async #forget(runId: string): Promise<void> {
    this.#runs.delete(runId)
    this.#cancelled.delete(runId)
    // When Redis is away the entry expires by itself.
    await this.#redis.commands.del(this.#entryOf(runId)).catch(() => {})
  }

  /** The process that executes a run of this agency and user. */
  async #executing(request: CancelRequest): Promise<string | undefined> {
    const entry = await this.#redis.commands.get(this.#entryOf(request.runId))
    if (entry === null) return undefined
    const run = JSON.parse(entry) as { agency: string; userId: string | null; process: string }
    return belongsTo(run, request) ? run.process : undefined
  }

  /**
   * Publishes until somebody has heard, because a process that is just connecting again hears nothing; then waits for
   * the end. A process that is dead renews nothing, so its entry goes, and with it the run.
   */
  async #cancelElsewhere(process: string, request: CancelRequest): Promise<CancelOutcome | undefined> {
    const { commands } = this.#redis
    const { runId, mode, timeoutMs } = request
    const deadline = performance.now() + timeoutMs
    const command: Command = { runId, mode, timeoutMs }
    let heard = false
    while (performance.now() < deadline) {
      heard ||= (await commands.publish(this.#channelOf(process), JSON.stringify(command))) > 0
      const [entry, end] = await commands.mGet([this.#entryOf(runId), this.#endOf(runId)])
      if (end) return { ended: JSON.parse(end) as RunEnded }
      if (!entry) return this.#lastWord(runId)
      await sleep(POLL_MS)
    }
    return { ended: null }
  }

  /** The entry goes before the end is there when the run ends on its own at the very moment. */
  async #lastWord(runId: string): Promise<CancelOutcome | undefined> {
    await sleep(4 * POLL_MS)
    const end = await this.#redis.commands.get(this.#endOf(runId))
    return end ? { ended: JSON.parse(end) as RunEnded } : undefined
  }

  #listen(): Promise<void> {
    this.#listening ??= this.#redis.subscriber.subscribe(this.#channelOf(this.#process), (message) =>
      this.#obey(message),
    )
    this.#listening.catch(() => (this.#listening = undefined))
    this.#renewals ??= setInterval(() => this.#renew(), this.#leaseMs / 3).unref()
    return this.#listening
  }

  #obey(message: string): void {
    const { runId, mode, timeoutMs } = JSON.parse(message) as Command
    const run = this.#runs.get(runId)
    if (!run) return
    void this.#cancelHere(run, { mode, timeoutMs }).then(async ({ ended }) => {
      if (!ended) return
      const expiration = { type: 'PX' as const, value: END_MS }
      // When Redis is away whoever asked is told that the run did not end in time.
      await this.#redis.commands.set(this.#endOf(runId), JSON.stringify(ended), { expiration }).catch(() => {})
    })
  }

  #renew(): void {
    for (const run of this.#runs.values()) {
      const expiration = { type: 'PX' as const, value: this.#leaseMs }
      // The next renewal makes up for a failed one.
      this.#redis.commands.set(this.#entryOf(run.runId), this.#entry(run), { expiration }).catch(() => {})
    }
  }

  #entry({ agency, userId }: LiveRun): string {
    return JSON.stringify({ agency, userId, process: this.#process })
  }

  #entryOf(runId: string): string {
    return `${this.#prefix}run:${runId}`
  }

  #endOf(runId: string): string {
    return `${this.#prefix}run:${runId}:ended`
  }

  #channelOf(process: string): string {
    return `${this.#prefix}process:${process}`
  }
}

/** Others find no such run. */
function belongsTo(run: Pick<LiveRun, 'agency' | 'userId'>, request: CancelRequest): boolean {
  return run.agency === request.agency && run.userId === request.userId
}
