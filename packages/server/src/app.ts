import cors from '@fastify/cors'
import fastify, { type FastifyBaseLogger, type FastifyInstance, type FastifyRequest, LogController } from 'fastify'
import { type Agency, McpConnections } from '@bureau/framework'
import { ConfigError } from '@bureau/protocol'
import {
  answerCompletely,
  apiDocsRoutes,
  createLogger,
  type Logger,
  NO_SNIFFING,
  openBackends,
  readJsonBodies,
  startRun,
  usableDirectories,
} from '@bureau/runtime'
import { agencyRoutes } from './agencies/agencies.routes.ts'
import { loadConfig, type ServerConfig } from './config.ts'
import type { ServerContext } from './context.ts'
import { type ApiDescription, openApiDocument } from './docs/openapi.ts'
import { type Callers, callersOf, LOOPBACK_HOST } from './http/callers.ts'
import { finishRunsBeforeClosing } from './http/closing.ts'
import { renderError, renderNotFound } from './http/render-error.ts'
import { schemaCompilers } from './http/schema-compilers.ts'
import { refuseUnreadable } from './http/unreadable-request.ts'
import { ActivityLogs } from './logs/activity-logs.ts'
import { logsRoutes, recordActivity } from './logs/logs.routes.ts'
import { modelAccess, type ServerModelAccess } from './model-access.ts'
import { oauthRoutes } from './oauth/oauth.routes.ts'
import { openSignIns } from './oauth/open-sign-ins.ts'
import { Observability } from './observability/observability.ts'
import { logRequests, REQUEST_ID_LABEL, requestIdOf } from './observability/request-log.ts'
import { checkServerOptions } from './check-options.ts'
import { drainMsOf, readAgencies, readVendors, type ServerOptions } from './options.ts'
import type { RealtimeSetUp } from './realtime/realtime.routes.ts'
import { RunSlots } from './run-slots.ts'
import { readTools } from './tools/read-tools.ts'
import { toolRoutes } from './tools/tools.routes.ts'

const OPEN_ROUTES = new Set(['/healthz', '/readyz', '/auth/callback'])
const DOCS_ROUTES = /^\/(?:docs|redoc|openapi\.json)(?:\/|$)/
const MIB = 1_048_576
const MINUTE_MS = 60_000

/**
 * The server as a Fastify instance that does not listen yet: for embedding, and for tests without a socket.
 *
 * @throws ConfigError options or environment are not valid.
 */
export async function createApp(options: ServerOptions, config: ServerConfig = loadConfig()): Promise<FastifyInstance> {
  checkServerOptions(options)
  const agencies = readAgencies(options)
  const tools = readTools(options.tools ?? [])
  if (agencies.size === 0 && tools.length === 0) throw new ConfigError('Nothing to serve: give agencies or tools.')
  const log = createLogger(options.logLevel ?? 'info')
  const callers = callersOf(options, config)
  if (callers.token === undefined) warnOfOpenServer(options, log)
  const observability = await openObservability(options, config, { agencies, callers, log })
  const app = newFastify(options, config, log)
  answerCompletely(app)
  const models = modelAccess(config, options.egress)
  const backends = await openBackends({ redisUrl: config.redisUrl, log })
  const signIns = openSignIns({ options, config, agencies, registry: backends.oauthStates, log })
  const watched = { now: Date.now, observer: observability.observer() }
  const environment = { models, mcp: new McpConnections(), ...watched, ...(signIns && { oauth: signIns.access }) }
  const slots = new RunSlots(options.maxConcurrentRuns)
  const context: ServerContext = {
    environment,
    startRun: (request, start) => {
      const watchedHere = { ...environment, observer: observability.observer(request) }
      return slots.start(() => startRun(watchedHere, backends.runs, { ...start, log: request.log as Logger }))
    },
    takeSlot: () => slots.take(),
    observeSession: (agency) => observability.session(agency),
    runs: backends.runs,
    signIns,
    log,
    metadataOptions: { ...metadataOptions(options, config), toolServers: { mcp: environment.mcp, log } },
    callerVendors: readVendors(options, agencies.values(), config.model.defaultModel),
    aguiReasoning: options.aguiReasoning ?? true,
    files: fileSettings(options, models),
  }
  app.addHook('onClose', async () => {
    await context.environment.mcp.close()
    await signIns?.close()
    await backends.close()
    await models.close()
  })
  logRequests(app)
  await allowOrigins(app, callers.origins)
  finishRunsBeforeClosing(app, { runs: backends.runs, drainMs: drainMsOf(options) })
  const isOpen = openRoutes(options.publicDocs ?? false)
  checkCallers(app, callers, isOpen)
  if (options.enableLogging) await keepActivity(app, options.logsDir ?? 'activity-logs', isOpen)
  observability.install(app)
  readJsonBodies(app)
  app.setErrorHandler(renderError)
  app.setNotFoundHandler(renderNotFound)
  for (const path of ['/healthz', '/readyz']) app.get(path, async () => ({ status: 'ok' }))
  const aguiRequest = await addAgencies(app, agencies, { options, context })
  if (signIns) oauthRoutes(app, signIns)
  await addRealtime(app, agencies, { options, context, callers, tickets: backends.tickets })
  toolRoutes(app, tools)
  const description = openApiDocument({ ...describe(options, callers), signIns, aguiRequest, agencies, tools })
  apiDocsRoutes(app, { prefix: '', document: () => description })
  return app
}

