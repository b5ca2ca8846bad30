import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CredentialsKey, StoredCredentials, TokenStore } from '@bureau/framework'
import type { PlatformStore } from '../platform-store.ts'
import { deleteSecret, findSecret, putSecret, type SecretName } from '../security/secrets.ts'
import { CREDENTIALS_SCOPE, credentialName } from '../security/credential-name.ts'
import { type Lease, LEASE_SECONDS, releaseLease, renewLease, takeLease } from './leases.ts'

/** Longer than the HTTP requests of one refresh may take together. */
const PATIENCE_MS = 120_000
const RETRY_MS = 50
const RENEW_MS = (LEASE_SECONDS * 1_000) / 3

type SqlTokenStoreOptions = Pick<PlatformStore, 'db' | 'dataKeys'> & {
  readonly ownerId: string
  /** Told of tokens that cannot be opened. They count as absent: the user signs in again. */
  readonly onUnreadable: (error: Error) => void
}

/** The tokens of one owner's users in the platform's records, sealed with the owner's data key. */
export class SqlTokenStore implements TokenStore {
  readonly #options: SqlTokenStoreOptions
  readonly #last = new Map<string, Promise<unknown>>()

  constructor(options: SqlTokenStoreOptions) {
    this.#options = options
  }

  async load(key: CredentialsKey): Promise<StoredCredentials> {
    const name = this.#secretOf(key)
    const { db, dataKeys, ownerId, onUnreadable } = this.#options
    try {
      const secret = await db.run(findSecret, { ...name, dataKey: await dataKeys.of(ownerId) })
      return secret === undefined ? {} : (JSON.parse(secret) as StoredCredentials)
    } catch (error) {
      // By its name, because classes do not cross threads.
      if (!(error instanceof Error && error.name === 'SealError')) throw error
      onUnreadable(error)
      return {}
    }
  }

  async save(key: CredentialsKey, credentials: StoredCredentials): Promise<void> {
    const name = this.#secretOf(key)
    const { db, dataKeys, ownerId } = this.#options
    await db.run(putSecret, { ...name, dataKey: await dataKeys.of(ownerId), secret: JSON.stringify(credentials) })
  }

  async delete(key: CredentialsKey): Promise<void> {
    await this.#options.db.run(deleteSecret, this.#secretOf(key))
  }

  /** Within this process in the order of the calls, among processes under a lease. */
  async exclusive<Result>(key: CredentialsKey, work: () => Promise<Result>): Promise<Result> {
    const { name } = this.#secretOf(key)
    const mine = (this.#last.get(name) ?? Promise.resolve()).then(() => this.#underLease(name, work))
    const settled = mine.then(ignore, ignore).then(() => {
      if (this.#last.get(name) === settled) this.#last.delete(name)
    })
    this.#last.set(name, settled)
    return mine
  }

  async #underLease<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
    const { db, ownerId } = this.#options
    const lease: Lease = { ownerId, name: `${CREDENTIALS_SCOPE}/${name}`, holder: randomUUID() }
    await this.#take(lease)
    const renewing = setInterval(() => void db.run(renewLease, lease).catch(ignore), RENEW_MS)
    try {
      return await work()
    } finally {
      clearInterval(renewing)
      // If the release fails, the lease expires.
      await db.run(releaseLease, lease).catch(ignore)
    }
  }

  async #take(lease: Lease): Promise<void> {
    const deadline = performance.now() + PATIENCE_MS
    while (!(await this.#options.db.run(takeLease, lease))) {
      if (performance.now() > deadline) throw new Error('the tokens of a user have been in use for too long')
      await sleep(RETRY_MS + Math.random() * RETRY_MS)
    }
  }

  #secretOf(key: CredentialsKey): SecretName {
    return { ownerId: this.#options.ownerId, scope: CREDENTIALS_SCOPE, name: credentialName(key) }
  }
}

function ignore(): void {}
