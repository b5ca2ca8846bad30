import { setTimeout as sleep } from 'node:timers/promises'
import type { AgentTool } from '../agency/tool.ts'
import type { ToolServer } from '../agency/tool-server.ts'
import { protectedServerOf, withAuthorization } from '../agency/hosted-tool-oauth.ts'
import type { OAuthSession } from './oauth-session.ts'
import { OneAtATime } from './one-at-a-time.ts'
import type { ProtectedConnection } from './protected-connection.ts'
import type { ConnectionKey, Lease, ProtectedConnections } from './protected-connections.ts'

/** A hosted tool must not be sent with a token that ends during the request. */
const MIN_TOKEN_LIFE_MS = 60_000
/** Longest time that the end of a run waits for its sign-ins, in milliseconds. */
const SIGN_IN_END_MS = 1_000

type Activated = { readonly connection: ProtectedConnection } | { readonly hosted: OAuthSession }

/**
 * Which protected servers the agents of one run may use: those that the user is signed in to already, and those that
 * `authenticate_mcp_server` was called for.
 */
export class RunToolServers {
  /** Sign-ins of one run follow each other: a user can look at one page at a time. */
  readonly signIns = new OneAtATime()
  /** True: nobody signed in while the run waited for it. It waits for nobody again. */
  isUnattended = false
  readonly #pool: ProtectedConnections
  readonly #leases: Lease[] = []
  readonly #begun = new Map<string, Promise<void>>()
  readonly #activated = new Map<string, Map<string, Activated>>()

  constructor(pool: ProtectedConnections) {
    this.#pool = pool
  }

  /** A connection for the rest of the run. */
  lease(key: ConnectionKey, open: () => ProtectedConnection): ProtectedConnection {
    const lease = this.#pool.lease(key, open)
    this.#leases.push(lease)
    return lease.connection
  }

  /** Does something once for each agent of the run. */
  once(agent: string, work: () => Promise<void>): Promise<void> {
    const begun = this.#begun.get(agent) ?? work()
    this.#begun.set(agent, begun)
    return begun
  }

  activate(agent: string, server: string, activated: Activated): void {
    const servers = this.#activated.get(agent) ?? new Map<string, Activated>()
    this.#activated.set(agent, servers.set(server, activated))
  }

  isActivated(agent: string, server: string): boolean {
    return this.#activated.get(agent)?.has(server) ?? false
  }

  connectionsOf(agent: string): ToolServer[] {
    const activated = [...(this.#activated.get(agent)?.values() ?? [])]
    return activated.flatMap((each) => ('connection' in each ? [each.connection] : []))
  }

  /** Withholds hosted tools that are not activated; the others become copies with the user's token. */
  async authorize(agent: string, tools: readonly AgentTool[]): Promise<readonly AgentTool[]> {
    if (!tools.some(protectedServerOf)) return tools
    const shown = await Promise.all(tools.map((tool) => this.#authorized(agent, tool)))
    return shown.filter((tool) => tool !== undefined)
  }

  /** Lets sign-ins of a run that was stopped say how they have ended. They end by themselves; nobody waits for long. */
  async signInsEnded(): Promise<void> {
    const working = this.signIns.idle()
    if (!working) return
    const done = new AbortController()
    const late = sleep(SIGN_IN_END_MS, undefined, { ref: false, signal: done.signal }).catch(() => {})
    await Promise.race([working, late])
    done.abort()
  }

  /** The run has ended. */
  close(): void {
    for (const lease of this.#leases) lease.release()
    this.#activated.clear()
  }

  async #authorized(agent: string, tool: AgentTool): Promise<AgentTool | undefined> {
    const server = protectedServerOf(tool)
    if (!server) return tool
    const activated = this.#activated.get(agent)?.get(server.name)
    if (!activated || !('hosted' in activated)) return undefined
    const token = await activated.hosted.freshToken(MIN_TOKEN_LIFE_MS).catch(() => undefined)
    return token === undefined ? undefined : withAuthorization(tool, token)
  }
}
