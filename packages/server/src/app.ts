import fastify, { type FastifyBaseLogger, type FastifyInstance, type FastifyRequest, LogController } from 'fastify'
import { type Agency, McpConnections, modelProblems } from '@bureau/framework'
import { errorsByProtocol } from '@bureau/faces'
import {
  answerCompletely,
  BodyReceiver,
  createLogger,
  KeptRuns,
  type Logger,
  logRequests,
  NO_SNIFFING,
  notFoundGate,
  Observability,
  openBackends,
  parseJson,
  readJsonBodies,
  REQUEST_ID_LABEL,
  requestIdOf,
  RunHost,
  servedPaths,
  usableDirectories,
} from '@bureau/runtime'
import { openApprovals } from './approvals/approvals.ts'
import { loadConfig, type ServerConfig } from './config.ts'
import { recentRunsOf } from './console/serve-console.ts'
import type { ServerContext } from './context.ts'
import { allowOrigins, type Callers, callersOf, LOOPBACK_HOST } from './http/callers.ts'
import { finishRunsBeforeClosing } from './http/closing.ts'
import { readMetricsOption, serveMetrics } from './http/metrics.routes.ts'
import { refuseUnreadable, renderError } from './http/render-error.ts'
import { schemaCompilers } from './http/schema-compilers.ts'
import { ActivityLogs } from './logs/activity-logs.ts'
import { recordActivity } from './logs/logs.routes.ts'
import { modelAccess, type ServerModelAccess } from './model-access.ts'
import { openSignIns } from './oauth/open-sign-ins.ts'
import { addRoutes } from './app-routes.ts'
import { bodyLimitOf, drainMsOf, maxRunsOf, readVendors, resumeMsOf, type ServerOptions } from './options.ts'
import { readServed } from './read-served.ts'
import { RequestRuns } from './request-runs.ts'
import { RunSlots } from './run-slots.ts'

/**
 * The server as a Fastify instance that does not listen yet: for embedding, and for tests without a socket.
 *
 * @throws ConfigError options or environment are not valid.
 */
export async function createApp(options: ServerOptions, config: ServerConfig = loadConfig()): Promise<FastifyInstance> {
  const { agencies, tools } = readServed(options)
  const log = createLogger(options.logLevel ?? 'info', options.logDestination)
  const callers = callersOf(options, config)
  if (!callers.areKnown) warnOfOpenServer(options, log)
  if (options.authenticate && config.read('APP_TOKEN') !== undefined) {
    log.warn('APP_TOKEN is set and not used: authenticate says who may call')
  }
  const metrics = readMetricsOption(options.metrics ?? config.metrics)
  const observability = await openObservability(options, config, { metrics: metrics !== undefined, agencies, log })
  const app = newFastify(options, config, log)
  answerCompletely(app)
  app.setNotFoundHandler(notFoundGate(servedPaths(app), renderUnrouted, '/openapi.json'))
  const models = modelAccess(config, options.egress)
  warnOfModels(agencies, models, log)
  const resumeMs = resumeMsOf(options)
  const backends = await openBackends({ ...config, log, resumeMs, claimsDirectory: config.approvals.used })
  const hosting = openRunHost(backends, resumeMs)
  const signIns = openSignIns({ options, config, agencies, registry: backends.oauthStates, log })
  const mcp = new McpConnections({ onWarning: (message) => log.warn(message) })
  const known = { models, mcp, ...(signIns && { oauth: signIns.access }) }
  const environment = { ...known, now: Date.now, observer: observability.observer() }
  const recent = recentRunsOf(options, config)
  const slots = new RunSlots(maxRunsOf(options))
  const context: ServerContext = {
    environment,
    takeSlot: () => slots.take(),
    observeSession: (agency) => observability.session(agency),
    runs: new RequestRuns({
      host: hosting.host,
      slots,
      environmentOf: (request, recorder) => ({ ...environment, observer: observability.observer(request, recorder) }),
      recent,
    }),
    ...hosting,
    keepsRuns: resumeMs > 0,
    approvals: openApprovals(options, config.approvals, backends.claims),
    signIns,
    log,
    metadataOptions: { ...metadataOptions(options, config), toolServers: { mcp: environment.mcp, log } },
    callerVendors: readVendors(options, agencies.values(), config.model.defaultModel),
    aguiReasoning: options.aguiReasoning ?? true,
    files: fileSettings(options, models),
  }
  // The last is closed first.
  for (const each of [observability, models, backends, signIns, environment.mcp])
    app.addHook('onClose', async () => each?.close())
  logRequests(app)
  await allowOrigins(app, callers.origins)
  finishRunsBeforeClosing(app, { ...hosting, drainMs: drainMsOf(options) })
  checkCallers(app, callers)
  const logs = await keepActivity(app, options)
  serveMetrics(app, metrics, { observability, callers, log })
  readBodies(app)
  app.setErrorHandler(renderError)
  const { tickets } = backends
  await addRoutes(app, { agencies, tools, options, config, context, callers, logs, recent, tickets, version: VERSION })
  return app
}

