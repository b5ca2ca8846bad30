import websocket from '@fastify/websocket'
import type { FastifyInstance } from 'fastify'
import type { Agency } from '@bureau/framework'
import { ServiceError } from '@bureau/protocol'
import type { Logger, Tickets } from '@bureau/runtime'
import type { ServerContext } from '../context.ts'
import type { Callers } from '../http/callers.ts'
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

declare module 'fastify' {
  interface FastifyContextConfig {
    /** True: the route checks its caller itself, because its credentials may come in other ways than a header. */
    readonly authenticatesItself?: boolean
  }
}

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

/**
 * The realtime routes of all agencies.
 *
 * @throws ConfigError the options are not valid, the package for realtime sessions is not installed, or the provider has
 *   no such voice as an entry agent's.
 */
export async function serveRealtime(
  app: FastifyInstance,
  agencies: ReadonlyMap<string, Agency>,
  setUp: RealtimeSetUp,
): Promise<void> {
  const realtime = await openRealtime(app, setUp)
  for (const [name, agency] of agencies) realtimeRoutes(app, name, agency, realtime)
}

/** `realtime`, a WebSocket with a voice agent behind it, and `realtime_ticket`, which lets a browser connect to it. */
function realtimeRoutes(app: FastifyInstance, name: string, agency: Agency, realtime: Realtime): void {
  const { sdk, settings, context, access, connections } = realtime
  const { voice } = agency.entryPoint
  if (voice !== undefined) checkVoice(settings.provider, voice, `voice of the agent "${agency.entryPoint.name}"`)
  for (const limit of realtimeLimits(agency)) context.log.warn(`Realtime sessions of "${name}": ${limit}.`)

  app.route({
    method: 'GET',
    url: `/${name}/realtime`,
    config: { authenticatesItself: true },
    onRequest: async (request) => authenticateRealtime(request, name, access),
    handler: async () => {
      throw new ServiceError('route_not_found', { message: 'This route takes WebSocket connections only.' })
    },
    wsHandler: (socket, request) => {
      connections.add(socket)
      const log = request.log as Logger
      return serveRealtimeConnection({ socket, agency, agencyName: name, sdk, settings, context, log })
    },
  })

  app.post(`/${name}/realtime_ticket`, async () => {
    const ticket = await issueTicket(access.tickets, name)
    return { ticket, expires_in: TICKET_LIFE_MS / 1000, protocols: subprotocolsOf(ticket) }
  })
}
