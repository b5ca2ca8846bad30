import { mcpRoutes, openAiFaces, Threads } from '@bureau/faces'
import type { FunctionTool } from '@bureau/framework'
import type { Logger } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import { type Callers, requireOrigin } from '../http/callers.ts'
import type { ServerRoute } from '../http/route.ts'
import { mcpTools } from '../tools/tools.routes.ts'
import type { ServerOptions } from '../options.ts'
import type { ServedAgency } from './face.ts'
import { ServerHost } from './face-host.ts'

type ProtocolParts = {
  readonly served: readonly ServedAgency[]
  readonly tools: readonly FunctionTool[]
  readonly callers: Callers
  readonly options: ServerOptions
  readonly version: string
  readonly log: Logger
}

/** OpenAI's API: one address for all agencies. */
export function openAiRoutes(
  served: readonly ServedAgency[],
  { openai = true }: ServerOptions,
): readonly ServerRoute[] {
  if (openai === false || served.length === 0) return []
  const { sideRequests = 'agency' } = openai === true ? {} : openai
  return openAiFaces(new ServerHost(served), { sideRequests })
}

/** Protocols that describe themselves, so that the API description leaves them out. */
export function protocolRoutes({ served, tools, callers, options, version, log }: ProtocolParts): ServerRoute[] {
  const { mcp = true } = options
  const host = new ServerHost(served)
  const threads = new Threads()
  const requirePage = (request: FastifyRequest): void => requireOrigin(request, callers.origins)
  const shared = { host, threads, version, requireOrigin: requirePage, log }
  return [...(mcp ? mcpRoutes({ ...shared, tools: mcpTools(tools, log) }) : [])]
}
