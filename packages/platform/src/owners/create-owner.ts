import type { Database } from '../db/database.ts'
import { newId } from '../ids.ts'
import type { DataKeys } from './data-keys.ts'
import { insertOwner, type Owner } from './owners.repo.ts'

/** Creates a tenant with a data key of its own. There is no HTTP route for this: the operator does it. */
export function createOwner(db: Database, dataKeys: DataKeys, owner: { readonly name: string }): Promise<Owner> {
  const id = newId('own')
  return db.run(insertOwner, { id, name: owner.name, dekWrapped: dataKeys.wrapNew(id) })
}
