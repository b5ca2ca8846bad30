import { newTicket, ticketDigest, type Tickets } from './tickets.ts'

/** The oldest tickets are forgotten beyond this number. */
const MAX_TICKETS = 10_000

/** Embedded: tickets are known to the process that issued them. */
export class MemoryTickets implements Tickets {
  readonly #now: () => number
  /** When each expires, in milliseconds since the epoch. */
  readonly #issued = new Map<string, number>()

  constructor(options: { readonly now?: () => number } = {}) {
    this.#now = options.now ?? Date.now
  }

  async issue(purpose: string, lifeMs: number): Promise<string> {
    this.#forgetExpired()
    const [oldest] = this.#issued.keys()
    if (oldest !== undefined && this.#issued.size >= MAX_TICKETS) this.#issued.delete(oldest)
    const ticket = newTicket()
    this.#issued.set(ticketDigest(purpose, ticket), this.#now() + lifeMs)
    return ticket
  }

  async redeem(purpose: string, ticket: string): Promise<boolean> {
    this.#forgetExpired()
    return this.#issued.delete(ticketDigest(purpose, ticket))
  }

  #forgetExpired(): void {
    for (const [digest, expiresAt] of this.#issued) if (expiresAt <= this.#now()) this.#issued.delete(digest)
  }
}
