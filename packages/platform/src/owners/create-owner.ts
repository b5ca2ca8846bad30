import type { Database } from '../db/database.ts'
import { newId } from '../ids.ts'
import type { DataKeys } from './data-keys.ts'
import { findOrInsertOwner, insertOwner, type Owner } from './owners.repo.ts'

type NewOwner = { readonly name: string; readonly publishesAgencies?: boolean }

/** Creates a tenant with a data key of its own. Only the operator does this. */
export function createOwner(db: Database, dataKeys: DataKeys, owner: NewOwner): Promise<Owner> {
  return db.run(insertOwner, withDataKey(dataKeys, owner))
}

/** The first tenant there is; created where there is none, once, however many processes ask. */
export function ensureOwner(db: Database, dataKeys: DataKeys, owner: NewOwner): Promise<Owner> {
  return db.run(findOrInsertOwner, withDataKey(dataKeys, owner))
}

function withDataKey(dataKeys: DataKeys, owner: NewOwner) {
  const id = newId('own')
  return { id, ...owner, dekWrapped: dataKeys.wrapNew(id) }
}
