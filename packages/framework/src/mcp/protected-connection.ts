import type { ListedTool, RequireApproval, ToolFilter, ToolServer } from '../agency/tool-server.ts'
import { MCPServerStreamableHttp } from './mcp-servers.ts'
import { OAuthSession } from './oauth-session.ts'
import { OneAtATime } from './one-at-a-time.ts'
import { AUTHENTICATE_TOOL } from '../agency/protected-servers.ts'
import { SharedListing } from './shared-listing.ts'
import type { AttemptOptions, SignInAttempt } from './sign-in-attempt.ts'

const TOOL_TIMEOUT_MS = 120_000

/**
 * One user's connection to a protected server. No tool list is cached, because users may see different tools at different
 * times.
 */
export class ProtectedConnection implements ToolServer {
  readonly name: string
  readonly toolFilter?: ToolFilter
  readonly requireApproval?: RequireApproval
  readonly trusted: boolean
  readonly session: OAuthSession
  readonly #server: MCPServerStreamableHttp
  readonly #checks = new OneAtATime()
  readonly #listing = new SharedListing(() => this.#server.listTools())
  #connected = false
  #tools: readonly ListedTool[] = []

  constructor(options: AttemptOptions) {
    const { name, url, options: declared } = options.settings
    this.name = name
    if (declared.toolFilter) this.toolFilter = declared.toolFilter
    if (declared.requireApproval) this.requireApproval = declared.requireApproval
    this.trusted = declared.trusted ?? false
    this.session = new OAuthSession(options)
    this.#server = new MCPServerStreamableHttp({
      url,
      name,
      authProvider: this.session,
      fetch: options.fetch,
      timeout: declared.toolTimeoutMs ?? TOOL_TIMEOUT_MS,
    })
  }

  /**
   * Makes sure that the server lets the user in: lists its tools, over a new connection if need be.
   *
   * @returns The sign-in that the user has to carry out; undefined when none is needed.
   * @throws whatever keeps the server from answering.
   */
  check(): Promise<SignInAttempt | undefined> {
    return this.#checks.run(async () => {
      const waiting = this.session.takeAttempt()
      if (waiting?.wider) return waiting
      try {
        await this.#listOrReconnect()
        return undefined
      } catch (error) {
        const attempt = this.session.takeAttempt()
        if (attempt) return attempt
        throw error
      }
    })
  }

  /**
   * Like `check`, as far as the stored tokens go: nobody is asked.
   *
   * @throws whatever keeps the server from answering; `session.needsUser` when it is the sign-in.
   */
  resume(): Promise<void> {
    return this.#checks.run(() => {
      this.session.forgetRefusal()
      return this.#listOrReconnect()
    })
  }

  async connect(): Promise<void> {
    await this.#server.connect()
    this.#connected = true
  }

  async close(): Promise<void> {
    this.#connected = false
    await this.#server.close()
  }

  /** The tools as they are now; those of the last time when the server does not answer, so that a run can go on. */
  async listTools(): Promise<readonly ListedTool[]> {
    try {
      this.#tools = await this.#listing.next()
    } catch {
      // A call of one of these tools tells the model what is wrong.
    }
    return this.#tools
  }

  async callTool(...call: Parameters<ToolServer['callTool']>): Promise<readonly unknown[]> {
    try {
      return await this.#server.callTool(...call)
    } catch (error) {
      const { InsufficientScopeError } = await import('@modelcontextprotocol/client')
      if (error instanceof InsufficientScopeError) await this.session.widen(error.requiredScope)
      throw error
    }
  }

  /** The error text for the model when a call fails: never the text of a foreign error, except the server's own about the call. */
  readonly errorFunction = async ({ error }: { error: unknown }): Promise<string> => {
    if (this.session.needsUser) {
      return `Error: "${this.name}" refused the call: the user must sign in again. Call ${AUTHENTICATE_TOOL}, then retry.`
    }
    const { InsufficientScopeError, ProtocolError } = await import('@modelcontextprotocol/client')
    if (error instanceof InsufficientScopeError)
      return `Error: the user's sign-in to "${this.name}" does not permit this.`
    if (error instanceof ProtocolError) return `Error: "${this.name}" refused the call: ${error.message}`
    return `Error: the call to "${this.name}" failed.`
  }

  async #listOrReconnect(): Promise<void> {
    if (this.#connected) {
      try {
        this.#tools = await this.#listing.next()
        return
      } catch {
        if (this.session.needsUser) throw new Error('the user must sign in')
      }
    }
    await this.connect()
    this.#tools = await this.#listing.next()
  }
}
