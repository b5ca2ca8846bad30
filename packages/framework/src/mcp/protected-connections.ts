import type { MCPServerOAuth } from '../agency/oauth-server.ts'
import type { ProtectedConnection } from './protected-connection.ts'
import type { TokenStore } from '../tokens/token-store.ts'

/** A connection that nobody has used for this long is closed. */
const IDLE_MS = 300_000

type Pooled = { readonly connection: ProtectedConnection; users: number; idle?: NodeJS.Timeout }

/** Whose connection. Two declarations of one server may differ in their tools, two stores in their tokens. */
export type ConnectionKey = { readonly userId: string; readonly server: MCPServerOAuth; readonly store: TokenStore }

/** A connection on loan. */
export type Lease = { readonly connection: ProtectedConnection; readonly release: () => void }

/** Connections to protected servers, one per user and server, shared by that user's runs and by nobody else. */
export class ProtectedConnections {
  readonly #pool = new Map<string, Pooled>()
  readonly #numbers = new WeakMap<object, number>()
  readonly #idleMs: number
  #lastNumber = 0

  constructor(idleMs = IDLE_MS) {
    this.#idleMs = idleMs
  }

  lease({ userId, server, store }: ConnectionKey, open: () => ProtectedConnection): Lease {
    const key = `${this.#numberOf(server)} ${this.#numberOf(store)} ${userId}`
    const pooled = this.#pool.get(key) ?? { connection: open(), users: 0 }
    this.#pool.set(key, pooled)
    pooled.users++
    clearTimeout(pooled.idle)
    let released = false
    const release = (): void => {
      if (released) return
      released = true
      if (--pooled.users === 0) pooled.idle = setTimeout(() => void this.#drop(key, pooled), this.#idleMs).unref()
    }
    return { connection: pooled.connection, release }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pool].map(([key, pooled]) => this.#drop(key, pooled)))
  }

  #numberOf(object: object): number {
    const number = this.#numbers.get(object) ?? ++this.#lastNumber
    this.#numbers.set(object, number)
    return number
  }

  /** A connection that fails to close is left to the end of the process. */
  async #drop(key: string, pooled: Pooled): Promise<void> {
    clearTimeout(pooled.idle)
    if (this.#pool.get(key) === pooled) this.#pool.delete(key)
    await pooled.connection.close().catch(() => {})
  }
}
