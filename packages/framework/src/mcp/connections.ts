import { z } from 'zod'
import type { ToolServer } from '../agency/tool-server.ts'
import { Milliseconds, type OptionChecks, readOptions } from '../options.ts'
import { ToolServerError } from './tool-server-error.ts'
import { ProtectedConnections } from './protected-connections.ts'

type McpConnectionsOptions = {
  /** Milliseconds after which a protected connection that no run uses is closed. Default 300_000. */
  readonly idleMs?: number
}

const McpConnectionsChecks = z.strictObject({
  idleMs: Milliseconds.optional(),
} satisfies OptionChecks<McpConnectionsOptions>)

/** The connections of a process to tool servers: open ones are shared by all runs, protected ones belong to a user. */
export class McpConnections {
  readonly protected: ProtectedConnections
  readonly #connected = new Map<ToolServer, Promise<void>>()

  /** @throws ConfigError an option is not known. */
  constructor(options: McpConnectionsOptions = {}) {
    readOptions('McpConnections', McpConnectionsChecks, options)
    this.protected = new ProtectedConnections(options.idleMs)
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
