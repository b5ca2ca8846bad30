import { z } from 'zod'
import type { ListedTool, ToolServer } from '../agency/tool-server.ts'
import { AnyFunction, Milliseconds, type OptionChecks, readOptions } from '../options.ts'
import { ToolServerError } from './tool-server-error.ts'
import { ProtectedConnections } from './protected-connections.ts'

type McpConnectionsOptions = {
  /** Milliseconds after which a protected connection that no run uses is closed. Default 300_000. */
  readonly idleMs?: number
  /** Called with a mistake in the options of a server that only its list of tools shows. Default: `process.emitWarning`. */
  readonly onWarning?: (message: string) => void
}

const McpConnectionsChecks = z.strictObject({
  idleMs: Milliseconds.optional(),
  onWarning: AnyFunction.optional(),
} satisfies OptionChecks<McpConnectionsOptions>)

/** The connections of a process to tool servers: open ones are shared by all runs, protected ones belong to a user. */
export class McpConnections {
  readonly protected: ProtectedConnections
  readonly #onWarning: (message: string) => void
  readonly #warned = new Set<string>()
  readonly #connected = new Map<ToolServer, Promise<void>>()

  /** @throws ConfigError an option is not known. */
  constructor(options: McpConnectionsOptions = {}) {
    readOptions('McpConnections', McpConnectionsChecks, options)
    this.protected = new ProtectedConnections(options.idleMs)
    this.#onWarning = options.onWarning ?? ((message) => process.emitWarning(message))
  }

  /**
   * Connects open servers on first use and keeps the connections for later runs.
   *
   * @throws ToolServerError a server could not be reached; the next call tries again.
   */
  async connect(servers: readonly ToolServer[], signal: AbortSignal): Promise<void> {
    if (servers.length === 0) return
    signal.throwIfAborted()
    await Promise.all(servers.map((server) => this.#connectOnce(server)))
  }

  /** Warns, once for a server, of tools that are to be protected and that it does not have: a misspelt name protects nothing. */
  checkNames({ name, requireApproval, toolFilter }: ToolServer, listed: readonly ListedTool[]): void {
    const blocked = typeof toolFilter === 'object' ? toolFilter.blockedToolNames : undefined
    const approved = typeof requireApproval === 'object' ? requireApproval : undefined
    for (const [option, protectedNames] of [
      ['requireApproval', approved],
      ['toolFilter.blockedToolNames', blocked],
    ] as const) {
      const unknown = protectedNames?.filter((each) => !listed.some((tool) => tool.name === each)) ?? []
      const key = JSON.stringify([name, option, protectedNames])
      if (unknown.length === 0 || this.#warned.has(key)) continue
      this.#warned.add(key)
      const tools = listOf(listed.map((tool) => tool.name)) || 'none'
      this.#onWarning(
        `tool server "${name}": ${option} names ${listOf(unknown)}, which protects nothing: the tools there are ${tools}`,
      )
    }
  }

  /** Closes every connection; a server that fails to close is left to the end of the process. */
  async close(): Promise<void> {
    const servers = [...this.#connected.keys()]
    this.#connected.clear()
    await Promise.allSettled([this.protected.close(), ...servers.map((server) => server.close())])
  }

  #connectOnce(server: ToolServer): Promise<void> {
    const known = this.#connected.get(server)
    if (known) return known
    const connecting = server.connect().catch((error: unknown) => {
      this.#connected.delete(server)
      throw new ToolServerError(server.name, error)
    })
    this.#connected.set(server, connecting)
    return connecting
  }
}

const MAX_SHOWN_NAMES = 50

/** A server may list any number of names, of any length. */
function listOf(names: readonly string[]): string {
  const shown = names.slice(0, MAX_SHOWN_NAMES).map((name) => JSON.stringify(name.slice(0, 100)))
  return shown.join(', ') + (names.length > MAX_SHOWN_NAMES ? ', …' : '')
}
