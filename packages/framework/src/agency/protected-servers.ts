import { ConfigError } from '@bureau/protocol'
import { hostedLabelOf, protectedServerOf } from './hosted-tool-oauth.ts'
import type { MCPServerOAuth } from './oauth-server.ts'
import type { HostedTool } from './function-tool.ts'
import type { AgentTool } from './tool.ts'
import type { ToolServer } from './tool-server.ts'

export const AUTHENTICATE_TOOL = 'authenticate_mcp_server'

/** A server that an agent may use once its user has signed in. */
export type ProtectedServer = {
  readonly server: MCPServerOAuth
  /** The provider-hosted tool that waits for the token; undefined for servers that we connect to ourselves. */
  readonly hostedTool: HostedTool | undefined
}

/** What an agent has that may share a name with a protected server. */
type OwnServers = {
  readonly name: string
  readonly tools: readonly AgentTool[]
  readonly mcpServers: readonly ToolServer[]
}

/**
 * The protected servers of an agent by the name that the model uses: declared ones, then marked hosted tools.
 *
 * @throws ConfigError two servers share a name, or a tool has the name of the authentication tool.
 */
export function protectedServersOf(
  agent: OwnServers,
  declared: readonly MCPServerOAuth[],
): ReadonlyMap<string, ProtectedServer> {
  if (agent.tools.some((tool) => tool.name === AUTHENTICATE_TOOL)) {
    throw new ConfigError(`Agent "${agent.name}": the tool name ${AUTHENTICATE_TOOL} is reserved.`)
  }
  const hosted = agent.tools.flatMap((tool) => {
    const server = protectedServerOf(tool)
    return server && tool.type === 'hosted_tool' ? [{ server, hostedTool: tool }] : []
  })
  const all = [...declared.map((server) => ({ server, hostedTool: undefined })), ...hosted]
  const servers = new Map(all.map((entry) => [entry.server.name, entry]))
  if (servers.size > 0) requireUniqueNames(agent, declared)
  return servers
}

function requireUniqueNames(agent: OwnServers, declared: readonly MCPServerOAuth[]): void {
  const labels = agent.tools.flatMap((tool) => hostedLabelOf(tool) ?? [])
  const names = [...declared, ...agent.mcpServers].map((server) => server.name)
  const seen = new Set<string>()
  for (const name of [...names, ...labels]) {
    if (seen.has(name)) throw new ConfigError(`Agent "${agent.name}": two tool servers are named "${name}".`)
    seen.add(name)
  }
}

/** Every protected server that agents of an agency declare, provider-hosted ones included. */
export function oauthServersOf(agency: {
  readonly agents: ReadonlyMap<string, { readonly protectedServers: ReadonlyMap<string, ProtectedServer> }>
}): MCPServerOAuth[] {
  const servers = [...agency.agents.values()].flatMap((agent) => [...agent.protectedServers.values()])
  return servers.map(({ server }) => server)
}
