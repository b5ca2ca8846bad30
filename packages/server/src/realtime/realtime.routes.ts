import websocket from '@fastify/websocket'
import type { FastifyInstance } from 'fastify'
import type { Agency } from '@bureau/framework'
import { ServiceError } from '@bureau/protocol'
import { type Logger, ok, type Tickets } from '@bureau/runtime'
import { z } from 'zod'
import type { ServerContext } from '../context.ts'
import type { Callers } from '../http/callers.ts'
import { jsonRoute, named, rawRoute, type ServerRoute } from '../http/route.ts'
import {
  authenticateRealtime,
  issueTicket,
  type RealtimeAccess,
  SUBPROTOCOL,
  subprotocolsOf,
  TICKET_LIFE_MS,
} from './authenticate-realtime.ts'
import { LiveConnections } from './live-connections.ts'
import { loadRealtimeSdk, type RealtimeSdk } from './load-realtime-sdk.ts'
import { realtimeLimits } from './realtime-agents.ts'
import { serveRealtimeConnection } from './realtime-connection.ts'
import { checkVoice, readRealtimeOptions, type RealtimeOptions, type RealtimeSettings } from './realtime-options.ts'

/** What the realtime routes of a server share. */
type Realtime = {
  readonly sdk: RealtimeSdk
  readonly settings: RealtimeSettings
  readonly context: ServerContext
  readonly access: RealtimeAccess
  readonly connections: LiveConnections
}

export type RealtimeSetUp = {
  readonly options: RealtimeOptions
  readonly context: ServerContext
  readonly callers: Callers
  readonly tickets: Tickets
}

/** @throws ConfigError the options are not valid, or the package for realtime sessions is not installed. */
async function openRealtime(app: FastifyInstance, setUp: RealtimeSetUp): Promise<Realtime> {
  const { environment } = setUp.context
  const settings = readRealtimeOptions(setUp.options, environment.models)
  const sdk = await loadRealtimeSdk()
  const connections = new LiveConnections(settings.heartbeatMs)
  await app.register(websocket, {
    options: {
      maxPayload: settings.maxMessageBytes,
      // Never the token that a browser offers as a protocol beside it.
      handleProtocols: (offered) => (offered.has(SUBPROTOCOL) ? SUBPROTOCOL : false),
    },
    preClose(done) {
      connections.closeAll()
      this.websocketServer.close()
      done()
    },
  })
  return { sdk, settings, context: setUp.context, access: setUp, connections }
}

const Ticket = z.object({
  ticket: z.string(),
  expires_in: z.int().describe('Seconds.'),
  protocols: z.array(z.string()).describe('What a browser gives its WebSocket.'),
})

/**
 * The realtime routes of all agencies.
 *
 * @throws ConfigError the options are not valid, the package for realtime sessions is not installed, or the provider has
 *   no such voice as an entry agent's.
 */
export async function realtimeRoutes(
  app: FastifyInstance,
  agencies: ReadonlyMap<string, Agency>,
  setUp: RealtimeSetUp,
): Promise<ServerRoute[]> {
  const realtime = await openRealtime(app, setUp)
  return [...agencies].flatMap(([name, agency]) => routesOf(name, agency, realtime))
}

/** `realtime`, a WebSocket with a voice agent behind it, and `realtime_ticket`, which lets a browser connect to it. */
function routesOf(name: string, agency: Agency, realtime: Realtime): ServerRoute[] {
  const { sdk, settings, context, access, connections } = realtime
  const { voice } = agency.entryPoint
  if (voice !== undefined) checkVoice(settings.provider, voice, `voice of the agent "${agency.entryPoint.name}"`)
  for (const limit of realtimeLimits(agency)) context.log.warn(`Realtime sessions of "${name}": ${limit}.`)
  return [
    rawRoute(
      {
        ...named(`handler_${name}_realtime_get`),
        method: 'GET',
        url: `/${name}/realtime`,
        tag: name,
        description:
          'A WebSocket with a voice agent behind it. Text frames are JSON objects with a `type`, binary frames are audio. ' +
          'Clients that cannot set headers offer the `protocols` of a ticket instead of the token.',
        authenticatesItself: true,
        success: { 101: null },
        errors: ['origin_not_allowed', 'host_not_allowed', 'route_not_found'],
        otherResponses: { 400: { description: 'The handshake was not a valid one.' } },
        fastify: {
          onRequest: async (request) => authenticateRealtime(request, name, access),
          wsHandler: (socket, request) => {
            connections.add(socket)
            const log = request.log as Logger
            return serveRealtimeConnection({ socket, agency, agencyName: name, sdk, settings, context, log })
          },
        },
      },
      async () => {
        throw new ServiceError('route_not_found', { message: 'This route takes WebSocket connections only.' })
      },
    ),
    jsonRoute(
      {
        ...named(`handler_${name}_realtime_ticket_post`),
        method: 'POST',
        url: `/${name}/realtime_ticket`,
        tag: name,
        description: 'A ticket for one connection within a minute.',
        success: { 200: Ticket },
        errors: [],
      },
      async () => {
        const ticket = await issueTicket(access.tickets, name)
        return ok({ ticket, expires_in: TICKET_LIFE_MS / 1000, protocols: subprotocolsOf(ticket) })
      },
    ),
  ]
}
