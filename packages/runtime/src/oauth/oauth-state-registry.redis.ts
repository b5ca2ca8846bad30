import { EventEmitter, once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RedisConnection } from '../redis/connect-redis.ts'
import {
  type AuthorizationFlow,
  type Completed,
  FLOW_LIFETIME_MS,
  type FlowAnswer,
  type FlowStatus,
  type NewFlow,
  type OAuthStateRegistry,
  type Waited,
} from './oauth-state-registry.ts'
import { stateDigest } from './state-digest.ts'

/** The waiting process renews its claim this often; after three missed renewals it counts as dead. */
const RENEW_MS = 5_000
const CLAIM_MS = 3 * RENEW_MS

const NOW = `local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000)`
const CHANGED = `redis.call('PUBLISH', ARGV[1], KEYS[1])`

/** KEYS: flow. ARGV: channel, status, lifetime, claim, authUrl, server, userId. */
const OPEN = `${NOW}
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'status', ARGV[2], 'createdAt', now, 'claimedUntil', now + ARGV[4],
  'authUrl', ARGV[5], 'server', ARGV[6], 'userId', ARGV[7])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
${CHANGED}`

/** KEYS: flow. ARGV: channel, userId or '', 'query' or 'error', its text. Answers what came of it. */
const COMPLETE = `${NOW}
local flow = redis.call('HMGET', KEYS[1], 'status', 'query', 'userId', 'claimedUntil')
if not flow[1] then return 'unknown' end
if flow[1] ~= 'pending' or flow[2] then return 'settled' end
local foreign = ARGV[2] ~= '' and ARGV[2] ~= flow[3]
if foreign and ARGV[3] == 'error' then return 'user_mismatch' end
if tonumber(flow[4]) < now then return 'abandoned' end
if foreign then redis.call('HSET', KEYS[1], 'status', 'error:user_mismatch')
elseif ARGV[3] == 'error' then redis.call('HSET', KEYS[1], 'status', 'error:' .. ARGV[4])
else redis.call('HSET', KEYS[1], 'query', ARGV[4]) end
${CHANGED}
return foreign and 'user_mismatch' or 'accepted'`

/** KEYS: flow. ARGV: claim. Answers status and query. */
const CLAIM = `${NOW}
local flow = redis.call('HMGET', KEYS[1], 'status', 'query')
if flow[1] == 'pending' then redis.call('HSET', KEYS[1], 'claimedUntil', now + ARGV[1]) end
return flow`

/** KEYS: flow. Answers status, createdAt, authUrl, server, userId. */
const FIND = `${NOW}
local flow = redis.call('HMGET', KEYS[1], 'status', 'createdAt', 'authUrl', 'server', 'userId', 'claimedUntil')
if flow[1] == 'pending' and tonumber(flow[6]) < now then flow[1] = 'error:abandoned' end
return flow`

/** KEYS: flow. ARGV: channel, status. Answers the status before, or false. */
const SETTLE = `local status = redis.call('HGET', KEYS[1], 'status')
if status == 'pending' then
  redis.call('HSET', KEYS[1], 'status', ARGV[2])
  redis.call('HDEL', KEYS[1], 'query')
  ${CHANGED}
end
return status`

/** Scaled: flows are hashes with an expiry, and every change is published to all processes. */
export class RedisOAuthStateRegistry implements OAuthStateRegistry {
  readonly #redis: RedisConnection
  readonly #prefix: string
  readonly #channel: string
  readonly #changed = new EventEmitter().setMaxListeners(0)
  #subscribed: Promise<void> | undefined

  /** `redis` stays its owner's to close. `prefix` keeps applications apart that share a Redis. */
  constructor(redis: RedisConnection, options: { readonly prefix?: string } = {}) {
    this.#redis = redis
    this.#prefix = `${options.prefix ?? 'bureau:'}oauth:`
    this.#channel = `${this.#prefix}changed`
  }

  async open(flow: NewFlow): Promise<void> {
    await this.#subscribe()
    await this.#write(flow, 'pending')
  }

