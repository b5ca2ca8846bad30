import type { Agency, FunctionTool } from '@bureau/framework'
import { baseUrlOf } from '@bureau/faces'
import { apiDocsRoutes, guideRoutes, ok, serveRoutes } from '@bureau/runtime'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { ServerConfig } from './config.ts'
import type { RecentRuns } from './console/recent-runs.ts'
import { recentRunsRoutes } from './console/recent-runs.routes.ts'
import { runToolRoutes } from './console/run-tool.routes.ts'
import { serveConsole, servesOperators } from './console/serve-console.ts'
import { settingsRoutes } from './console/settings.routes.ts'
import type { ServerContext } from './context.ts'
import { OF_STRANGERS, openApiDocument } from './docs/openapi.ts'
import { agencyFace } from './faces/agency/agency-face.ts'
import { aguiFace } from './faces/agui-face.ts'
import { type Face, metadataRoute, type ServedAgency } from './faces/face.ts'
import { openAiRoutes, protocolRoutes } from './faces/protocol-faces.ts'
import { jsonRoute, named, ROUTE_SETTINGS, type ServerRoute } from './http/route.ts'
import type { ActivityLogs } from './logs/activity-logs.ts'
import { logsRoutes } from './logs/logs.routes.ts'
import { oauthRoutes } from './oauth/oauth.routes.ts'
import type { ServerOptions } from './options.ts'
import type { RealtimeSetUp } from './realtime/realtime.routes.ts'
import { toolRoutes } from './tools/tools.routes.ts'

type AppParts = Pick<RealtimeSetUp, 'callers' | 'tickets'> & {
  readonly agencies: ReadonlyMap<string, Agency>
  readonly tools: readonly FunctionTool[]
  readonly options: ServerOptions
  readonly config: ServerConfig
  readonly context: ServerContext
  readonly logs: ActivityLogs | undefined
  readonly recent: RecentRuns | undefined
  readonly version: string
}

/** Everything that the server answers, and where. */
export async function addRoutes(app: FastifyInstance, parts: AppParts): Promise<void> {
  const { agencies, tools, options, config, context, callers, logs, recent, version } = parts
  const { signIns, files, log } = context
  const served = [...agencies].map(([name, agency]) => serve(name, agency, context))
  const agencyRows = [...agencyRoutes(served, options), ...openAiRoutes(served, options, config)]
  const otherRows = [
    ...toolRoutes(tools),
    ...rowsOf(logs, logsRoutes),
    ...rowsOf(signIns, oauthRoutes),
    ...rowsOf(recent, recentRunsRoutes),
    ...(servesOperators(options, config)
      ? settingsRoutes({ options, config, keepsRecentRuns: recent !== undefined, version })
      : []),
    ...(recent ? runToolRoutes({ agencies, toolServers: context.metadataOptions.toolServers }) : []),
  ]
  const { dispatcher } = files
  const protocolRows = protocolRoutes({ served, tools, callers, options, dispatcher, version, log })
  serveRoutes(app, [...HEALTH_ROUTES, ...agencyRows, ...protocolRows, ...otherRows], ROUTE_SETTINGS)
  const voiceRows = await voiceRoutes(app, parts)
  serveRoutes(app, voiceRows, ROUTE_SETTINGS)
  serveConsole(app, { options, config, callers, version })
  serveDocs(app, [...agencyRows, ...protocolRows, ...voiceRows, ...otherRows], parts)
}

/** The routes of a part that may be switched off. */
function rowsOf<Part>(part: Part | undefined, rows: (part: Part) => readonly ServerRoute[]): readonly ServerRoute[] {
  return part ? rows(part) : []
}

/** The seed's `enableAgui` puts one protocol in place of another at the same address. AG-UI has one of its own as well. */
function facesOf({ enableAgui = false }: ServerOptions): readonly Face[] {
  return [enableAgui ? aguiFace('get_response_stream') : agencyFace, aguiFace('agui')]
}

function serve(name: string, agency: Agency, context: ServerContext): ServedAgency {
  const createdAt = Math.floor(Date.now() / 1_000)
  return { name, agency, createdAt, signsIn: context.signIns?.agencies.has(agency) ?? false, context }
}

function agencyRoutes(agencies: readonly ServedAgency[], options: ServerOptions): ServerRoute[] {
  const faces = facesOf(options)
  return agencies.flatMap((served) => [...faces.flatMap((face) => face(served)), metadataRoute(served)])
}

/** Opened when all other routes are there: those that come later would accept WebSockets, to close them at once. */
async function voiceRoutes(
  app: FastifyInstance,
  { agencies, options, context, callers, tickets }: AppParts,
): Promise<ServerRoute[]> {
  const { enableRealtime = false, realtimeOptions = {} } = options
  if (!enableRealtime) return []
  const { realtimeRoutes } = await import('./realtime/realtime.routes.ts')
  return realtimeRoutes(app, agencies, { options: realtimeOptions, context, callers, tickets })
}

function serveDocs(app: FastifyInstance, rows: readonly ServerRoute[], { options, callers, version }: AppParts): void {
  const describe = (): object =>
    openApiDocument(rows, {
      info: { title: 'Bureau agent server', version },
      ...(!callers.areKnown && { ofCallers: OF_STRANGERS }),
    })
  // Made when it is first asked for: most servers never are, and it would slow every start.
  let description: object | undefined
  const document = (request: FastifyRequest): object => ({
    ...(description ??= describe()),
    servers: [{ url: serverUrl({ ...options, host: callers.host }, request) }],
  })
  const routeConfig = { open: options.publicDocs ?? false }
  apiDocsRoutes(app, { prefix: '', document, routeConfig })
  guideRoutes(app, { routeConfig })
}

/** The address in the API description: where nobody has said it, that which the caller knows. */
function serverUrl(options: ServerOptions, request: FastifyRequest): string {
  const { serverUrl: url, host, port } = options
  if (url !== undefined || port === undefined) return baseUrlOf({ serverUrl: url }, request)
  return `http://${host === '0.0.0.0' || host === '::' ? 'localhost' : host}:${port}`
}

/** For load balancers: alive, and ready for requests. */
const HEALTH_ROUTES = ['healthz', 'readyz'].map((id) =>
  jsonRoute(
    {
      ...named(id),
      method: 'GET',
      url: `/${id}`,
      tag: 'operation',
      open: true,
      success: { 200: z.object({ status: z.string() }) },
      errors: [],
    },
    async () => ok({ status: 'ok' }),
  ),
)
