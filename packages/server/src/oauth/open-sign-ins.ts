import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import type { FastifyRequest } from 'fastify'
import {
  type Agency,
  FileTokenStore,
  type OAuthAccess,
  type OAuthServerSettings,
  oauthServersOf,
  settingsOf,
} from '@bureau/framework'
import { ConfigError } from '@bureau/protocol'
import {
  authorizeThrough,
  type EgressPolicyOptions,
  guardedFetch,
  logFailures,
  type Logger,
  type OAuthStateRegistry,
} from '@bureau/runtime'
import type { ServerConfig } from '../config.ts'
import { type Authenticate, identify } from '../http/users.ts'
import type { OAuthOptions } from './oauth-options.ts'

/** How this server signs users in to protected tool servers. */
export type SignIns = {
  readonly access: OAuthAccess
  readonly registry: OAuthStateRegistry
  readonly verifyCallbackUser: boolean
  readonly userOf: (request: FastifyRequest) => string | Promise<string>
  /** Agencies whose runs need a user. */
  readonly agencies: ReadonlySet<Agency>
  readonly close: () => Promise<void>
}

type OpenSignIns = {
  readonly options: OAuthOptions & { readonly egress?: EgressPolicyOptions; readonly authenticate?: Authenticate }
  readonly config: ServerConfig
  readonly agencies: ReadonlyMap<string, Agency>
  /** Used unless the options bring a registry. */
  readonly registry: OAuthStateRegistry
  readonly log: Logger
}

/**
 * Undefined when no agency has protected tool servers and no registry is given. Contacts nobody.
 *
 * @throws ConfigError `oauthUserId` is missing, or a declaration or the environment is not valid.
 */
export function openSignIns({ options, config, agencies, registry, log }: OpenSignIns): SignIns | undefined {
  const servers = new Map([...agencies.values()].map((agency) => [agency, oauthServersOf(agency)]))
  const needing = new Set([...servers].flatMap(([agency, protectedOnes]) => (protectedOnes.length > 0 ? [agency] : [])))
  const userOf = options.oauthUserId ?? (options.authenticate && userIdBy(options.authenticate))
  if (!userOf) {
    if (needing.size === 0 && !options.oauthRegistry && !options.verifyOauthCallbackUser) return undefined
    throw new ConfigError(
      'oauthUserId is missing, or authenticate: agencies with OAuth-protected tool servers must know their users.',
    )
  }
  if (needing.size === 0 && !options.oauthRegistry) return undefined
  for (const server of [...servers.values()].flat()) settingsOf(server, config.read)
  const allow = [...config.allowedHosts, ...(options.egress?.allow ?? [])]
  const requests = guardedFetch({ ...options.egress, allow })
  const chosen = options.oauthRegistry ?? registry
  return {
    access: {
      read: config.read,
      tokenStore: tokenStores(options, { config, agencies, log }),
      authorize: authorizeThrough(chosen, options.oauthTimeoutMs),
      fetch: requests.fetchFor,
      onFailure: logFailures(log),
    },
    registry: chosen,
    verifyCallbackUser: options.verifyOauthCallbackUser ?? false,
    userOf,
    agencies: needing,
    close: requests.close,
  }
}

/** Browsers come back from a sign-in without having been let in. */
function userIdBy(authenticate: Authenticate): SignIns['userOf'] {
  return async (request) => (await identify(request, authenticate))?.id ?? ''
}

type Known = Pick<OpenSignIns, 'config' | 'agencies' | 'log'>

/** One store for each folder: the server's own, the agency's, the environment's, the home folder's. */
function tokenStores(options: OAuthOptions, { config, agencies, log }: Known): OAuthAccess['tokenStore'] {
  const stores = new Map<string, FileTokenStore>()
  const { oauthTokenPath: path } = options
  const ofAgencies = new Map(
    [...agencies].map(([name, agency]) => [agency, typeof path === 'string' ? path : path?.[name]]),
  )
  const onUnreadable = (file: string, error: Error): void =>
    log.warn({ file, err: error }, 'stored tokens cannot be read')
  return (settings: OAuthServerSettings, agency: Agency) => {
    const directory = resolve(
      settings.options.cacheDir ?? ofAgencies.get(agency) ?? config.oauth.tokenPath ?? defaultDirectory(),
    )
    const store = stores.get(directory) ?? new FileTokenStore({ directory, key: config.oauth.tokenKey, onUnreadable })
    stores.set(directory, store)
    return store
  }
}

function defaultDirectory(): string {
  return join(homedir(), '.bureau', 'mcp-tokens')
}
