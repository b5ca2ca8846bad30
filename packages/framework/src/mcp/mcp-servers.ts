import { basename } from 'node:path'
import type { AuthProvider, FetchLike, Transport } from '@modelcontextprotocol/client'
import { ConfigError } from '@bureau/protocol'
import { z } from 'zod'
import { limitedResponse } from '../limited-response.ts'
import { AnyFunction, type OptionChecks, readOptions } from '../options.ts'
import { McpServer, SERVER_CHECKS, type ServerOptions } from './mcp-server.ts'

export type MCPServerStdioOptions = ServerOptions & {
  /** The program, or a whole command line with its arguments. */
  readonly command?: string
  readonly fullCommand?: string
  readonly args?: readonly string[]
  /** Variables of the program besides the few that every program gets. */
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
}

const StdioChecks = z.strictObject({
  ...SERVER_CHECKS,
  command: z.string().optional(),
  fullCommand: z.string().optional(),
  args: z.array(z.string()).optional(),
  env: z.record(z.string(), z.string()).optional(),
  cwd: z.string().optional(),
} satisfies OptionChecks<MCPServerStdioOptions>)

/** An MCP server that runs as a program of this machine and speaks over its standard input and output. */
export class MCPServerStdio extends McpServer {
  readonly #program: { command: string; args: string[]; env?: Record<string, string>; cwd?: string }

  /** @throws ConfigError an option is not valid, no program is named, or the client of MCP is not installed. */
  constructor(options: MCPServerStdioOptions) {
    readOptions('MCPServerStdio', StdioChecks, options)
    const [first, ...rest] = (options.fullCommand ?? '').split(' ').filter((word) => word !== '')
    const command = options.command ?? first
    if (command === undefined) throw new ConfigError('MCPServerStdio: command is missing.')
    super(`stdio: ${basename(command)}`, options)
    this.#program = {
      command,
      args: [...(options.args ?? rest)],
      ...(options.env && { env: { ...options.env } }),
      ...(options.cwd !== undefined && { cwd: options.cwd }),
    }
  }

  protected override async openTransport(): Promise<Transport> {
    const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio')
    return new StdioClientTransport({ ...this.#program, stderr: 'inherit' })
  }
}

export type MCPServerStreamableHttpOptions = ServerOptions & {
  readonly url: string
  readonly requestInit?: RequestInit
  readonly authProvider?: AuthProvider
  readonly fetch?: FetchLike
}

const StreamableHttpChecks = z.strictObject({
  ...SERVER_CHECKS,
  url: z.string(),
  requestInit: z.looseObject({}).optional(),
  authProvider: z.looseObject({}).optional(),
  fetch: AnyFunction.optional(),
} satisfies OptionChecks<MCPServerStreamableHttpOptions>)

/** Largest message of a server: an answer as JSON, or one event of a stream. */
const MAX_MESSAGE_BYTES = 16_777_216

/** An MCP server behind an address (Streamable HTTP). */
export class MCPServerStreamableHttp extends McpServer {
  readonly #url: URL
  readonly #options: Pick<MCPServerStreamableHttpOptions, 'requestInit' | 'authProvider' | 'fetch'>

  /** @throws ConfigError an option is not valid, or the client of MCP is not installed. */
  constructor(options: MCPServerStreamableHttpOptions) {
    readOptions('MCPServerStreamableHttp', StreamableHttpChecks, options)
    const url = URL.parse(options.url)
    // "localhost:3000" is a URL too, of a scheme of that name.
    if (!url || !/^https?:$/.test(url.protocol))
      throw new ConfigError(`MCPServerStreamableHttp: url must begin with http:// or https://: ${options.url}`)
    super(`streamable-http: ${url.host}`, options)
    this.#url = url
    const { requestInit, authProvider, fetch } = options
    this.#options = {
      ...(requestInit && { requestInit }),
      ...(authProvider && { authProvider }),
      ...(fetch && { fetch }),
    }
  }

  protected override async openTransport(): Promise<Transport> {
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client')
    const { fetch = globalThis.fetch, ...options } = this.#options
    const limitedFetch: FetchLike = async (...request) => limitedResponse(await fetch(...request), MAX_MESSAGE_BYTES)
    return new StreamableHTTPClientTransport(this.#url, { ...options, fetch: limitedFetch })
  }
}
