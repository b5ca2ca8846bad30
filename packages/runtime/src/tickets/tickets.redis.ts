import type { RedisConnection } from '../redis/connect-redis.ts'
import { newTicket, ticketDigest, type Tickets } from './tickets.ts'

/** Scaled: every process knows every ticket, and of two that redeem one only one succeeds. */
export class RedisTickets implements Tickets {
  readonly #redis: RedisConnection
  readonly #prefix: string

  /** `redis` stays its owner's to close. `prefix` keeps applications apart that share a Redis. */
  constructor(redis: RedisConnection, options: { readonly prefix?: string } = {}) {
    this.#redis = redis
    this.#prefix = `${options.prefix ?? 'bureau:'}ticket:`
  }

  async issue(purpose: string, lifeMs: number): Promise<string> {
    const ticket = newTicket()
    await this.#redis.commands.set(this.#keyOf(purpose, ticket), '', { expiration: { type: 'PX', value: lifeMs } })
    return ticket
  }

  async redeem(purpose: string, ticket: string): Promise<boolean> {
    return (await this.#redis.commands.del(this.#keyOf(purpose, ticket))) === 1
  }

  #keyOf(purpose: string, ticket: string): string {
    return this.#prefix + ticketDigest(purpose, ticket)
  }
}
