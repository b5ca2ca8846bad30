import type { Database } from '../db/database.ts'
import { newId } from '../ids.ts'
import type { DataKeys } from './data-keys.ts'
import { insertOwner, type Owner } from './owners.repo.ts'

/** Creates a tenant with a data key of its own. Only the operator does this. */
export function createOwner(
  db: Database,
  dataKeys: DataKeys,
  owner: { readonly name: string; readonly publishesAgencies?: boolean },
): Promise<Owner> {
  const id = newId('own')
  return db.run(insertOwner, { id, ...owner, dekWrapped: dataKeys.wrapNew(id) })
}
