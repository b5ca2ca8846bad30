import { hash, randomBytes } from 'node:crypto'

/** One-time tickets: whoever may do something hands one on to somebody else, who may then do it once. */
export interface Tickets {
  /**
   * Makes a ticket that is good for `purpose` during `lifeMs` milliseconds: 32 random bytes in base64url. It is derived from
   * nothing, so that nothing can be guessed from it.
   */
  issue(purpose: string, lifeMs: number): Promise<string>

  /** True once, on any process, for a ticket of this purpose that has not expired. */
  redeem(purpose: string, ticket: string): Promise<boolean>
}

export function newTicket(): string {
  return randomBytes(32).toString('base64url')
}

/** Tickets are looked up by a digest: how long a look-up takes tells nothing about the ticket. */
export function ticketDigest(purpose: string, ticket: string): string {
  return hash('sha256', JSON.stringify([purpose, ticket]), 'base64url')
}
