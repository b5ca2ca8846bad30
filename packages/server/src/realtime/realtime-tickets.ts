import { createHash, createHmac, randomBytes } from 'node:crypto'
import { sameSecret } from '@bureau/runtime'

const TICKET_LIFE_MS = 60_000

/**
 * Tickets let a browser connect without the server token: each opens one connection to one agency, within a minute.
 *
 * A ticket is signed with the server token, so that any replica knows it for good; that it was used, only the replica
 * that it was used on remembers.
 */
export class RealtimeTickets {
  readonly #key: Buffer
  readonly #now: () => number
  readonly #used = new Map<string, number>()

  /** @param token - The server token; without one there is nothing to protect and any key will do. */
  constructor(token: string | undefined, now: () => number) {
    this.#key = token === undefined ? randomBytes(32) : createHash('sha256').update(`realtime ticket ${token}`).digest()
    this.#now = now
  }

  issue(agency: string): { readonly ticket: string; readonly expiresInSeconds: number } {
    const content = { agency, expiresAt: this.#now() + TICKET_LIFE_MS, nonce: randomBytes(16).toString('base64url') }
    const payload = Buffer.from(JSON.stringify(content)).toString('base64url')
    return { ticket: `${payload}.${this.#sign(payload)}`, expiresInSeconds: TICKET_LIFE_MS / 1000 }
  }

  /** True once, for a ticket of this agency that has not expired. */
  redeem(agency: string, ticket: string): boolean {
    const [payload = '', signature = ''] = ticket.split('.')
    if (!sameSecret(signature, this.#sign(payload))) return false
    const content = JSON.parse(Buffer.from(payload, 'base64url').toString()) as {
      readonly agency: string
      readonly expiresAt: number
      readonly nonce: string
    }
    const now = this.#now()
    for (const [nonce, expiresAt] of this.#used) if (expiresAt <= now) this.#used.delete(nonce)
    if (content.agency !== agency || content.expiresAt <= now || this.#used.has(content.nonce)) return false
    this.#used.set(content.nonce, content.expiresAt)
    return true
  }

  #sign(payload: string): string {
    return createHmac('sha256', this.#key).update(payload).digest('base64url')
  }
}
