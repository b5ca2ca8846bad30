import type { RedisConnection } from '../redis/connect-redis.ts'
import { type NamedRequest, REQUEST_ID_MS, requestDigest, type RequestedRun, type RequestIds } from './request-ids.ts'

/** Scaled: every process knows every request. */
export class RedisRequestIds implements RequestIds {
  readonly #redis: RedisConnection
  readonly #prefix: string

  /** `redis` stays its owner's to close. `prefix` keeps applications apart that share a Redis. */
  constructor(redis: RedisConnection, options: { readonly prefix?: string } = {}) {
    this.#redis = redis
    this.#prefix = `${options.prefix ?? 'bureau:'}request:`
  }

  async claim(request: NamedRequest, run: RequestedRun): Promise<RequestedRun> {
    const expiration = { type: 'PX', value: REQUEST_ID_MS } as const
    for (;;) {
      const set = await this.#redis.commands.set(this.#keyOf(request), JSON.stringify(run), {
        expiration,
        condition: 'NX',
      })
      if (set !== null) return run
      // It may have been released, or have expired, since.
      const known = await this.find(request)
      if (known) return known
    }
  }

  async find(request: NamedRequest): Promise<RequestedRun | undefined> {
    const known = await this.#redis.commands.get(this.#keyOf(request))
    return known === null ? undefined : (JSON.parse(known) as RequestedRun)
  }

  async release(request: NamedRequest): Promise<void> {
    await this.#redis.commands.del(this.#keyOf(request))
  }

  #keyOf(request: NamedRequest): string {
    return this.#prefix + requestDigest(request)
  }
}
