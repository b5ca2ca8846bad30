import { timingSafeEqual } from 'node:crypto'
import { ServiceError } from '@bureau/protocol'
import { hashToken, verifyApiKeyToken } from './api-key-token.ts'
import { type ApiKeyRow, useApiKey } from './api-keys.repo.ts'
import type { Caller } from '../caller.ts'
import type { KeyIssuer } from './create-api-key.ts'

/** A revoked key is refused everywhere after this long. */
const TRUST_MS = 5_000
const CACHED = 10_000

type Known = { readonly key: Promise<ApiKeyRow | undefined>; readonly until: number }

/** Turns `Authorization` headers into callers. Remembers a good token for five seconds, by its hash. */
export class Authenticator {
  readonly #issuer: KeyIssuer
  readonly #now: () => number
  readonly #known = new Map<string, Known>()

  /** `now` answers milliseconds since the epoch. */
  constructor(issuer: KeyIssuer, now: () => number = Date.now) {
    this.#issuer = issuer
    this.#now = now
  }

  /** @throws ServiceError `invalid_api_key` for everything but a usable key; `database_unavailable`, `overloaded` */
  async authenticate(authorization: string | undefined): Promise<Caller> {
    const token = /^Bearer ([\w-]+\.[\w-]+\.[\w-]+)$/i.exec(authorization ?? '')?.[1]
    const key = token === undefined ? undefined : await this.#find(token)
    if (!key || (key.expiresAt && key.expiresAt.getTime() <= this.#now())) {
      throw new ServiceError('invalid_api_key', { headers: { 'WWW-Authenticate': 'Bearer' } })
    }
    const { ownerId, id: keyId, scopes, integrationIds, expiresAt } = key
    return { ownerId, keyId, scopes, integrationIds, expiresAt }
  }

  /** Forgets a key at once, when this process or a message from another one revoked it. */
  async forget(keyId: string): Promise<void> {
    for (const [hash, { key }] of this.#known) {
      const row = await key.catch(() => undefined)
      if (row?.id === keyId) this.#known.delete(hash)
    }
  }

  #find(token: string): Promise<ApiKeyRow | undefined> {
    const hash = hashToken(token)
    const name = Buffer.from(hash).toString('base64')
    const known = this.#known.get(name)
    if (known && known.until > this.#now()) return known.key
    const key = this.#load(token, hash)
    this.#remember(name, key)
    return key
  }

  async #load(token: string, hash: Uint8Array): Promise<ApiKeyRow | undefined> {
    const { db, signingKeys, issuer } = this.#issuer
    const claims = await verifyApiKeyToken(signingKeys, issuer, token, new Date(this.#now()))
    const row = claims && (await db.run(useApiKey, claims))
    return row && timingSafeEqual(row.tokenSha256, hash) ? row : undefined
  }

  /** Only good tokens stay: whoever guesses cannot fill the memory. */
  #remember(name: string, key: Promise<ApiKeyRow | undefined>): void {
    this.#known.delete(name)
    this.#known.set(name, { key, until: this.#now() + TRUST_MS })
    const forget = (): void => void (this.#known.get(name)?.key === key && this.#known.delete(name))
    key.then((row) => row ?? forget(), forget)
    const oldest = this.#known.keys().next()
    if (this.#known.size > CACHED && !oldest.done) this.#known.delete(oldest.value)
  }
}
