import { ServiceError } from '@bureau/protocol'

export type RateLimits = {
  /** Requests a minute that are refilled. */
  readonly perMinute: number
  /** Requests that may come at once. */
  readonly burst: number
}

export type RateState = {
  readonly limits: RateLimits
  readonly remaining: number
  /** Seconds until the bucket is full again. */
  readonly resetSeconds: number
}

type Bucket = { tokens: number; atMs: number }

const MAX_BUCKETS = 50_000

/** A token bucket for each API key, in this process. */
export class RateLimiter {
  readonly #limits: RateLimits
  readonly #now: () => number
  readonly #buckets = new Map<string, Bucket>()

  /** @param now Monotonic milliseconds. */
  constructor(limits: RateLimits, now: () => number = () => performance.now()) {
    this.#limits = limits
    this.#now = now
  }

  /** Takes one request. @throws ServiceError `rate_limited`, with the seconds after which one more may come. */
  take(key: string): RateState {
    const bucket = this.#refilled(key)
    if (bucket.tokens < 1) {
      const seconds = Math.ceil(((1 - bucket.tokens) * 60) / this.#limits.perMinute)
      throw new ServiceError('rate_limited', {
        headers: { 'Retry-After': String(Math.max(1, seconds)), ...rateHeaders(this.#stateOf(bucket)) },
      })
    }
    bucket.tokens -= 1
    return this.#stateOf(bucket)
  }

  /** Counts more against a key: failed look-ups, so that nobody searches for ids. Never below one burst of debt. */
  charge(key: string, requests: number): void {
    const bucket = this.#refilled(key)
    bucket.tokens = Math.max(bucket.tokens - requests, -this.#limits.burst)
  }

  #refilled(key: string): Bucket {
    const now = this.#now()
    const { perMinute, burst } = this.#limits
    const known = this.#buckets.get(key) ?? { tokens: burst, atMs: now }
    known.tokens = Math.min(burst, known.tokens + ((now - known.atMs) * perMinute) / 60_000)
    known.atMs = now
    this.#buckets.delete(key) // the least recently used come first
    this.#buckets.set(key, known)
    const oldest = this.#buckets.keys().next()
    if (this.#buckets.size > MAX_BUCKETS && !oldest.done) this.#buckets.delete(oldest.value)
    return known
  }

  #stateOf({ tokens }: Bucket): RateState {
    const { perMinute, burst } = this.#limits
    return {
      limits: this.#limits,
      remaining: Math.max(0, Math.floor(tokens)),
      resetSeconds: Math.ceil(((burst - tokens) * 60) / perMinute),
    }
  }
}

/** `RateLimit-Policy` and `RateLimit` as structured fields (draft-ietf-httpapi-ratelimit-headers). */
export function rateHeaders({ limits, remaining, resetSeconds }: RateState): Record<string, string> {
  return {
    'RateLimit-Policy': `"key";q=${limits.perMinute};w=60`,
    RateLimit: `"key";r=${remaining};t=${resetSeconds}`,
  }
}
