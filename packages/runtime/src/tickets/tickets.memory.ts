import { newTicket, ticketDigest, type Tickets } from './tickets.ts'

/** The oldest tickets are forgotten beyond this number. */
const MAX_TICKETS = 10_000

/** Embedded: tickets are known to the process that issued them. */
export class MemoryTickets implements Tickets {
  readonly #now: () => number
  /** When each expires. */
  readonly #issued = new Map<string, number>()

  /** `now` answers monotonic milliseconds: a clock that is set must not change how long anything counts. */
  constructor(options: { readonly now?: () => number } = {}) {
    this.#now = options.now ?? (() => performance.now())
  }

  async issue(purpose: string, lifeMs: number): Promise<string> {
    this.#makeRoom()
    const ticket = newTicket()
    this.#issued.set(ticketDigest(purpose, ticket), this.#now() + lifeMs)
    return ticket
  }

  async redeem(purpose: string, ticket: string): Promise<boolean> {
    const digest = ticketDigest(purpose, ticket)
    const expiresAt = this.#issued.get(digest)
    this.#issued.delete(digest)
    return expiresAt !== undefined && expiresAt > this.#now()
  }

  /** Looks at the oldest only, so that many tickets do not make one expensive. */
  #makeRoom(): void {
    for (const [digest, expiresAt] of this.#issued) {
      if (expiresAt > this.#now() && this.#issued.size < MAX_TICKETS) return
      this.#issued.delete(digest)
    }
  }
}
