import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import type {
  AuthOptions,
  AuthResult,
  FetchLike,
  IssuerMismatchError,
  OAuthClientInformationContext,
  OAuthClientMetadata,
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from '@modelcontextprotocol/client'
import { limitedResponse } from '../limited-response.ts'
import type { OAuthServerSettings } from '../agency/oauth-server.ts'
import { SignInFailed } from './sign-in.ts'
import type { CredentialsKey, StoredCredentials, TokenStore } from '../tokens/token-store.ts'

/** Longest time that all requests of one step may take together: discovery, registration, tokens. */
const STEP_TIMEOUT_MS = 30_000
/** Largest answer of a provider: metadata, a registered client, tokens. */
const MAX_ANSWER_BYTES = 1_048_576

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
  /** True: the client that has registered itself is not used; another one registers. */
  readonly newClient?: boolean
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
  /** Absent for configured clients: they never register themselves. */
  readonly saveClientInformation?: (client: StoredOAuthClientInformation) => Promise<void>
  readonly #options: AttemptOptions
  #challenge: Challenge = {}
  #credentials: StoredCredentials = {}
  #client: StoredOAuthClientInformation | undefined
  #discovery: OAuthDiscoveryState | undefined
  #verifier: string | undefined
  #finishing = false
  #deadline: AbortSignal | undefined

  constructor(options: AttemptOptions) {
    this.#options = options
    const { clientId, authServerUrl } = options.settings
    if (clientId === undefined) this.saveClientInformation = (client) => this.#saveClient(client)
    if (authServerUrl !== undefined) this.#discovery = { authorizationServerUrl: authServerUrl }
  }

  /** True: the stored token works, but not for everything. */
  get wider(): boolean {
    return this.#challenge.wider ?? false
  }

  /**
   * True: there are new tokens. False: the user must go to `authorizationUrl`.
   *
   * @throws SignInFailed `issuer_mismatch`
   */
  async begin(challenge: Challenge): Promise<boolean> {
    const { settings, store, key } = this.#options
    this.#challenge = challenge
    this.#credentials = await store.load(key)
    this.#client = challenge.newClient ? undefined : this.#credentials.client
    const scope = settings.scopes?.join(' ') ?? challenge.scope
    const result = await this.#authorize({
      ...(scope !== undefined && { scope }),
      ...(challenge.resourceMetadataUrl && { resourceMetadataUrl: challenge.resourceMetadataUrl }),
      ...(this.wider && { forceReauthorization: true }),
    })
    return result === 'AUTHORIZED'
  }

  /**
   * Exchanges the code of the provider's redirect. The redirect must bring the attempt's state and, where the provider
   * says who it is, the right issuer (RFC 9207).
   *
   * @throws SignInFailed `state_mismatch`, `issuer_mismatch`
   */
  async finish(callback: URLSearchParams): Promise<void> {
    const { store, key } = this.#options
    if (!sameText(callback.get('state') ?? '', this.stateText)) throw new SignInFailed('state_mismatch')
    this.#credentials = await store.load(key)
    this.#finishing = true
    await this.#authorize({
      authorizationCode: callback.get('code') ?? '',
      ...(callback.has('iss') && { iss: callback.get('iss')! }),
    })
  }

  /**
   * The same attempt with a client that registers for the scopes it asks for, because some providers hold a client to those
   * that it has once registered for. It joins the tokens when there are any. Undefined: this client may ask for them already.
   */
  async withNewClient(): Promise<SignInAttempt | undefined> {
    const { store, key } = this.#options
    if (!this.wider || this.#challenge.newClient || !this.saveClientInformation) return undefined
    const attempt = new SignInAttempt(this.#options)
    await store.exclusive(key, () => attempt.begin({ ...this.#challenge, newClient: true }))
    return attempt
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

  /** @throws Error the page is not https, although the declaration is: a code that it sends back could be read on the way. */
  redirectToAuthorization(url: URL): void {
    const { url: server, authServerUrl = server } = this.#options.settings
    const isPlainDeclared = [server, authServerUrl].some((declared) => declared.startsWith('http:'))
    if (url.protocol !== 'https:' && !isPlainDeclared) throw new Error(`the sign-in page is not https: ${url.origin}`)
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

  async #authorize(options: Partial<AuthOptions>): Promise<AuthResult> {
    const mcp = await import('@modelcontextprotocol/client')
    this.#deadline = AbortSignal.timeout(STEP_TIMEOUT_MS)
    try {
      return await mcp.auth(this, { ...options, serverUrl: this.#options.settings.url, fetchFn: this.#fetch })
    } catch (error) {
      throw error instanceof mcp.IssuerMismatchError && error.received !== undefined ? wrongIssuer(error) : error
    }
  }

  readonly #fetch: FetchLike = async (url, init) => {
    const response = await this.#options.fetch(url, { ...init, signal: this.#deadline ?? null })
    return limitedResponse(response, MAX_ANSWER_BYTES)
  }

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

/** Issuers are compared as texts (RFC 8414, 3.3; RFC 9207, 2.4), so that a slash at the end matters. */
function wrongIssuer(error: IssuerMismatchError): SignInFailed {
  const [expected, received] = [error.expected, error.received].map((issuer) => issuer?.replace(/\/$/, ''))
  const detail = 'they differ only by a slash at the end; authServerUrl can be declared as the provider writes it'
  return new SignInFailed('issuer_mismatch', { cause: error, ...(expected === received && { detail }) })
}

/** Compares in constant time, whatever the lengths. */
function sameText(given: string, expected: string): boolean {
  const digest = (text: string): Buffer => hash('sha256', text, 'buffer')
  return timingSafeEqual(digest(given), digest(expected))
}
