import { randomBytes } from 'node:crypto'
import type { Database } from '../db/database.ts'
import { PromiseCache } from '../promise-cache.ts'
import { findOwner } from './owners.repo.ts'
import { type Place, seal, unseal } from '../security/seal.ts'

/** More owners than this are not kept unwrapped at once. */
const CACHED = 10_000

/** Where the wrapped data key of an owner stands. */
export const dataKeyPlace = (ownerId: string): Place => ({
  table: 'owners',
  column: 'dek_wrapped',
  owner: ownerId,
  row: ownerId,
})

/** The owners' data keys, unwrapped with the master key. Each encrypts that owner's values alone. */
export class DataKeys {
  readonly #db: Database
  readonly #masterKey: Uint8Array
  readonly #unwrapped = new PromiseCache<Uint8Array>({ size: CACHED })

  constructor(db: Database, masterKey: Uint8Array) {
    this.#db = db
    this.#masterKey = masterKey
  }

  /** A new owner's key, wrapped for `owners.dek_wrapped`. */
  wrapNew(ownerId: string): Uint8Array {
    return seal(this.#masterKey, dataKeyPlace(ownerId), randomBytes(32))
  }

  /** The owner's key, 32 bytes. @throws SealError it was wrapped with another master key. */
  of(ownerId: string): Promise<Uint8Array> {
    return this.#unwrapped.of(ownerId, () => this.#load(ownerId))
  }

  async #load(ownerId: string): Promise<Uint8Array> {
    const owner = await this.#db.run(findOwner, ownerId)
    if (!owner) throw new Error(`there is no owner ${ownerId}`)
    return unseal(this.#masterKey, dataKeyPlace(ownerId), owner.dekWrapped)
  }
}
