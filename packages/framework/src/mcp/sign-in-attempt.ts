import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import {
  auth,
  type FetchLike,
  type OAuthClientInformationContext,
  type OAuthClientMetadata,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type StoredOAuthClientInformation,
  type StoredOAuthTokens,
} from '@modelcontextprotocol/client'
import type { OAuthServerSettings } from './oauth-server.ts'
import { SignInFailed } from './sign-in.ts'
import type { CredentialsKey, StoredCredentials, TokenStore } from './token-store.ts'

/** Longest time one request to a provider may take. */
const REQUEST_TIMEOUT_MS = 30_000

export type AttemptOptions = {
  readonly settings: OAuthServerSettings
  readonly store: TokenStore
  readonly key: CredentialsKey
  readonly fetch: FetchLike
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

/** What a refused request told about the sign-in that it wants. */
export type Challenge = {
  readonly resourceMetadataUrl?: URL | undefined
  readonly scope?: string | undefined
  /** True: the scope is wider than what the user has granted, so that a refresh cannot help. */
  readonly wider?: boolean
}

/**
 * One attempt to get tokens for a user: by refreshing, else by sending the user to the provider.
 *
 * Verifier, state, client and discovered metadata belong to the attempt and stay in this process, so attempts that run
 * side by side do not mix. Call `begin` and `finish` within `store.exclusive`.
 */
export class SignInAttempt implements OAuthClientProvider {
  readonly stateText = randomBytes(32).toString('base64url')
  /** Where the user has to go. Set when `begin` answers false. */
  authorizationUrl: URL | undefined
  /** True: the stored token works, but not for everything. */
  wider = false
  /** Absent for configured clients: they never register themselves. */
  readonly saveClientInformation?: (client: StoredOAuthClientInformation) => Promise<void>
  readonly #options: AttemptOptions
  #credentials: StoredCredentials = {}
  #client: StoredOAuthClientInformation | undefined
  #discovery: OAuthDiscoveryState | undefined
  #verifier: string | undefined
  #finishing = false

  constructor(options: AttemptOptions) {
    this.#options = options
    const { clientId, authServerUrl } = options.settings
    if (clientId === undefined) this.saveClientInformation = (client) => this.#saveClient(client)
    if (authServerUrl !== undefined) this.#discovery = { authorizationServerUrl: authServerUrl }
  }

  /** True: there are new tokens. False: the user must go to `authorizationUrl`. */
  async begin(challenge: Challenge): Promise<boolean> {
    const { settings, store, key } = this.#options
    this.#credentials = await store.load(key)
    this.#client = this.#credentials.client
    this.wider = challenge.wider ?? false
    const scope = settings.scopes?.join(' ') ?? challenge.scope
    // Providers refuse scopes that a client did not register for; one that did joins the tokens once there are any.
    if (this.wider && !mayAskFor(this.#client, scope)) this.#client = undefined
    const result = await auth(this, {
      serverUrl: settings.url,
      fetchFn: this.#fetch,
      ...(scope !== undefined && { scope }),
      ...(challenge.resourceMetadataUrl && { resourceMetadataUrl: challenge.resourceMetadataUrl }),
      ...(this.wider && { forceReauthorization: true }),
    })
    return result === 'AUTHORIZED'
  }

  /**
   * Exchanges the code of the provider's redirect. The redirect must bring the attempt's state and, where the provider
   * says who it is, the right issuer (RFC 9207).
   */
  async finish(callback: URLSearchParams): Promise<void> {
    const { settings, store, key } = this.#options
    if (!sameText(callback.get('state') ?? '', this.stateText)) throw new SignInFailed('state_mismatch')
    this.#credentials = await store.load(key)
    this.#finishing = true
    await auth(this, {
      serverUrl: settings.url,
      fetchFn: this.#fetch,
      authorizationCode: callback.get('code') ?? '',
      ...(callback.has('iss') && { iss: callback.get('iss')! }),
    })
  }

  /**
   * Forgets the registered client when nobody holds tokens of it: providers show an error of their own, and never call
   * back, when they no longer know a client.
   */
  async abandon(): Promise<void> {
    const { store, key } = this.#options
    await store.exclusive(key, async () => {
      const { tokens, client } = await store.load(key)
      if (!tokens && client && client.client_id === this.#client?.client_id) await store.delete(key)
    })
  }

  get redirectUrl(): string {
    return this.#options.settings.redirectUri
  }

  get clientMetadata(): OAuthClientMetadata {
    const { name, redirectUri, scopes, clientMetadata } = this.#options.settings
    return {
      client_name: `Bureau (${name})`,
      redirect_uris: [redirectUri],
      response_types: ['code'],
      // Left to the MCP client where scopes are given: otherwise it would add offline_access to them.
      ...(scopes ? { scope: scopes.join(' ') } : { grant_types: ['authorization_code', 'refresh_token'] }),
      ...clientMetadata,
    }
  }

  state(): string {
    return this.stateText
  }

  clientInformation(context?: OAuthClientInformationContext): StoredOAuthClientInformation | undefined {
    const { clientId, clientSecret } = this.#options.settings
    if (clientId === undefined) return this.#client
    return {
      client_id: clientId,
      ...(clientSecret !== undefined && { client_secret: clientSecret }),
      ...(context && { issuer: context.issuer }),
    }
  }

  tokens(): StoredOAuthTokens | undefined {
    return this.#credentials.tokens
  }

  async saveTokens(tokens: StoredOAuthTokens): Promise<void> {
    const { expires_in: seconds } = tokens
    const expiresAt = seconds === undefined ? undefined : this.#options.now() + seconds * 1000
    await this.#save({ tokens, ...(expiresAt !== undefined && { expiresAt }), ...this.#clientPart() })
  }

  redirectToAuthorization(url: URL): void {
    this.authorizationUrl = url
  }

  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier
  }

  codeVerifier(): string {
    if (this.#verifier === undefined) throw new Error('the sign-in has not begun')
    return this.#verifier
  }

  saveDiscoveryState(state: OAuthDiscoveryState): void {
    this.#discovery = state
  }

  discoveryState(): OAuthDiscoveryState | undefined {
    return this.#discovery
  }

  /** The provider refused what is stored. A code that does not work is no reason to drop tokens that do. */
  async invalidateCredentials(scope: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery'): Promise<void> {
    if (scope === 'all' || scope === 'discovery') this.#discovery = undefined
    if (scope === 'all' || scope === 'client') {
      this.#client = undefined
      const { client: _, ...rest } = this.#credentials
      await this.#save(rest)
    }
    if (scope === 'tokens' && this.#finishing) return
    if (scope === 'all' || scope === 'tokens') await this.#save(this.#clientPart())
  }

  readonly #fetch: FetchLike = (url, init) =>
    this.#options.fetch(url, { ...init, signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) })

  async #saveClient(client: StoredOAuthClientInformation): Promise<void> {
    this.#client = client
    if (!this.wider) await this.#save({ ...this.#credentials, client })
  }

  #clientPart(): StoredCredentials {
    return this.#client ? { client: this.#client } : {}
  }

  async #save(credentials: StoredCredentials): Promise<void> {
    this.#credentials = credentials
    await this.#options.store.save(this.#options.key, credentials)
  }
}

function mayAskFor(client: StoredOAuthClientInformation | undefined, scope = ''): boolean {
  const registered = client && 'scope' in client ? client.scope : undefined
  return registered === undefined || scope.split(' ').every((word) => registered.split(' ').includes(word))
}

/** Compares in constant time, whatever the lengths. */
function sameText(given: string, expected: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(expected))
}