  async complete({ state, userId, outcome }: FlowAnswer): Promise<Completed> {
    const [kind, text] = 'query' in outcome ? ['query', outcome.query] : ['error', outcome.error]
    const result = await this.#run(COMPLETE, state, [this.#channel, userId ?? '', kind, text])
    const flow = await this.find(state)
    if (result === 'unknown' || !flow) return { accepted: false, because: 'unknown' }
    if (result === 'accepted') return { accepted: true, flow }
    return { accepted: false, because: result as 'settled' | 'user_mismatch' | 'abandoned', flow }
  }

  async wait(state: string, options: { timeoutMs: number; signal: AbortSignal }): Promise<Waited> {
    options.signal.throwIfAborted()
    const waited = await this.#until(state, options, async () => {
      const [status, query] = (await this.#run(CLAIM, state, [String(CLAIM_MS)])) as [FlowStatus?, string?]
      if (!status) return { status: 'error:unknown_state' as const }
      if (status === 'pending' || status === 'authorized') return query ? { query } : undefined
      return { status }
    })
    if (waited) return waited
    await this.settle(state, 'timeout')
    return { status: 'timeout' }
  }

  async settle(state: string, status: Exclude<FlowStatus, 'pending'>): Promise<void> {
    const before = await this.#run(SETTLE, state, [this.#channel, status])
    if (!before) await this.#write({ state, authUrl: '', server: '', userId: '' }, status)
  }

  async settled(state: string, timeoutMs: number): Promise<AuthorizationFlow | undefined> {
    if (!(await this.find(state))) return undefined
    const ended = await this.#until(state, { timeoutMs }, async () => {
      const flow = await this.find(state)
      return flow?.status === 'pending' ? undefined : { flow }
    })
    return ended ? ended.flow : this.find(state)
  }

  async find(state: string): Promise<AuthorizationFlow | undefined> {
    const found = (await this.#run(FIND, state, [])) as (string | null)[]
    const [status, createdAt, authUrl, server, userId] = found
    if (!status) return undefined
    return {
      state,
      status: status as FlowStatus,
      createdAt: Number(createdAt),
      authUrl: authUrl ?? '',
      server: server ?? '',
      userId: userId ?? '',
    }
  }

  async close(): Promise<void> {
    if (this.#subscribed && this.#redis.subscriber.isReady) await this.#redis.subscriber.unsubscribe(this.#channel)
  }

  async #write(flow: NewFlow, status: FlowStatus): Promise<void> {
    const { state, authUrl, server, userId } = flow
    const times = [String(FLOW_LIFETIME_MS), String(CLAIM_MS)]
    await this.#run(OPEN, state, [this.#channel, status, ...times, authUrl, server, userId])
  }

  #run(script: string, state: string, args: readonly string[]): Promise<unknown> {
    return this.#redis.commands.eval(script, { keys: [this.#keyOf(state)], arguments: [...args] })
  }

  #keyOf(state: string): string {
    return this.#prefix + stateDigest(state)
  }

  #subscribe(): Promise<void> {
    this.#subscribed ??= this.#redis.subscriber.subscribe(this.#channel, (key) => void this.#changed.emit(key))
    this.#subscribed.catch(() => (this.#subscribed = undefined))
    return this.#subscribed
  }

  /**
   * Asks now, whenever the flow changes, and every few seconds, because a message that is published while the
   * connection is lost never comes. Undefined when the time is over.
   */
  async #until<Found>(
    state: string,
    { timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal },
    ask: () => Promise<Found | undefined>,
  ): Promise<Found | undefined> {
    await this.#subscribe()
    const deadline = performance.now() + timeoutMs
    for (;;) {
      const stop = new AbortController()
      const changed = once(this.#changed, this.#keyOf(state), { signal: stop.signal }).catch(() => {})
      try {
        const found = await ask().catch(whileInterrupted)
        if (found !== undefined) return found
        const leftMs = deadline - performance.now()
        if (leftMs <= 0) return undefined
        const over = signal ? AbortSignal.any([stop.signal, signal]) : stop.signal
        const late = sleep(Math.min(leftMs, RENEW_MS), undefined, { signal: over, ref: false }).catch(() => {})
        await Promise.race([changed, late])
        signal?.throwIfAborted()
      } finally {
        stop.abort()
      }
    }
  }
}

/** Redis may be away for a moment; the next question is a few seconds off. */
function whileInterrupted(): undefined {
  return undefined
}
