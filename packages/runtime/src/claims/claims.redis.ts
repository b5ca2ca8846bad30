import type { RedisConnection } from '../redis/connect-redis.ts'
import { claimDigest, type Claims } from './claims.ts'

/** Scaled: every process knows every claim. */
export class RedisClaims implements Claims {
  readonly #redis: RedisConnection
  readonly #prefix: string

  /** `redis` stays its owner's to close. `prefix` keeps applications apart that share a Redis. */
  constructor(redis: RedisConnection, options: { readonly prefix?: string } = {}) {
    this.#redis = redis
    this.#prefix = `${options.prefix ?? 'bureau:'}claim:`
  }

  async claim(id: string, until: number): Promise<boolean> {
    const expiration = { type: 'PXAT', value: Math.ceil(until) } as const
    const set = await this.#redis.commands.set(this.#keyOf(id), '', { expiration, condition: 'NX' })
    return set !== null
  }

  async release(id: string): Promise<void> {
    await this.#redis.commands.del(this.#keyOf(id))
  }

  #keyOf(id: string): string {
    return this.#prefix + claimDigest(id)
  }
}
