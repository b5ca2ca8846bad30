import { ServiceError } from '@bureau/protocol'

type RateLimits = {
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
  /** Seconds until one more may come; 0: this one was taken. */
  readonly retryAfterSeconds: number
}

type Bucket = { tokens: number; atMs: number }

const MAX_BUCKETS = 50_000

/** A token bucket for each key (an API key, a client's address), in this process. The least recently used are forgotten. */
export class RateLimiter {
  readonly #limits: RateLimits
  readonly #now: () => number
  readonly #buckets = new Map<string, Bucket>()

  /** @param now Monotonic milliseconds. */
  constructor(limits: RateLimits, now: () => number = () => performance.now()) {
    this.#limits = limits
    this.#now = now
  }

  /** Takes one request, if there is one left: see `retryAfterSeconds`. */
  take(key: string): RateState {
    const bucket = this.#refilled(key)
    const taken = bucket.tokens >= 1
    const missing = 1 - bucket.tokens
    if (taken) bucket.tokens -= 1
    const { perMinute, burst } = this.#limits
    return {
      limits: this.#limits,
      remaining: Math.max(0, Math.floor(bucket.tokens)),
      resetSeconds: Math.ceil(((burst - bucket.tokens) * 60) / perMinute),
      retryAfterSeconds: taken ? 0 : Math.max(1, Math.ceil((missing * 60) / perMinute)),
    }
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
}

/** The refusal of a request that was not taken. */
export function rateLimited({ retryAfterSeconds }: RateState): ServiceError {
  return new ServiceError('rate_limited', { headers: { 'Retry-After': String(retryAfterSeconds) } })
}
