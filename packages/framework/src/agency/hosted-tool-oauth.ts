import { ConfigError } from '@bureau/protocol'
import { MCPServerOAuth } from './oauth-server.ts'
import type { HostedTool } from './function-tool.ts'
import type { AgentTool } from './tool.ts'

const protectedTools = new WeakMap<object, MCPServerOAuth>()

/**
 * Marks a provider-hosted MCP tool (`hostedMcpTool({...})`) as one that users must sign in to.
 *
 * The tool is withheld from the model until `authenticate_mcp_server` was called with its label; then the run gets a copy
 * with the user's token. Tools that are not marked stay as they are. Credentials of the environment are not used.
 *
 * @throws ConfigError the tool has no `serverLabel` or `serverUrl`, or an `authorization` of its own.
 */
export function enableHostedMcpToolOAuth<Hosted extends HostedTool>(tool: Hosted): Hosted {
  const { type, server_label: label, server_url: url, authorization } = tool.providerData ?? {}
  if (type !== 'mcp') throw new ConfigError('enableHostedMcpToolOAuth: give it a tool made by hostedMcpTool().')
  if (typeof label !== 'string' || typeof url !== 'string' || !label || !url)
    throw new ConfigError('enableHostedMcpToolOAuth: the tool needs a serverLabel and a serverUrl.')
  if (authorization) {
    throw new ConfigError(`enableHostedMcpToolOAuth: leave the authorization of the hosted tool "${label}" empty.`)
  }
  const marked = { ...tool }
  protectedTools.set(marked, new MCPServerOAuth({ name: label, url, useEnvCredentials: false }))
  return marked
}

/** The server behind a marked hosted tool; undefined for every other tool. */
export function protectedServerOf(tool: AgentTool): MCPServerOAuth | undefined {
  return protectedTools.get(tool)
}

/** A copy for one request that carries the user's access token. */
export function withAuthorization(tool: AgentTool, accessToken: string): AgentTool {
  if (tool.type !== 'hosted_tool') return tool
  return { ...tool, providerData: { ...tool.providerData, authorization: accessToken } }
}

/** The label of any provider-hosted MCP tool; undefined for every other tool. */
export function hostedLabelOf(tool: AgentTool): string | undefined {
  if (tool.type !== 'hosted_tool' || tool.providerData?.['type'] !== 'mcp') return undefined
  return String(tool.providerData['server_label'])
}
