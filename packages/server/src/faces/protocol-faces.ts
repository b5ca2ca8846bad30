import { mcpRoutes, Threads } from '@bureau/faces'
import type { FunctionTool } from '@bureau/framework'
import type { Logger } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import { type Callers, requireOrigin } from '../http/callers.ts'
import type { ServerRoute } from '../http/route.ts'
import { mcpTools } from '../tools/tools.routes.ts'
import type { ServedAgency } from './face.ts'
import { ServerHost } from './face-host.ts'

type ProtocolParts = {
  readonly served: readonly ServedAgency[]
  readonly tools: readonly FunctionTool[]
  readonly callers: Callers
  readonly version: string
  readonly log: Logger
}

/** The protocols that the platform speaks too. Each describes itself, so the API description leaves them out. */
export function protocolRoutes({ served, tools, callers, version, log }: ProtocolParts): ServerRoute[] {
  const host = new ServerHost(served)
  const threads = new Threads()
  const requirePage = (request: FastifyRequest): void => requireOrigin(request, callers.origins)
  return [...mcpRoutes({ host, threads, tools: mcpTools(tools, log), version, requireOrigin: requirePage, log })]
}
