import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RunEnded } from '@bureau/protocol'
import type { RedisConnection } from '../redis/connect-redis.ts'
import { ProcessRuns } from './process-runs.ts'
import {
  type CancelOutcome,
  type CancelRequest,
  isOwner,
  type LiveRun,
  type OwnedRun,
  type RunRegistry,
} from './run-registry.ts'

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

/**
 * Scaled: an entry with an expiry for every run, a channel for every process.
 *
 * A cancel is published to the process that executes or has executed the run; the end comes back as a key, since it may
 * be large.
 */
export class RedisRunRegistry implements RunRegistry {
  readonly #redis: RedisConnection
  readonly #prefix: string
  readonly #leaseMs: number
  readonly #process = randomUUID()
  readonly #here = new ProcessRuns({ onForgotten: (runId) => void this.#withdraw(runId) })
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
    await this.#announce(run)
    this.#here.add(run)
  }

  abandon(run: LiveRun): void {
    this.#here.abandon(run)
    // Where it had ended, others no longer know it. When Redis is away, the next renewal makes up for this.
    this.#announce(run).catch(() => {})
  }

  async cancel(request: CancelRequest): Promise<CancelOutcome | undefined> {
    if (this.#here.has(request.runId)) return this.#here.cancel(request)
    const executing = await this.#executing(request)
    return executing === undefined ? undefined : this.#cancelElsewhere(executing, request)
  }

  async isElsewhere(run: OwnedRun): Promise<boolean> {
    return !this.#here.has(run.runId) && (await this.#executing(run)) !== undefined
  }

  cancelAll(): void {
    this.#here.cancelAll()
  }

  async close(): Promise<void> {
    clearInterval(this.#renewals)
    const entries = this.#here.runs().map(({ runId }) => this.#entryOf(runId))
    this.#here.clear()
    const { commands, subscriber } = this.#redis
    if (commands.isReady && entries.length > 0) await commands.del(entries)
    if (this.#listening && subscriber.isReady) await subscriber.unsubscribe(this.#channelOf(this.#process))
  }

  async #announce({ runId, agency, userId }: OwnedRun): Promise<void> {
    const entry = JSON.stringify({ agency, userId, process: this.#process })
    const expiration = { type: 'PX' as const, value: this.#leaseMs }
    await this.#redis.commands.set(this.#entryOf(runId), entry, { expiration })
  }

  async #withdraw(runId: string): Promise<void> {
    // When Redis is away the entry expires by itself.
    await this.#redis.commands.del(this.#entryOf(runId)).catch(() => {})
  }

  /** The process that knows a run of this agency and user. */
  async #executing(request: OwnedRun): Promise<string | undefined> {
    const entry = await this.#redis.commands.get(this.#entryOf(request.runId))
    if (entry === null) return undefined
    const { process, ...owner } = JSON.parse(entry) as { agency: string; userId: string | null; process: string }
    return isOwner({ runId: request.runId, ...owner }, request) ? process : undefined
  }

  /**
   * Publishes until somebody has received it, because a process that is just connecting again receives nothing; then waits for
   * the end. A process that is dead renews nothing, so its entry goes, and with it the run.
   */
  async #cancelElsewhere(process: string, request: CancelRequest): Promise<CancelOutcome | undefined> {
    const { commands } = this.#redis
    const { runId, timeoutMs } = request
    const deadline = performance.now() + timeoutMs
    let heard = false
    while (performance.now() < deadline) {
      heard ||= (await commands.publish(this.#channelOf(process), JSON.stringify(request))) > 0
      const [entry, end] = await commands.mGet([this.#entryOf(runId), this.#endOf(runId)])
      if (end) return { ended: JSON.parse(end) as RunEnded }
      if (!entry) return this.#lastWord(runId)
      await sleep(POLL_MS)
    }
    return { ended: null }
  }

  /** The entry goes before the end is there when the end is too large to be kept. */
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
    const request = JSON.parse(message) as CancelRequest
    void this.#here.cancel(request).then(async (outcome) => {
      // Whoever asked sees from the missing entry that there is no such run any more.
      if (!outcome) return this.#withdraw(request.runId)
      if (!outcome.ended) return
      const expiration = { type: 'PX' as const, value: END_MS }
      // When Redis is away the answer is that the run did not end in time.
      const end = this.#redis.commands.set(this.#endOf(request.runId), JSON.stringify(outcome.ended), { expiration })
      await end.catch(() => {})
    })
  }

  #renew(): void {
    // The next renewal makes up for a failed one.
    for (const run of this.#here.runs()) this.#announce(run).catch(() => {})
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
