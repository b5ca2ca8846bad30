import { ConfigError } from '@bureau/protocol'
import type { Agent } from '../agency/agent.ts'
import { causesOf } from '../causes.ts'
import type { Run } from '../run/run.ts'
import type { RunContext } from '../agency/run-context.ts'
import { type OAuthAccess, storeOf } from '../mcp/oauth-access.ts'
import { type MCPServerOAuth, settingsOf } from '../agency/oauth-server.ts'
import { ProtectedConnection } from '../mcp/protected-connection.ts'
import type { ProtectedServer } from '../agency/protected-servers.ts'
import { serverTools } from '../mcp/server-tools.ts'
import { SignInFailed } from '../mcp/sign-in.ts'
import type { AttemptOptions } from '../mcp/sign-in-attempt.ts'

/** An agent in a run, as the tool that it calls sees it. */
export type Caller = {
  readonly run: Run
  readonly agent: Agent
  readonly runContext: RunContext
}

/** How the user of a run reaches a protected server. */
export type Reach = {
  readonly server: MCPServerOAuth
  /** True: the model's provider connects to it. */
  readonly isHosted: boolean
  readonly userId: string
  readonly attempts: AttemptOptions
  readonly access: OAuthAccess
}

/** Undefined: the run has no user, or nobody can be asked. */
export function reachOf({ run }: Caller, { server, hostedTool }: ProtectedServer): Reach | undefined {
  const access = run.environment.oauth
  const { userId } = run.input
  if (!access || userId === undefined) return undefined
  const settings = settingsOf(server, access.read)
  const store = storeOf(server, settings, access, run.agency)
  const key = { userId, server: settings.storageName }
  const attempts = { settings, store, key, fetch: access.fetch?.(settings) ?? fetch, now: run.environment.now }
  return { server, isHosted: hostedTool !== undefined, userId, attempts, access }
}

/** The user's connection, for the rest of the run. */
export function connectionFor({ run }: Caller, { server, userId, attempts }: Reach): ProtectedConnection {
  return run.toolServers.lease({ userId, server, store: attempts.store }, () => new ProtectedConnection(attempts))
}

/**
 * The tools of an open connection join the agent's.
 *
 * @throws SignInFailed `tool_names_taken`
 */
export async function activateConnection(caller: Caller, connection: ProtectedConnection): Promise<void> {
  const { run, agent, runContext } = caller
  const { mcp } = run.environment
  const others = run.toolServers.connectionsOf(agent.name).filter((other) => other !== connection)
  try {
    await serverTools({ agent, runContext, mcp, servers: [...agent.mcpServers, ...others, connection] })
  } catch (cause) {
    if (cause instanceof ConfigError) throw new SignInFailed('tool_names_taken', { cause })
    throw cause
  }
  run.toolServers.activate(agent.name, connection.name, { connection })
}

/** Logs what kept a server from being used, and returns what the model and callers may know of it. */
export function reportFailure(error: unknown, { run }: Caller, { server, access }: Reach): SignInFailed {
  const failure = signInFailureIn(error) ?? new SignInFailed('server_unavailable', { cause: error })
  access.onFailure(failure, { server: server.name, runId: run.runId })
  return failure
}

/** The MCP client may put a failure of ours into errors of its own. */
function signInFailureIn(error: unknown): SignInFailed | undefined {
  for (const cause of causesOf(error)) if (cause instanceof SignInFailed) return cause
  return undefined
}
