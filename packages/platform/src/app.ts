import { errorsByProtocol } from '@bureau/faces'
import {
  answerCompletely,
  apiDocsRoutes,
  guideRoutes,
  consoleRoutes,
  logRequests,
  NO_SNIFFING,
  notFoundGate,
  REQUEST_ID_LABEL,
  requestIdOf,
  servedPaths,
  serveRoutes,
} from '@bureau/runtime'
import fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify'
import { apiKeyRoutes } from './api-keys/api-keys.routes.ts'
import { chatRoutes } from './chats/chats.routes.ts'
import { consumerTokenRoutes } from './consumer-tokens/consumer-tokens.routes.ts'
import { aguiRoutes } from './completions/agui.routes.ts'
import { completionRoutes } from './completions/completions.routes.ts'
import { protocolRoutes } from './completions/protocol-faces.ts'
import type { Platform } from './context.ts'
import { platformDocument } from './docs/openapi.ts'
import { refuseWhenFull } from './http/admission-gate.ts'
import { readStrictBodies } from './http/bodies.ts'
import { authenticateCallers, ownerOf } from './http/callers.ts'
import { allowOrigins } from './http/origins.ts'
import { answerClientError, renderError } from './http/render-error.ts'
import type { Route } from './http/route.ts'
import { routeSettings } from './http/route-settings.ts'
import { newId } from './ids.ts'
import { integrationRoutes } from './integrations/integrations.routes.ts'
import { memberRoutes } from './members/members.routes.ts'
import { operatorRoutes } from './owners/owners.routes.ts'
import { oauthRoutes } from './oauth/oauth.routes.ts'
import { approvalRoutes } from './completions/approvals.routes.ts'
import { runRoutes } from './completions/runs.routes.ts'
import { metricsRoute } from './system/metrics.routes.ts'
import { systemRoutes } from './system/system.routes.ts'
import { fileRoutes } from './uploads/files.routes.ts'
import { uploadRoutes } from './uploads/uploads.routes.ts'
import { usageRoutes } from './usage/usage.routes.ts'
import { webhookRoutes } from './webhooks/webhooks.routes.ts'
import { VERSION } from './version.ts'

/** Every route of the platform's own for owners and their consumers. The API description has those of the protocols, too. */
export const ROUTES: readonly Route[] = [
  ...completionRoutes,
  ...aguiRoutes,
  ...chatRoutes,
  ...runRoutes,
  ...approvalRoutes,
  ...memberRoutes,
  ...integrationRoutes,
  ...apiKeyRoutes,
  ...consumerTokenRoutes,
  ...usageRoutes,
  ...uploadRoutes,
  ...fileRoutes,
  ...webhookRoutes,
  ...oauthRoutes,
  ...systemRoutes,
]

const MINUTE_MS = 60_000

const renderUnrouted = errorsByProtocol(renderError)

/** The hosted platform as a Fastify instance that does not listen yet. */
export async function createApp(platform: Platform): Promise<FastifyInstance> {
  const loggerInstance: FastifyBaseLogger = platform.log
  const app = fastify({
    loggerInstance,
    bodyLimit: 262_144,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: REQUEST_ID_LABEL }),
    exposeHeadRoutes: false,
    trustProxy: [...platform.config.trustedProxies],
    forceCloseConnections: true,
    // Else 10 s, for hooks as well: a closing server would not wait any longer for its streams.
    pluginTimeout: 0,
    // While runs finish, requests are still answered: with what became of runs, or that no new one is taken.
    return503OnClosing: false,
    genReqId: (request) => requestIdOf(request, () => newId('req')),
    clientErrorHandler: answerClientError,
    frameworkErrors: (error, request, reply) => renderUnrouted(error, request, reply.header(...NO_SNIFFING)),
    routerOptions: { maxParamLength: 1_024 },
    requestTimeout: 5 * MINUTE_MS,
    keepAliveTimeout: 75_000,
    maxRequestsPerSocket: 1_000,
    http: { maxHeaderSize: 16_384, headersTimeout: 10_000 },
  })
  answerCompletely(app)
  logRequests(app, (request, reply) => ({ ownerId: ownerOf(request), runId: reply.getHeader('x-agent-run-id') }))
  app.addHook('onRequest', async (_request, reply) => void reply.header('cache-control', 'no-store'))
  app.setErrorHandler(renderError) // before the first route, which answers preflights
  await allowOrigins(app, platform)
  refuseWhenFull(app, platform)
  authenticateCallers(app, platform)
  readStrictBodies(app)
  app.setNotFoundHandler(notFoundGate(servedPaths(app), renderUnrouted, '/v1/openapi.json'))
  const protocols = protocolRoutes(platform, VERSION)
  serveRoutes(app, [...ROUTES, ...operatorRoutes, metricsRoute, ...protocols], routeSettings(platform))
  serveDocs(app, platform, [...ROUTES, ...protocols])
  if (platform.config.console)
    consoleRoutes(app, { open: true }, { version: VERSION, agencies: 'none', platform: true })
  return app
}

/** The API description is below `/v1`, beside that of a server on the same port, which then serves the guide. */
function serveDocs(app: FastifyInstance, { config }: Platform, routes: readonly Route[]): void {
  apiDocsRoutes(app, {
    prefix: '/v1',
    routeConfig: { open: true },
    document: ({ protocol, host }) => {
      const baseUrl = config.publicBaseUrl ?? `${protocol}://${host}`
      return platformDocument({ baseUrl, streamUrl: config.publicStreamUrl ?? baseUrl, routes })
    },
  })
  guideRoutes(app, { routeConfig: { open: true } })
}
