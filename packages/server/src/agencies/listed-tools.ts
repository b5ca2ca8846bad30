import { setTimeout as sleep } from 'node:timers/promises'
import {
  type Agency,
  type AgencyContext,
  type Agent,
  type AgentTool,
  createRunContext,
  type McpConnections,
  serverTools,
  SharedState,
} from '@bureau/framework'
import { NO_USAGE } from '@bureau/protocol'
import type { Logger } from '@bureau/runtime'

/** Longest time that tool servers may take, in milliseconds: whoever asks shows something to a person. */
const PATIENCE_MS = 5_000

export type ToolServers = { readonly mcp: McpConnections; readonly log: Logger }

/**
 * The tools of each agent: its own, then those of its open tool servers, as a run gets them whose request brings nothing.
 * Servers are connected like by a run; what one of them does not list in time is left out, and the log says so. Servers with a
 * sign-in are left out, because every user may see other tools.
 */
export async function listedTools(agency: Agency, servers: ToolServers): Promise<Map<Agent, AgentTool[]>> {
  const agents = [...agency.agents.values()]
  const lists = await Promise.all(agents.map((agent) => toolsOf(agency, agent, servers)))
  return new Map(agents.map((agent, index) => [agent, lists[index]!]))
}

async function toolsOf(agency: Agency, agent: Agent, { mcp, log }: ToolServers): Promise<AgentTool[]> {
  const { signal } = new AbortController()
  const userContext = { ...agency.userContext }
  const sharedState = new SharedState()
  const context: AgencyContext = { runId: '', agent: agent.name, userContext, sharedState, signal, emit: () => {} }
  const runContext = createRunContext(context, () => NO_USAGE)
  const listed = agent.mcpServers.map(async (server) => {
    const list = async (): Promise<AgentTool[]> => {
      await mcp.connect([server], signal)
      return serverTools({ agent, runContext, mcp, servers: [server] })
    }
    try {
      return await Promise.race([list(), late()])
    } catch (error) {
      log.warn({ err: error, agent: agent.name, server: server.name }, 'the metadata is without the tools of a server')
      return []
    }
  })
  return [...agent.tools, ...(await Promise.all(listed)).flat()]
}

async function late(): Promise<never> {
  await sleep(PATIENCE_MS, undefined, { ref: false })
  throw new Error(`the tool server did not answer within ${PATIENCE_MS} ms`)
}
