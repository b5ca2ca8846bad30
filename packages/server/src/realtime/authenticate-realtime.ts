import type { FastifyRequest } from 'fastify'
import { readBearer, type Tickets } from '@bureau/runtime'
import { type Callers, isStrangersPage, requireOrigin } from '../http/callers.ts'

/** The protocol that a connection agrees on with a client that offers it. */
export const SUBPROTOCOL = 'bureau.realtime'

/** A browser cannot set headers on a WebSocket, so its credential comes as one more protocol that it offers. */
const TOKEN_PROTOCOL = 'bureau.token.'

export type RealtimeAccess = {
  readonly callers: Callers
  readonly tickets: Tickets
}

/** How long a ticket is good for, in milliseconds. */
export const TICKET_LIFE_MS = 60_000

/** A ticket with which a browser connects to an agency once, instead of the server token. */
export function issueTicket(tickets: Tickets, agency: string): Promise<string> {
  return tickets.issue(purposeOf(agency), TICKET_LIFE_MS)
}

function purposeOf(agency: string): string {
  return `realtime ${agency}`
}

/** What a browser passes as the protocols of its `WebSocket`. */
export function subprotocolsOf(credential: string): string[] {
  return [SUBPROTOCOL, `${TOKEN_PROTOCOL}${Buffer.from(credential).toString('base64url')}`]
}

/**
 * Checks a handshake before it is accepted: the page's origin, then the server token or a ticket.
 *
 * @throws ServiceError `origin_not_allowed`; `unauthorized`, or `not_authenticated` without any credential, or
 *   `rate_limited` for a client that has sent too many wrong ones; without a server token what `Callers` refuses.
 */
export async function authenticateRealtime(
  request: FastifyRequest,
  agency: string,
  access: RealtimeAccess,
): Promise<void> {
  const { callers, tickets } = access
  if (!callers.areKnown) return callers.check(request)
  // Browsers apply no CORS to WebSockets: any page could connect with whatever the browser holds.
  requireOrigin(request, callers.origins)
  if (isStrangersPage(request, callers.origins)) delete request.headers.cookie
  const { authorization, 'sec-websocket-protocol': protocols } = request.headers
  const given = readBearer(authorization) ?? offeredCredential(protocols)
  if (given !== undefined && (await tickets.redeem(purposeOf(agency), given))) return undefined
  // What a browser cannot send as a header counts as one.
  if (given !== undefined) request.headers.authorization = `Bearer ${given}`
  return callers.check(request)
}

function offeredCredential(header: string | undefined): string | undefined {
  const offered = header?.split(',').map((name) => name.trim()) ?? []
  const encoded = offered.find((name) => name.startsWith(TOKEN_PROTOCOL))?.slice(TOKEN_PROTOCOL.length)
  return encoded ? Buffer.from(encoded, 'base64url').toString() : undefined
}
