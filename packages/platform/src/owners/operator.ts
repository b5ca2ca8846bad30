import {
  type ApiKey,
  type IssuedApiKey,
  type Owner,
  type OwnerCreate,
  type OwnerPatch,
  ServiceError,
} from '@bureau/protocol'
import { createFirstApiKey } from '../api-keys/create-api-key.ts'
import { listApiKeys, revokeApiKey } from '../api-keys/api-keys.repo.ts'
import type { Page, PageRequest } from '../db/page.ts'
import type { PlatformStore } from '../platform-store.ts'
import { createOwner } from './create-owner.ts'
import { changeOwner, findOwner, listOwners, ownerView } from './owners.repo.ts'
import { publishFor, type Publishing } from './publish-for-owners.ts'

/** What an operator may name of a key. */
type OperatorKey = Pick<Parameters<typeof createFirstApiKey>[2], 'name' | 'scopes' | 'expiresAt'>

/** Who runs an installation: makes owners, and their keys also when all of them are lost. */
export class Operator {
  readonly #store: PlatformStore
  readonly #publishing: Publishing

  /** `publishing` names the agencies that a new owner gets at once; without any they come with the next start. */
  constructor(publishing: Publishing & { readonly store: PlatformStore }) {
    this.#store = publishing.store
    this.#publishing = publishing
  }

  async createOwner({ name, publishesAgencies }: OwnerCreate): Promise<Owner> {
    const owner = await createOwner(this.#store.db, this.#store.dataKeys, { name, publishesAgencies })
    if (publishesAgencies) await publishFor(this.#publishing, owner.id)
    return ownerView(owner)
  }

  listOwners(page: PageRequest): Promise<Page<Owner>> {
    return this.#store.db.run(listOwners, page)
  }

  /** A disabled owner's keys are refused within five seconds; its runs go on. @throws ServiceError `owner_not_found` */
  async changeOwner(ownerId: string, changes: OwnerPatch): Promise<Owner> {
    const owner = await this.#store.db.run(changeOwner, { ownerId, changes })
    if (changes.publishesAgencies) await publishFor(this.#publishing, ownerId)
    return owner
  }

  /** @throws ServiceError `owner_not_found`, `invalid_request`: it has expired already */
  async createKey(ownerId: string, key: OperatorKey): Promise<IssuedApiKey> {
    await this.#requireOwner(ownerId)
    return createFirstApiKey(this.#store.keyIssuer, ownerId, key)
  }

  /** @throws ServiceError `owner_not_found` */
  async listKeys(ownerId: string, page: PageRequest): Promise<Page<ApiKey>> {
    await this.#requireOwner(ownerId)
    return this.#store.db.run(listApiKeys, { ownerId, integrationIds: null, ...page })
  }

  /** Refused here at once, and everywhere within five seconds. @throws ServiceError `owner_not_found`, `api_key_not_found` */
  async revokeKey(ownerId: string, keyId: string): Promise<ApiKey> {
    await this.#requireOwner(ownerId)
    const revoked = await this.#store.db.run(revokeApiKey, { ownerId, integrationIds: null, keyId, actor: 'operator' })
    await this.#store.authenticator.forget(keyId)
    return revoked
  }

  async #requireOwner(ownerId: string): Promise<void> {
    if (!(await this.#store.db.run(findOwner, ownerId))) throw new ServiceError('owner_not_found')
  }
}
