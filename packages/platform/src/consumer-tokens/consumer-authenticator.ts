import { ServiceError } from '@bureau/protocol'
import type { KeyIssuer } from '../api-keys/create-api-key.ts'
import { hashToken } from '../api-keys/api-key-token.ts'
import type { Caller } from '../caller.ts'
import { PromiseCache } from '../promise-cache.ts'
import { API_SCOPES, type ConsumerClaims, TOKEN_PREFIX, verifyConsumerToken } from './consumer-token.ts'
import { findTokenGround, listAllowedOrigins } from './consumer-tokens.repo.ts'

/** What was revoked is refused everywhere after this long, and a new origin is known. */
const TRUST_MS = 5_000
const CACHED = 10_000

type Ground = Awaited<ReturnType<typeof findTokenGround.work>>
type Sent = { readonly authorization: string | undefined; readonly origin: string | undefined }

/** Turns tokens of consumers into callers. What a token stands on is remembered for five seconds. */
export class ConsumerAuthenticator {
  readonly #issuer: KeyIssuer
  readonly #now: () => number
  readonly #grounds: PromiseCache<Ground>
  readonly #origins: PromiseCache<ReadonlySet<string>>

  /** `now` answers milliseconds since the epoch; it stands in for both clocks, that of the time and the monotonic one. */
  constructor(issuer: KeyIssuer, now?: () => number) {
    this.#issuer = issuer
    this.#now = now ?? Date.now
    this.#grounds = new PromiseCache({ size: CACHED, keepMs: TRUST_MS, now })
    this.#origins = new PromiseCache({ size: 1, keepMs: TRUST_MS, now })
  }

  /** Whether these credentials are a consumer's, valid or not. */
  isConsumer(authorization: string | undefined): boolean {
    return new RegExp(`^Bearer ${TOKEN_PREFIX}`, 'i').test(authorization ?? '')
  }

  /**
   * @throws ServiceError `invalid_consumer_token` for everything but a valid token; `origin_not_allowed` for a page that its
   *   integration does not list; `database_unavailable`, `overloaded`
   */
  async authenticate({ authorization = '', origin }: Sent): Promise<Caller> {
    const token = authorization.slice('Bearer '.length)
    const { signingKeys, issuer } = this.#issuer
    const claims = await verifyConsumerToken(signingKeys, issuer, token, new Date(this.#now()))
    const ground = claims && (await this.#groundOf(token, claims))
    if (!claims || !ground || claims.issuedAt.getTime() <= ground.notBeforeMs) {
      throw new ServiceError('invalid_consumer_token')
    }
    if (origin !== undefined && !ground.allowedOrigins.includes(origin)) throw originNotAllowed(origin)
    const { ownerId, integrationId, consumerId, scopes, expiresAt } = claims
    return {
      ownerId,
      keyId: `consumer:${integrationId}:${consumerId}`,
      scopes: scopes.map((scope) => API_SCOPES[scope]),
      integrationIds: [integrationId],
      expiresAt,
      consumerId,
      consumerScopes: scopes,
    }
  }

  /** Whether some integration lists this origin: preflights do not say which one is meant. */
  async isListed(origin: string): Promise<boolean> {
    try {
      const { db } = this.#issuer
      const origins = await this.#origins.of('all', async () => new Set(await db.run(listAllowedOrigins, undefined)))
      return origins.has(origin)
    } catch {
      return false // the request itself says that the database cannot be reached
    }
  }

  /** Looks at everything anew: something was revoked here. */
  forget(): void {
    this.#grounds.clear()
  }

  #groundOf(token: string, claims: ConsumerClaims): Promise<Ground> {
    const name = Buffer.from(hashToken(token)).toString('base64')
    const { ownerId, keyId, integrationId, consumerId } = claims
    const asked = { ownerId, keyId, integrationId, consumerId }
    return this.#grounds.of(name, () => this.#issuer.db.run(findTokenGround, asked))
  }
}

function originNotAllowed(origin: string): ServiceError {
  const shown = JSON.stringify(origin.slice(0, 100))
  const message = `Pages of ${shown} may not use tokens of this integration. To allow it, name the origin in allowedOrigins.`
  return new ServiceError('origin_not_allowed', { message })
}