export const VERSION = '0.1.0'

function newFastify(options: ServerOptions, config: ServerConfig, log: Logger): FastifyInstance {
  const loggerInstance: FastifyBaseLogger = log
  return fastify({
    loggerInstance,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: REQUEST_ID_LABEL }),
    bodyLimit: options.bodyLimitBytes ?? 32 * MIB,
    exposeHeadRoutes: false,
    trustProxy: [...config.trustedProxies],
    // Of a whole request; what is too slow long before that is cut by whoever receives its body.
    requestTimeout: 5 * MINUTE_MS,
    schemaController: { compilersFactory: schemaCompilers },
    forceCloseConnections: true,
    // Else 10 s, for hooks as well: a closing server would not wait any longer for its streams.
    pluginTimeout: 0,
    return503OnClosing: false,
    // Addresses that cannot be read never come as far as a route.
    frameworkErrors: (error, request, reply) => void renderError(error, request, reply.header(...NO_SNIFFING)),
    clientErrorHandler: refuseUnreadable,
    genReqId: requestIdOf,
  })
}

type Watched = {
  readonly agencies: ReadonlyMap<string, Agency>
  readonly callers: Callers
  readonly log: Logger
}

function openObservability(options: ServerOptions, config: ServerConfig, watched: Watched): Promise<Observability> {
  const { tracing, metrics } = options
  const endpoint = config.read('OTEL_EXPORTER_OTLP_ENDPOINT')
  return Observability.open({ tracing, metrics, endpoint, version: VERSION, ...watched })
}

function metadataOptions(
  options: ServerOptions,
  config: ServerConfig,
): Omit<ServerContext['metadataOptions'], 'toolServers'> {
  const localDirs = options.allowedLocalFileDirs ?? []
  return {
    exposeInstructions: options.exposeInstructions ?? false,
    version: VERSION,
    defaultModel: config.model.defaultModel,
    usableLocalDirs: async () => (localDirs.length > 0 ? usableDirectories(localDirs) : null),
  }
}

function fileSettings(options: ServerOptions, models: ServerModelAccess): ServerContext['files'] {
  return {
    dispatcher: models.callerDispatcher,
    allowedLocalFileDirs: options.allowedLocalFileDirs ?? [],
    deleteUploadsAfterRun: options.deleteUploadsAfterRun ?? false,
  }
}

type AgencyParts = { readonly options: ServerOptions; readonly context: ServerContext }

