import {
  type Agent as SdkAgent,
  type AgentOutputType,
  getAllMcpTools,
  type MCPServer,
  type RunContext,
  type Tool as SdkTool,
} from '#agents-core'
import { ConfigError } from '@bureau/protocol'
import type { AgencyContext } from '../run-scope.ts'
import { AUTHENTICATE_TOOL } from './protected-servers.ts'
import { withSharedListing } from './shared-listing.ts'

const origins = new WeakMap<object, string>()

/** The name of the tool server that a tool comes from; undefined for all other tools. */
export function toolServerOf(tool: object): string | undefined {
  return origins.get(tool)
}

export type ServerToolsOptions = {
  readonly agent: SdkAgent<AgencyContext, AgentOutputType>
  readonly runContext: RunContext<AgencyContext>
  /** Connected servers, in order. */
  readonly servers: readonly MCPServer[]
}

/**
 * The tools of an agent's connected servers, made anew from what the servers list now.
 *
 * @throws ConfigError two servers have a tool of one name, or one has a tool named like a tool of the agent.
 */
export async function serverTools(options: ServerToolsOptions): Promise<SdkTool<AgencyContext>[]> {
  const { agent } = options
  const tools: SdkTool<AgencyContext>[] = []
  const taken = new Set([...agent.tools.map((tool) => tool.name), AUTHENTICATE_TOOL])
  for (const server of options.servers) {
    for (const tool of await toolsOf(server, taken, options)) {
      if (taken.has(tool.name)) {
        const clash = `The tool server "${server.name}" has a tool "${tool.name}", but the agent "${agent.name}" has one already.`
        throw new ConfigError(`${clash} Set mcpConfig: { includeServerInToolNames: true }.`)
      }
      taken.add(tool.name)
      origins.set(tool, server.name)
      tools.push(tool)
    }
  }
  return tools
}

/** In the way of the SDK's agents, one server at a time: so that it is known which tool is whose. */
function toolsOf(
  server: MCPServer,
  taken: Set<string>,
  options: ServerToolsOptions,
): Promise<SdkTool<AgencyContext>[]> {
  const { mcpConfig } = options.agent
  return getAllMcpTools({
    mcpServers: [withSharedListing(server)],
    runContext: options.runContext,
    agent: options.agent,
    convertSchemasToStrict: mcpConfig.convertSchemasToStrict === true,
    includeServerInToolNames: mcpConfig.includeServerInToolNames === true,
    reservedToolNames: taken,
    ...(mcpConfig.errorFunction !== undefined && { errorFunction: mcpConfig.errorFunction }),
  })
}