const VERSION = '0.1.0'

const renderUnrouted = errorsByProtocol(renderError)

function newFastify(options: ServerOptions, config: ServerConfig, log: Logger): FastifyInstance {
  const loggerInstance: FastifyBaseLogger = log
  return fastify({
    loggerInstance,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: REQUEST_ID_LABEL }),
    bodyLimit: bodyLimitOf(options),
    exposeHeadRoutes: false,
    trustProxy: [...config.trustedProxies],
    // Five minutes for a whole request; what is too slow long before that is cut by whoever receives its body.
    requestTimeout: 300_000,
    // Names of agencies and agents are longer than the default.
    routerOptions: { maxParamLength: 512 },
    schemaController: { compilersFactory: schemaCompilers },
    forceCloseConnections: true,
    // Else 10 s, for hooks as well: a closing server would not wait any longer for its streams.
    pluginTimeout: 0,
    return503OnClosing: false,
    // Addresses that cannot be read never come as far as a route.
    frameworkErrors: (error, request, reply) => renderUnrouted(error, request, reply.header(...NO_SNIFFING)),
    clientErrorHandler: refuseUnreadable,
    genReqId: requestIdOf,
  })
}

type Watched = { readonly metrics: boolean; readonly agencies: ReadonlyMap<string, Agency>; readonly log: Logger }

function openObservability({ tracing }: ServerOptions, config: ServerConfig, watched: Watched): Promise<Observability> {
  const endpoint = config.read('OTEL_EXPORTER_OTLP_ENDPOINT')
  return Observability.open({ tracing, endpoint, version: VERSION, ...watched })
}

function openRunHost(
  { runs: registry, runLogs: logs, requestIds }: Awaited<ReturnType<typeof openBackends>>,
  resumeMs: number,
): Pick<ServerContext, 'host' | 'kept' | 'registry'> {
  const kept = new KeptRuns({ logs, registry, resumeMs })
  return { host: new RunHost(registry, kept, requestIds), kept, registry }
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

/** What is not JSON is read as null, so that the route can say what it wants. */
function readBodies(app: FastifyInstance): void {
  const types = /^application\/(?:[\w.-]+\+)?json\b/i
  readJsonBodies(app, { types, receiver: new BodyReceiver(), parse: parseJson, others: 'null' })
}

/** Callers are checked before their bodies are read; only callbacks and health are open (seed, Authentication 1). */
function checkCallers(app: FastifyInstance, { check }: Callers): void {
  app.addHook('onRequest', async (request) => {
    if (!isOpen(request)) await check(request)
  })
}

/** Browsers that come back from a sign-in are let in also where nobody signs in: there is nothing then. */
const isOpen = ({ method, url, routeOptions: { config } }: FastifyRequest): boolean =>
  method === 'OPTIONS' ||
  config.open === true ||
  config.authenticatesItself === true ||
  /^\/auth\/callback(?:\?|$)/.test(url)

function warnOfOpenServer({ appTokenEnv, host, corsOrigins }: ServerOptions, log: Logger): void {
  const name = appTokenEnv ?? 'APP_TOKEN'
  // Who names a variable wants a token: in a network this is a mistake, and on one machine it may be a trial.
  const isMistake = appTokenEnv !== undefined && host !== undefined && !LOOPBACK_HOST.test(host)
  log[isMistake ? 'error' : 'warn'](`authentication is off: ${name} is not set`)
  if (corsOrigins === undefined) log.warn('pages of other machines may not call: corsOrigins is not set')
}

function warnOfModels(agencies: ReadonlyMap<string, Agency>, models: ServerModelAccess, log: Logger): void {
  for (const [agency, definition] of agencies) {
    for (const { agents, problem } of modelProblems(definition, models)) {
      log.warn({ agency, agents }, `no model for ${agents.join(', ')}: ${problem}`)
    }
  }
}

async function keepActivity(app: FastifyInstance, options: ServerOptions): Promise<ActivityLogs | undefined> {
  const { enableLogging = false, logsDir = 'activity-logs' } = options
  if (!enableLogging) return undefined
  const logs = await ActivityLogs.open(logsDir, (error) => app.log.error({ err: error }, 'activity is not recorded'))
  app.addHook('onClose', () => logs.close())
  recordActivity(app, logs, isOpen)
  return logs
}