/** Returns the body of the agencies' requests where they speak AG-UI. */
async function addAgencies(
  app: FastifyInstance,
  agencies: ReadonlyMap<string, Agency>,
  { options, context }: AgencyParts,
): Promise<ApiDescription['aguiRequest']> {
  const agui = options.enableAgui ? await import('./agui/agui.routes.ts') : undefined
  const routes = agui?.aguiRoutes ?? agencyRoutes
  for (const [name, agency] of agencies) routes(app, context, name, agency)
  return agui?.AguiRequest
}

type RealtimeParts = AgencyParts & Pick<RealtimeSetUp, 'callers' | 'tickets'>

async function addRealtime(
  app: FastifyInstance,
  agencies: ReadonlyMap<string, Agency>,
  { options, ...setUp }: RealtimeParts,
): Promise<void> {
  const { enableRealtime = false, realtimeOptions = {} } = options
  if (!enableRealtime) return
  const { serveRealtime } = await import('./realtime/realtime.routes.ts')
  await serveRealtime(app, agencies, { options: realtimeOptions, ...setUp })
}

function describe(
  options: ServerOptions,
  { host }: Callers,
): Pick<ApiDescription, 'title' | 'version' | 'serverUrl' | 'realtime' | 'logs'> {
  const { enableRealtime: realtime = false, enableLogging: logs = false } = options
  return { title: 'Bureau agent server', version: VERSION, serverUrl: serverUrl({ ...options, host }), realtime, logs }
}

/** The address in the API description. */
function serverUrl({ serverUrl: url, host, port = 8000 }: ServerOptions): string {
  return url ?? `http://${host === '0.0.0.0' || host === '::' ? 'localhost' : host}:${port}`
}

/** Before anything else, so that refusals and failures carry the headers too. */
async function allowOrigins(app: FastifyInstance, origins: Callers['origins']): Promise<void> {
  const any = origins.includes('*')
  const areListed = origins.every((origin) => typeof origin === 'string')
  await app.register(cors, {
    origin: any ? '*' : [...origins],
    credentials: areListed && !any,
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'],
    maxAge: 600,
    // OPTIONS requests that ask for nothing are answered like the others, not with a text of the library's.
    strictPreflight: false,
    optionsSuccessStatus: 200,
    exposedHeaders: ['x-request-id'],
  })
}

/** Callers are checked before their bodies are read; only callbacks and health are open (seed, Authentication 1). */
function checkCallers(app: FastifyInstance, { check }: Callers, isOpen: IsOpen): void {
  app.addHook('onRequest', async (request) => {
    if (!isOpen(request)) check(request)
  })
}

function warnOfOpenServer({ appTokenEnv, host, corsOrigins }: ServerOptions, log: Logger): void {
  const name = appTokenEnv ?? 'APP_TOKEN'
  const listens = host === undefined ? ', so runServer listens on 127.0.0.1 only (`host` changes that)' : ''
  const answers = corsOrigins === undefined ? '; pages of other machines may not call (`corsOrigins` changes that)' : ''
  // Who names a variable wants a token: in a network this is a mistake, and on one machine it may be a trial.
  const isMistake = appTokenEnv !== undefined && host !== undefined && !LOOPBACK_HOST.test(host)
  log[isMistake ? 'error' : 'warn'](`authentication is off: ${name} is not set${listens}${answers}`)
}

type IsOpen = (request: FastifyRequest) => boolean

function openRoutes(publicDocs: boolean): IsOpen {
  return ({ method, url, routeOptions }) => {
    const path = url.split('?')[0]!
    if (method === 'OPTIONS' || OPEN_ROUTES.has(path) || (publicDocs && DOCS_ROUTES.test(path))) return true
    return routeOptions.config?.authenticatesItself ?? false
  }
}

async function keepActivity(app: FastifyInstance, directory: string, isOpen: IsOpen): Promise<void> {
  const logs = await ActivityLogs.open(directory, (error) => app.log.error({ err: error }, 'activity is not recorded'))
  app.addHook('onClose', () => logs.close())
  recordActivity(app, logs, isOpen)
  logsRoutes(app, logs)
}
