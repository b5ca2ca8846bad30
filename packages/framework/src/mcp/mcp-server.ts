import type { Client, jsonSchemaValidator, Transport } from '@modelcontextprotocol/client'
import { z } from 'zod'
import {
  type ListedTool,
  type RequireApproval,
  RequireApprovalChecks,
  type ToolFilter,
  ToolFilterChecks,
  type ToolServer,
  type ToolServerErrorFunction,
  type ToolServerResult,
} from '../agency/tool-server.ts'

import { requireMcpClient } from '../optional-packages.ts'
import { AnyFunction, Milliseconds, type OptionChecks } from '../options.ts'

const CONNECT_TIMEOUT_MS = 20_000
const CALL_TIMEOUT_MS = 60_000

/**
 * A server's own schema of its answers is not carried out: its patterns and references can take for ever, and would hold up every
 * run of the process.
 */
const UNCHECKED: jsonSchemaValidator = {
  getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
}

export type ServerOptions = {
  /**
   * Shown in metadata and events, and part of tool names where the agent says so. Default: its host or program, because the rest of
   * an address or command line may hold keys.
   */
  readonly name?: string
  /** True: the tools are listed once for all runs. Default false: each turn of a run lists them. */
  readonly cacheToolsList?: boolean
  /** Which of the server's tools an agent gets. Default: all. */
  readonly toolFilter?: ToolFilter
  /** About which tools, by the server's own names, a person must decide before each call. Default `never`. */
  readonly requireApproval?: RequireApproval
  /**
   * True: a call of a tool that the server marks with `readOnlyHint` or `idempotentHint` is made again when a process has died during
   * it, as with `repeatable: true`. Default false: hints are anybody's claim.
   */
  readonly trusted?: boolean
  /** What the model gets when a call fails. Null: the run fails. */
  readonly errorFunction?: ToolServerErrorFunction | null
  /** True: the model gets the structured content of answers that have one. Default false. */
  readonly useStructuredContent?: boolean
  /** Longest time that one call may take, in milliseconds. Default 60_000. */
  readonly timeout?: number
}

/** Checks for the options of every server. */
export const SERVER_CHECKS = {
  name: z.string().optional(),
  cacheToolsList: z.boolean().optional(),
  toolFilter: ToolFilterChecks.optional(),
  requireApproval: RequireApprovalChecks.optional(),
  trusted: z.boolean().optional(),
  errorFunction: AnyFunction.nullable().optional(),
  useStructuredContent: z.boolean().optional(),
  timeout: Milliseconds.optional(),
} satisfies OptionChecks<ServerOptions>

type Connection = { readonly client: Client; readonly unanswered: Set<Promise<unknown>> }

/** A connection to an MCP server. It can be reopened after it was closed, or replaced while calls over the old one finish. */
export abstract class McpServer implements ToolServer {
  readonly name: string
  readonly toolFilter: ToolFilter | undefined
  readonly requireApproval: RequireApproval | undefined
  readonly trusted: boolean
  readonly errorFunction: ToolServerErrorFunction | null | undefined
  readonly useStructuredContent: boolean
  readonly #timeout: number
  readonly #cacheToolsList: boolean
  #connection: Connection | undefined
  #listed: readonly ListedTool[] | undefined

  /** @throws ConfigError the client of MCP is not installed. */
  constructor(defaultName: string, options: ServerOptions) {
    requireMcpClient()
    this.name = options.name ?? defaultName
    this.toolFilter = options.toolFilter
    this.requireApproval = options.requireApproval
    this.trusted = options.trusted ?? false
    this.errorFunction = options.errorFunction
    this.useStructuredContent = options.useStructuredContent ?? false
    this.#timeout = options.timeout ?? CALL_TIMEOUT_MS
    this.#cacheToolsList = options.cacheToolsList ?? false
  }

  protected abstract openTransport(): Promise<Transport>

  /** @throws what the transport throws when the server cannot be reached. */
  async connect(): Promise<void> {
    const mcp = await import('@modelcontextprotocol/client')
    const client = new mcp.Client({ name: 'bureau', version: '0.1.0' }, { jsonSchemaValidator: UNCHECKED })
    try {
      await client.connect(await this.openTransport(), { timeout: CONNECT_TIMEOUT_MS })
    } catch (error) {
      await client.close().catch(() => {})
      throw error
    }
    const replaced = this.#connection
    this.#connection = { client, unanswered: new Set() }
    this.#listed = undefined
    if (replaced) void closeWhenIdle(replaced)
  }

  async close(): Promise<void> {
    const connection = this.#connection
    this.#connection = undefined
    this.#listed = undefined
    await connection?.client.close()
  }

  async listTools(): Promise<readonly ListedTool[]> {
    if (this.#listed) return this.#listed
    // All pages; the client refuses a list that does not end.
    const { tools } = await this.#ask((client) => client.listTools({}, { timeout: this.#timeout }))
    if (this.#cacheToolsList) this.#listed = tools
    return tools
  }

  async callTool(...call: Parameters<ToolServer['callTool']>): Promise<readonly unknown[]> {
    return (await this.callToolResult(...call)).content
  }

  async callToolResult(...[name, input, meta, options]: Parameters<ToolServer['callTool']>): Promise<ToolServerResult> {
    const request = { name, arguments: input ?? {}, ...(meta && { _meta: meta }) }
    return this.#ask((client) => client.callTool(request, { timeout: this.#timeout, ...options }))
  }

  #ask<Answer>(request: (client: Client) => Promise<Answer>): Promise<Answer> {
    const { client, unanswered } = this.#connected
    const answer: Promise<Answer> = request(client)
      .catch((error: unknown) => {
        // The server may be gone: whoever lists its tools next finds out, and connects again.
        this.#listed = undefined
        throw error
      })
      .finally(() => unanswered.delete(answer))
    unanswered.add(answer)
    return answer
  }

  get #connected(): Connection {
    if (!this.#connection) throw new Error(`the tool server "${this.name}" is not connected`)
    return this.#connection
  }
}

/** Other runs may wait for answers over a connection that is replaced. */
async function closeWhenIdle({ client, unanswered }: Connection): Promise<void> {
  await Promise.allSettled(unanswered)
  await client.close().catch(() => {})
}
