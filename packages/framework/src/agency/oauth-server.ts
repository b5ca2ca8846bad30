import { hash } from 'node:crypto'
import { ConfigError } from '@bureau/protocol'
import { z } from 'zod'
import { requireMcpClient } from '../optional-packages.ts'
import { AnyFunction, Milliseconds, type OptionChecks, readOptions } from '../options.ts'
import type { TokenStore } from '../tokens/token-store.ts'
import { type RequireApproval, RequireApprovalChecks, type ToolFilter, ToolFilterChecks } from './tool-server.ts'

/** Dynamic client registration metadata (RFC 7591), member by member; given ones win over those that are built. */
type ClientMetadata = Readonly<Record<string, unknown>>

export type MCPServerOAuthOptions = {
  /** The server's MCP endpoint (Streamable HTTP). */
  readonly url: string
  /** The identifier that the model, events and environment variables use. */
  readonly name: string
  /** Default: `<NAME>_CLIENT_ID`; without any, the client registers itself at the provider. */
  readonly clientId?: string
  /** Default: `<NAME>_CLIENT_SECRET`. */
  readonly clientSecret?: string
  /** False: `<NAME>_CLIENT_ID` and `<NAME>_CLIENT_SECRET` are not read. Default true. */
  readonly useEnvCredentials?: boolean
  /** Exactly the scopes to ask for; the server cannot widen them. Default: what discovery and challenges name. */
  readonly scopes?: readonly string[]
  /**
   * The public URL that forwards to `/auth/callback`. Default: `<NAME>_REDIRECT_URI`, else `OAUTH_CALLBACK_URL`, else
   * `http://localhost:8000/auth/callback`.
   */
  readonly redirectUri?: string
  /** Folder of the token files. Default: the server's `oauthTokenPath`. */
  readonly cacheDir?: string
  /** Wins over folders. */
  readonly storage?: TokenStore
  /** Like `storage`, made when the server is first used. */
  readonly storageFactory?: (name: string, url: string) => TokenStore
  readonly clientMetadata?: ClientMetadata
  /** The authorization server, when discovery must not decide. */
  readonly authServerUrl?: string
  /** Sends the user to the provider. With `callbackHandler` it replaces the server's own flow: for scripts. */
  readonly redirectHandler?: (authorizationUrl: URL) => void | Promise<void>
  /** Resolves with the query of the provider's redirect. */
  readonly callbackHandler?: (signal: AbortSignal) => Promise<URLSearchParams>
  /** Which of the server's tools the agent gets. Default: all. */
  readonly toolFilter?: ToolFilter
  /** About which tools a person must decide before each call. Default `never`. */
  readonly requireApproval?: RequireApproval
  /** True: what the server says of its tools counts, as with the other servers. Default false. */
  readonly trusted?: boolean
  /** Longest time one tool call may take, in milliseconds. Default 120_000. */
  readonly toolTimeoutMs?: number
}

const text = z.string().optional()

const MCPServerOAuthChecks = z.strictObject({
  url: z.string(),
  name: z.string(),
  clientId: text,
  clientSecret: text,
  useEnvCredentials: z.boolean().optional(),
  scopes: z.array(z.string()).optional(),
  redirectUri: text,
  cacheDir: text,
  storage: z.looseObject({}).optional(),
  storageFactory: AnyFunction.optional(),
  clientMetadata: z.record(z.string(), z.unknown()).optional(),
  authServerUrl: text,
  redirectHandler: AnyFunction.optional(),
  callbackHandler: AnyFunction.optional(),
  toolFilter: ToolFilterChecks.optional(),
  requireApproval: RequireApprovalChecks.optional(),
  trusted: z.boolean().optional(),
  toolTimeoutMs: Milliseconds.optional(),
} satisfies OptionChecks<MCPServerOAuthOptions>)

/**
 * A tool server that users must sign in to, for an agent's `mcpServers`. A declaration only: nothing is contacted before
 * the model calls `authenticate_mcp_server`, and each user gets a connection of their own.
 */
export class MCPServerOAuth {
  readonly name: string
  readonly url: string
  readonly options: MCPServerOAuthOptions

