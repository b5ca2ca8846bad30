import type { ListedTool, ToolServer } from '../agency/tool-server.ts'
import { McpServer } from './mcp-server.ts'
import { ToolServerError } from './tool-server-error.ts'

/**
 * Lets concurrent runs ask one server for its tools. Servers of `@openai/agents` call a listing stale when another one begins
 * meanwhile, so one runs at a time; whoever comes during it shares the next one, and so never gets an outdated answer.
 */
export class SharedListing<Result> {
  readonly #list: () => Promise<Result>
  #running: Promise<unknown> = Promise.resolve()
  #next: Promise<Result> | undefined

  constructor(list: () => Promise<Result>) {
    this.#list = list
  }

  next(): Promise<Result> {
    this.#next ??= this.#running.then(() => {
      const running = this.#list()
      this.#next = undefined
      this.#running = running.catch(() => {})
      return running
    })
    return this.#next
  }
}

const shared = new WeakMap<ToolServer, ToolServer>()

/** The same server, except that its listings are shared and that a lost connection is opened again for them. */
export function withSharedListing(server: ToolServer): ToolServer {
  const known = shared.get(server)
  if (known) return known
  const listing = new SharedListing(() => listOrReconnect(server))
  const made = new Proxy(server, {
    get: (target, name) => {
      if (name === 'listTools') return () => listing.next()
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  shared.set(server, made)
  return made
}

/** @throws ToolServerError the server does not answer over a new connection either. */
async function listOrReconnect(server: ToolServer): Promise<readonly ListedTool[]> {
  try {
    return await server.listTools()
  } catch {
    // A server that was restarted does not know the connection any more. Ours replace it without breaking off others' calls.
    if (!(server instanceof McpServer)) await server.close().catch(() => {})
  }
  try {
    await server.connect()
    return await server.listTools()
  } catch (cause) {
    throw new ToolServerError(server.name, cause)
  }
}
