import { ServiceError } from '@bureau/protocol'
import type { KeyIssuer } from '../api-keys/create-api-key.ts'
import { hashToken } from '../api-keys/api-key-token.ts'
import type { Caller } from '../caller.ts'
import { API_SCOPES, type ConsumerClaims, TOKEN_PREFIX, verifyConsumerToken } from './consumer-token.ts'
import { findTokenGround, listAllowedOrigins } from './consumer-tokens.repo.ts'

/** What was revoked is refused everywhere after this long, and a new origin is known. */
const TRUST_MS = 5_000
const CACHED = 10_000

type Ground = Awaited<ReturnType<typeof findTokenGround.work>>
type Known = { readonly ground: Promise<Ground>; readonly until: number }
type Sent = { readonly authorization: string | undefined; readonly origin: string | undefined }

/** Turns tokens of consumers into callers. What a token stands on is remembered for five seconds. */
export class ConsumerAuthenticator {
  readonly #issuer: KeyIssuer
  readonly #now: () => number
  readonly #known = new Map<string, Known>()
  #origins: { readonly list: Promise<ReadonlySet<string>>; readonly until: number } | undefined

  /** `now` answers milliseconds since the epoch. */
  constructor(issuer: KeyIssuer, now: () => number = Date.now) {
    this.#issuer = issuer
    this.#now = now
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
    if (!this.#origins || this.#origins.until <= this.#now()) {
      const list = this.#issuer.db.run(listAllowedOrigins, undefined).then((origins) => new Set(origins))
      this.#origins = { list, until: this.#now() + TRUST_MS }
    }
    return this.#origins.list.then(
      (list) => list.has(origin),
      () => false, // the request itself says that the database cannot be reached
    )
  }

  /** Looks at everything anew: something was revoked here. */
  forget(): void {
    this.#known.clear()
  }

  #groundOf(token: string, claims: ConsumerClaims): Promise<Ground> {
    const name = Buffer.from(hashToken(token)).toString('base64')
    const known = this.#known.get(name)
    if (known && known.until > this.#now()) return known.ground
    const { ownerId, keyId, integrationId, consumerId } = claims
    const ground = this.#issuer.db.run(findTokenGround, { ownerId, keyId, integrationId, consumerId })
    this.#known.delete(name)
    this.#known.set(name, { ground, until: this.#now() + TRUST_MS })
    ground.catch(() => this.#known.delete(name))
    const oldest = this.#known.keys().next()
    if (this.#known.size > CACHED && !oldest.done) this.#known.delete(oldest.value)
    return ground
  }
}

function originNotAllowed(origin: string): ServiceError {
  const shown = JSON.stringify(origin.slice(0, 100))
  const message = `Pages of ${shown} may not use tokens of this integration. To allow it, name the origin in allowedOrigins.`
  return new ServiceError('origin_not_allowed', { message })
}