  /**
   * @throws ConfigError the URL or the name cannot be used, only one of the two handlers is given, or the client of MCP is not
   *   installed.
   */
  constructor(options: MCPServerOAuthOptions) {
    readOptions('MCPServerOAuth', MCPServerOAuthChecks, options)
    const where = `MCPServerOAuth "${options.name}"`
    if (options.name.trim() === '') throw new ConfigError('MCPServerOAuth: name is missing.')
    requireHttpUrl(options.url, `${where}: url`)
    if (options.redirectUri !== undefined) requireUrl(options.redirectUri, `${where}: redirectUri`)
    if (options.authServerUrl !== undefined) requireHttpUrl(options.authServerUrl, `${where}: authServerUrl`)
    if ((options.redirectHandler === undefined) !== (options.callbackHandler === undefined)) {
      throw new ConfigError(`${where}: give redirectHandler and callbackHandler together.`)
    }
    requireMcpClient()
    this.name = options.name
    this.url = options.url
    this.options = Object.freeze({ ...options })
    Object.freeze(this)
  }
}

/** A protected server with everything that the environment decides. */
export type OAuthServerSettings = {
  readonly name: string
  readonly url: string
  readonly clientId: string | undefined
  readonly clientSecret: string | undefined
  readonly scopes: readonly string[] | undefined
  readonly redirectUri: string
  readonly clientMetadata: ClientMetadata
  readonly authServerUrl: string | undefined
  /** Where credentials are stored: the name and a digest of what must not be mixed up, without secrets. */
  readonly storageName: string
  readonly options: MCPServerOAuthOptions
}

const DEFAULT_REDIRECT_URI = 'http://localhost:8000/auth/callback'

/** Fills in what an environment may decide. `read` looks up one variable; empty values count as absent. */
export function settingsOf(server: MCPServerOAuth, read: (name: string) => string | undefined): OAuthServerSettings {
  const { options } = server
  const prefix = options.name.toUpperCase().replaceAll('-', '_')
  const readOwn = (name: string): string | undefined => read(`${prefix}_${name}`) || undefined
  const fromEnvironment = options.useEnvCredentials ?? true
  const settings = {
    name: options.name,
    url: options.url,
    clientId: options.clientId ?? (fromEnvironment ? readOwn('CLIENT_ID') : undefined),
    clientSecret: options.clientSecret ?? (fromEnvironment ? readOwn('CLIENT_SECRET') : undefined),
    scopes: options.scopes,
    redirectUri: options.redirectUri ?? readOwn('REDIRECT_URI') ?? (read('OAUTH_CALLBACK_URL') || DEFAULT_REDIRECT_URI),
    clientMetadata: options.clientMetadata ?? {},
    authServerUrl: options.authServerUrl,
    options,
  }
  if (settings.clientSecret !== undefined && settings.clientId === undefined) {
    throw new ConfigError(`MCPServerOAuth "${options.name}": a client secret needs a client id.`)
  }
  requireUrl(settings.redirectUri, `MCPServerOAuth "${options.name}": the redirect URI`)
  return Object.freeze({ ...settings, storageName: storageNameOf(settings) })
}

/** Different servers, clients, scopes or callbacks never share tokens. */
function storageNameOf(settings: Omit<OAuthServerSettings, 'storageName'>): string {
  const { name, url, clientId, scopes, redirectUri, authServerUrl } = settings
  const identity = [name, url, clientId ?? null, scopes?.toSorted() ?? null, redirectUri, authServerUrl ?? null]
  const digest = hash('sha256', JSON.stringify(identity), 'hex').slice(0, 16)
  return `${name.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 40)}-${digest}`
}

function requireUrl(text: string, what: string): URL {
  const url = URL.parse(text)
  if (!url) throw new ConfigError(`${what} is not a URL: ${text}`)
  return url
}

function requireHttpUrl(text: string, what: string): void {
  const url = requireUrl(text, what)
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw new ConfigError(`${what} must be http or https: ${text}`)
  if (url.username !== '' || url.password !== '') throw new ConfigError(`${what} must not contain credentials.`)
}
