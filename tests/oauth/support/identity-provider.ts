import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Provider } from 'oidc-provider'
import { closeAfterTest } from '../../support/test-server.ts'

export type IdentityProvider = {
  readonly issuer: string
  /** Its address and port, for the list of addresses that the operator allows. */
  readonly host: string
  readonly provider: Provider
  /** `METHOD /path` of every request, in order. */
  readonly requests: readonly string[]
  /** Bodies of the requests to the token endpoint. */
  readonly tokenRequests: readonly URLSearchParams[]
  /** `Authorization` headers of the requests to the token endpoint. */
  readonly tokenAuthorizations: readonly (string | undefined)[]
  /** Access and refresh tokens that were given out. */
  readonly issuedTokens: readonly string[]
  /** Metadata of the clients that have registered themselves. */
  readonly registrations: readonly Record<string, unknown>[]
  /** Forgets every refresh token, as an administrator does who ends all sessions. */
  revokeRefreshTokens(): void
  /** Forgets every client. */
  forgetClients(): void
}

type ProviderOptions = {
  readonly clients?: readonly object[]
  /** True: clients may ask for other scopes than those that they have registered for. */
  readonly anyScopes?: boolean
  /** Default `opaque`. */
  readonly accessTokenFormat?: 'opaque' | 'jwt'
}

type Entry = { payload: Record<string, unknown>; expiresAt: number }

/** An OAuth server with login and consent pages, on loopback: any login name is accepted. */
export async function startIdentityProvider(options: ProviderOptions = {}): Promise<IdentityProvider> {
  const http = createServer()
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  const issuer = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  const storage = new Map<string, Entry>()
  const provider = quietly(() => new Provider(issuer, configuration(storage, options)))
  const listener = provider.callback()
  const requests: string[] = []
  const tokenRequests: URLSearchParams[] = []
  const tokenAuthorizations: (string | undefined)[] = []
  const issuedTokens: string[] = []
  const registrations: Record<string, unknown>[] = []
  provider.on('grant.success', (context: { body: { access_token: string; refresh_token?: string } }) => {
    issuedTokens.push(context.body.access_token, ...(context.body.refresh_token ? [context.body.refresh_token] : []))
  })
  http.on('request', (request, response) => {
    requests.push(`${request.method} ${request.url}`)
    const chunks: Buffer[] = []
    const kept = request.url === '/token' || request.url === '/reg'
    if (kept) request.on('data', (chunk: Buffer) => chunks.push(chunk))
    if (kept) {
      request.on('end', () => {
        const body = Buffer.concat(chunks).toString()
        if (request.url === '/token') {
          tokenRequests.push(new URLSearchParams(body))
          tokenAuthorizations.push(request.headers.authorization)
        } else registrations.push(JSON.parse(body))
      })
    }
    listener(request, response)
  })
  closeAfterTest(async () => {
    http.closeAllConnections()
    await new Promise((resolve) => http.close(resolve))
  })
  const forget = (kind: string): void => {
    for (const key of storage.keys()) if (key.startsWith(`${kind}:`)) storage.delete(key)
  }
  return {
    issuer,
    host: new URL(issuer).host,
    provider,
    requests,
    tokenRequests,
    tokenAuthorizations,
    issuedTokens,
    registrations,
    revokeRefreshTokens: () => forget('RefreshToken'),
    forgetClients: () => forget('Client'),
  }
}

function configuration(storage: Map<string, Entry>, options: ProviderOptions): object {
  const { clients = [], anyScopes = false, accessTokenFormat = 'opaque' } = options
  return {
    adapter: adapterOver(storage, anyScopes),
    clients,
    cookies: { keys: ['test'] },
    findAccount: (_context: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id }) }),
    scopes: ['openid', 'offline_access', 'notes:read', 'notes:write'],
    issueRefreshToken: () => true,
    rotateRefreshToken: true,
    pkce: { required: () => true },
    ttl: {
      AccessToken: 3_600,
      ClientCredentials: 3_600,
      Grant: 86_400,
      Interaction: 3_600,
      RefreshToken: 86_400,
      Session: 86_400,
      IdToken: 3_600,
    },
    features: {
      devInteractions: { enabled: true },
      registration: { enabled: true },
      clientCredentials: { enabled: accessTokenFormat === 'jwt' },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context: unknown, resource: string) => ({
          scope: 'notes:read notes:write',
          audience: resource,
          accessTokenFormat,
        }),
        useGrantedResource: () => true,
      },
    },
  }
}

/** oidc-provider's memory adapter is one per process; this one belongs to the test. */
function adapterOver(storage: Map<string, Entry>, anyScopes: boolean): new (kind: string) => object {
  return class {
    readonly #kind: string
    constructor(kind: string) {
      this.#kind = kind
    }
    async upsert(id: string, payload: Record<string, unknown>, expiresIn: number): Promise<void> {
      const { scope: _, ...unlimited } = payload
      const kept = anyScopes && this.#kind === 'Client' ? unlimited : payload
      storage.set(`${this.#kind}:${id}`, { payload: kept, expiresAt: Date.now() + (expiresIn || 86_400) * 1000 })
    }
    async find(id: string): Promise<Record<string, unknown> | undefined> {
      return storage.get(`${this.#kind}:${id}`)?.payload
    }
    async findByUid(uid: string): Promise<Record<string, unknown> | undefined> {
      return [...storage.values()].find(({ payload }) => payload['uid'] === uid && payload['kind'] === this.#kind)
        ?.payload
    }
    async consume(id: string): Promise<void> {
      const entry = storage.get(`${this.#kind}:${id}`)
      if (entry) entry.payload['consumed'] = Math.floor(Date.now() / 1000)
    }
    async destroy(id: string): Promise<void> {
      storage.delete(`${this.#kind}:${id}`)
    }
    async revokeByGrantId(grantId: string): Promise<void> {
      for (const [key, { payload }] of storage) if (payload['grantId'] === grantId) storage.delete(key)
    }
  }
}

/** It warns of settings that only a development server may have. */
function quietly<Result>(work: () => Result): Result {
  const { info, warn } = console
  console.info = () => {}
  console.warn = () => {}
  try {
    return work()
  } finally {
    Object.assign(console, { info, warn })
  }
}
