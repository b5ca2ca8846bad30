import type { FetchLike } from '@modelcontextprotocol/client'
import type { Agency } from '../agency/agency.ts'
import type { MCPServerOAuth, OAuthServerSettings } from '../agency/oauth-server.ts'
import type { Authorize, SignInFailed } from './sign-in.ts'
import type { TokenStore } from '../tokens/token-store.ts'

/** How the runs of a process sign their users in to protected tool servers. */
export type OAuthAccess = {
  /** Reads one environment variable. */
  readonly read: (name: string) => string | undefined
  /** Where tokens are kept for servers that bring no storage of their own. */
  readonly tokenStore: (settings: OAuthServerSettings, agency: Agency) => TokenStore
  readonly authorize: Authorize
  /** Requests to a tool server, and to whatever authorization server it names. Default: the global fetch. */
  readonly fetch?: (settings: OAuthServerSettings) => FetchLike
  /** Told of every sign-in that failed, with its cause. For the log. */
  readonly onFailure: (failure: SignInFailed, facts: { readonly server: string; readonly runId: string }) => void
}

const madeByFactory = new WeakMap<MCPServerOAuth, TokenStore>()

/** The server's own storage, then its factory's, then the process's. */
export function storeOf(
  server: MCPServerOAuth,
  settings: OAuthServerSettings,
  access: OAuthAccess,
  agency: Agency,
): TokenStore {
  const { storage, storageFactory } = server.options
  if (storage) return storage
  if (!storageFactory) return access.tokenStore(settings, agency)
  const made = madeByFactory.get(server) ?? storageFactory(server.name, server.url)
  madeByFactory.set(server, made)
  return made
}
