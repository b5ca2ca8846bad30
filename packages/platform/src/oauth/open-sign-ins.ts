import {
  type Agency,
  type OAuthAccess,
  oauthServersOf,
  type RunEnvironment,
  settingsOf,
  type TokenStore,
} from '@bureau/framework'
import {
  authorizeThrough,
  guardedFetch,
  logFailures,
  type Logger,
  type OAuthStateRegistry,
  throughStartPage,
} from '@bureau/runtime'
import type { PlatformConfig, StartUp } from '../config.ts'

/** How users of this platform sign in to protected tool servers. */
export type SignIns = {
  readonly registry: OAuthStateRegistry
  /** What the process offers to a run of an owner: with a way to sign in when the agency has protected tool servers. */
  readonly environmentOf: (agency: Agency, ownerId: string) => RunEnvironment
  readonly close: () => Promise<void>
}

type OpenSignIns = {
  readonly agencies: ReadonlyMap<string, Agency>
  readonly environment: RunEnvironment
  readonly config: Pick<PlatformConfig, 'allowedHosts' | 'publicBaseUrl' | 'signInPage' | 'signInTimeoutMs' | 'read'>
  readonly startUp: Pick<StartUp, 'address'>
  readonly registry: OAuthStateRegistry
  /** The tokens of an owner's users. */
  readonly openTokenStore: (ownerId: string) => TokenStore
  readonly log: Logger
}

/** More owners' stores than this are not kept at once. */
const MAX_STORES = 10_000

/** Contacts nobody. @throws ConfigError a declaration or the environment is not valid. */
export function openSignIns(options: OpenSignIns): SignIns {
  const { agencies, environment, config, registry, openTokenStore, log } = options
  const needing = new Set([...agencies.values()].filter((agency) => oauthServersOf(agency).length > 0))
  const read = (name: string): string | undefined => config.read(name) ?? defaultOf(name, options)
  for (const server of [...needing].flatMap(oauthServersOf)) settingsOf(server, read)
  const requests = guardedFetch({ allow: config.allowedHosts })
  const authorize = authorizeThrough(registry, config.signInTimeoutMs)
  const shared: Omit<OAuthAccess, 'tokenStore'> = {
    read,
    authorize: config.signInPage ? throughStartPage(authorize) : authorize,
    fetch: requests.fetchFor,
    onFailure: logFailures(log),
  }
  const environments = new Map<string, RunEnvironment>()
  const open = (ownerId: string): RunEnvironment => {
    const store = openTokenStore(ownerId)
    return { ...environment, oauth: { ...shared, tokenStore: () => store } }
  }
  return {
    registry,
    environmentOf: (agency, ownerId) => {
      if (!needing.has(agency)) return environment
      const known = environments.get(ownerId) ?? open(ownerId)
      // Connections to tool servers are shared by store: an owner's runs must get the same one.
      environments.delete(ownerId)
      environments.set(ownerId, known)
      const [oldest] = environments.keys()
      if (environments.size > MAX_STORES && oldest !== undefined) environments.delete(oldest)
      return known
    },
    close: requests.close,
  }
}

/** The platform knows its own address, where nothing else names the callback. */
function defaultOf(name: string, { config, startUp }: OpenSignIns): string | undefined {
  const base = config.publicBaseUrl ?? startUp.address
  return name === 'OAUTH_CALLBACK_URL' && base !== undefined ? `${base}/auth/callback` : undefined
}
