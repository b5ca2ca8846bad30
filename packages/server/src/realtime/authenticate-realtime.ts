import type { FastifyRequest } from 'fastify'
import { ServiceError } from '@bureau/protocol'
import { readBearer } from '@bureau/runtime'
import { isServerToken } from '../http/authenticate.ts'
import type { RealtimeTickets } from './realtime-tickets.ts'

/** The protocol that a connection agrees on with a client that offers it. */
export const SUBPROTOCOL = 'bureau.realtime'

/** A browser cannot set headers on a WebSocket, so its credential comes as one more protocol that it offers. */
const TOKEN_PROTOCOL = 'bureau.token.'

export type RealtimeAccess = {
  /** Undefined: no authentication. */
  readonly token: string | undefined
  readonly origins: readonly string[]
  readonly tickets: RealtimeTickets
}

/** What a browser passes as the protocols of its `WebSocket`. */
export function subprotocolsOf(credential: string): string[] {
  return [SUBPROTOCOL, `${TOKEN_PROTOCOL}${Buffer.from(credential).toString('base64url')}`]
}

/**
 * Checks a handshake before it is accepted: the page's origin, then the server token or a ticket.
 *
 * @throws ServiceError `unauthorized`, or `not_authenticated` without any credential.
 */
export function authenticateRealtime(request: FastifyRequest, agency: string, access: RealtimeAccess): void {
  const { origin, authorization } = request.headers
  // Browsers apply no CORS to WebSockets: any page could connect with whatever the browser holds.
  if (origin !== undefined && !access.origins.includes('*') && !access.origins.includes(origin)) {
    throw new ServiceError('unauthorized', { message: 'Pages of this origin may not connect.' })
  }
  if (access.token === undefined) return
  const given = readBearer(authorization) ?? offeredCredential(request.headers['sec-websocket-protocol'])
  if (given === undefined) throw new ServiceError('not_authenticated')
  if (!isServerToken(given, access.token) && !access.tickets.redeem(agency, given)) {
    throw new ServiceError('unauthorized')
  }
}

function offeredCredential(header: string | undefined): string | undefined {
  const offered = header?.split(',').map((name) => name.trim()) ?? []
  const encoded = offered.find((name) => name.startsWith(TOKEN_PROTOCOL))?.slice(TOKEN_PROTOCOL.length)
  return encoded ? Buffer.from(encoded, 'base64url').toString() : undefined
}
