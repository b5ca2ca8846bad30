import { timingSafeEqual } from 'node:crypto'
import { ServiceError } from '@bureau/protocol'
import { hashToken, verifyApiKeyToken } from './api-key-token.ts'
import { type ApiKeyRow, useApiKey } from './api-keys.repo.ts'
import type { Caller } from '../caller.ts'
import { PromiseCache } from '../promise-cache.ts'
import type { KeyIssuer } from './create-api-key.ts'

/** A revoked key is refused everywhere after this long. */
const TRUST_MS = 5_000
const CACHED = 10_000

/** Turns `Authorization` headers into callers. Remembers a good token for five seconds, by its hash. */
export class Authenticator {
  readonly #issuer: KeyIssuer
  readonly #now: () => number
  readonly #known: PromiseCache<ApiKeyRow>

  /** `now` answers milliseconds since the epoch; it stands in for both clocks, that of the time and the monotonic one. */
  constructor(issuer: KeyIssuer, now?: () => number) {
    this.#issuer = issuer
    this.#now = now ?? Date.now
    this.#known = new PromiseCache({ size: CACHED, keepMs: TRUST_MS, now })
  }

  /** @throws ServiceError `invalid_api_key` for everything but a usable key; `database_unavailable`, `overloaded` */
  async authenticate(authorization: string | undefined): Promise<Caller> {
    const token = /^Bearer ([\w-]+\.[\w-]+\.[\w-]+)$/i.exec(authorization ?? '')?.[1]
    if (token === undefined) throw new ServiceError('invalid_api_key')
    const hash = hashToken(token)
    const key = await this.#known.of(Buffer.from(hash).toString('base64'), () => this.#load(token, hash))
    if (key.expiresAt && key.expiresAt.getTime() <= this.#now()) throw new ServiceError('invalid_api_key')
    const { ownerId, id: keyId, scopes, integrationIds, expiresAt } = key
    return { ownerId, keyId, scopes, integrationIds, expiresAt }
  }

  /** Forgets a key at once, when this process or a message from another one revoked it. */
  async forget(keyId: string): Promise<void> {
    await this.#known.forget(({ id }) => id === keyId)
  }

  /** Whoever guesses cannot fill the memory: what is thrown is not remembered. */
  async #load(token: string, hash: Uint8Array): Promise<ApiKeyRow> {
    const { db, signingKeys, issuer } = this.#issuer
    const claims = await verifyApiKeyToken(signingKeys, issuer, token, new Date(this.#now()))
    const row = claims && (await db.run(useApiKey, claims))
    if (!row || !timingSafeEqual(row.tokenSha256, hash)) throw new ServiceError('invalid_api_key')
    return row
  }
}
