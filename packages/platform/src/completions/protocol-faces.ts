import { a2aRoutes, type AskedRun, type FaceRun, mcpRoutes, openAiFaces, RunTasks } from '@bureau/faces'
import { ServiceError } from '@bureau/protocol'
import type { FastifyRequest } from 'fastify'
import { requireOfConsumer } from '../consumer-tokens/consumer-request.ts'
import type { Platform } from '../context.ts'
import { callerOf } from '../http/callers.ts'
import type { Route } from '../http/route.ts'
import { PlatformHost } from './face-host.ts'
import { PlatformPushes } from './platform-pushes.ts'
import { PlatformResponses } from './platform-responses.ts'
import { PlatformTasks } from './platform-tasks.ts'

const MIB = 1_048_576

/** The protocols that the self-hosted server speaks as well and that have errors in a shape of their own. */
export function protocolRoutes(platform: Platform, version: string): readonly Route[] {
  const { config, log } = platform
  const host = new PlatformHost(platform)
  const openAiHost = new OpenAiHost(platform)
  const store = new PlatformResponses(platform, openAiHost)
  const openAi = openAiFaces(openAiHost, { sideRequests: 'agency', store, isStrict: false })
  const requireOrigin = (request: FastifyRequest): void => requireConfigured(request, config.corsOrigins)
  const mcp = mcpRoutes({ host, tools: [], version, serverUrl: config.publicBaseUrl, requireOrigin, log })
  const a2a = a2aRoutes({
    host,
    tasks: new RunTasks(host, new PlatformTasks(platform)),
    pushes: new PlatformPushes(platform),
    version,
    serverUrl: config.publicBaseUrl,
    needsToken: true,
    openCards: false,
    requireOrigin,
  })
  return [...openAi, ...mcp, ...a2a].map((row) => ({
    ...row,
    ...limitsOf(row),
    ...(JSON_RPC.test(row.url) && { anyBody: true as const }),
    scope: 'runs' as const,
    consumer: 'chat' as const,
  }))
}

/**
 * There what is not an object is JSON, too: batches and the like, which the protocols refuse in their own words. And the body alone
 * says whether a run starts, so that is where room is asked for: a process without any still shows and cancels what it works on.
 */
const JSON_RPC = /^\/(?:mcp|a2a\/:agency)$/

/** OpenAI's APIs, whose requests may also say what only an owner's back end may. */
class OpenAiHost extends PlatformHost {
  /** @throws ServiceError `insufficient_scope`, and what `begin` of every protocol throws. */
  override begin(request: FastifyRequest, asked: AskedRun): Promise<FaceRun> {
    const { userContext, additionalInstructions } = asked.input
    const words = { user: asked.onBehalfOf, user_context: userContext, instructions: additionalInstructions }
    requireOfConsumer(words, callerOf(request, true))
    return super.begin(request, asked)
  }
}

/** Of rows that start runs; those of runs that have begun are served by a process that takes no new ones, too. */
function limitsOf({ method, url, maxBodyBytes = 32 * MIB }: Pick<Route, 'method' | 'url' | 'maxBodyBytes'>) {
  if (method !== 'POST' || /\/(?:tasks|responses)\/:/.test(url)) return {}
  return { maxBodyBytes, ...(!JSON_RPC.test(url) && { admits: true as const }) }
}

/** A consumer's page was checked with its token. @throws ServiceError `origin_not_allowed` */
function requireConfigured({ headers }: FastifyRequest, origins: readonly string[]): void {
  const { origin, authorization = '' } = headers
  if (origin === undefined || origins.includes(origin) || /^Bearer bct_/i.test(authorization)) return
  throw new ServiceError('origin_not_allowed')
}
