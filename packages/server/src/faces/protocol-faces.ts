import { a2aRoutes, mcpRoutes, MemoryResponseStore, MemoryTasks, openAiFaces, Threads } from '@bureau/faces'
import type { FunctionTool } from '@bureau/framework'
import { ConfigError } from '@bureau/protocol'
import type { GuardedDispatcher, Logger } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import { type Callers, requireOrigin } from '../http/callers.ts'
import { issuerOf } from '../http/jwt-authenticate.ts'
import type { ServerRoute } from '../http/route.ts'
import { mcpTools } from '../tools/tools.routes.ts'
import type { ServerConfig } from '../config.ts'
import { resumeMsOf, type ServerOptions } from '../options.ts'
import type { ServedAgency } from './face.ts'
import { ServerHost } from './face-host.ts'

type ProtocolParts = {
  readonly served: readonly ServedAgency[]
  readonly tools: readonly FunctionTool[]
  readonly callers: Callers
  readonly options: ServerOptions
  /** The way to addresses that callers name. */
  readonly dispatcher: GuardedDispatcher
  readonly version: string
  readonly log: Logger
}

/** OpenAI's API: one address for all agencies. */
export function openAiRoutes(
  served: readonly ServedAgency[],
  options: ServerOptions,
  config: Pick<ServerConfig, 'keepResponsesMs'>,
): readonly ServerRoute[] {
  const { openai = true } = options
  if (openai === false || served.length === 0) return []
  const { sideRequests = 'agency', strictResponses = false, ...given } = openai === true ? {} : openai
  const { keepResponsesMs = config.keepResponsesMs } = given
  if (keepResponsesMs > 0 && resumeMsOf(options) === 0) {
    throw new ConfigError(
      'openai.keepResponsesMs or BUREAU_KEEP_RESPONSES_SECONDS: runs in the background need resumeMs above 0.',
    )
  }
  const host = new ServerHost(served)
  const store = keepResponsesMs > 0 ? new MemoryResponseStore(host, keepResponsesMs) : undefined
  return openAiFaces(host, { sideRequests, store, isStrict: strictResponses })
}

/** Protocols that have agencies and tools in the words of others: MCP and A2A. */
export function protocolRoutes({
  served,
  tools,
  callers,
  options,
  dispatcher,
  version,
  log,
}: ProtocolParts): ServerRoute[] {
  const { mcp = true, a2a = true, serverUrl, publicDocs = false } = options
  const host = new ServerHost(served)
  const threads = new Threads()
  const requirePage = (request: FastifyRequest): void => requireOrigin(request, callers.origins)
  const shared = { host, version, serverUrl, requireOrigin: requirePage }
  const issuer = options.authenticate && issuerOf(options.authenticate)
  const needsToken = callers.areKnown
  const tasks = new MemoryTasks({ host, threads, dispatcher, log })
  const keepsRuns = served.some(({ context }) => context.keepsRuns)
  return [
    ...(mcp
      ? mcpRoutes({
          ...shared,
          threads,
          log,
          tools: mcpTools(tools),
          authorizationServers: issuer ? [issuer] : [],
        })
      : []),
    ...(a2a && keepsRuns ? a2aRoutes({ ...shared, tasks, pushes: tasks, needsToken, openCards: publicDocs }) : []),
  ]
}
