import { randomBytes } from 'node:crypto'
import type { Database } from '../db/database.ts'
import { ensurePlatformKey } from './platform-keys.repo.ts'
import { type Place, seal, unseal } from './seal.ts'

const KID = 'server-1'

/** Where the private part of a platform key stands. */
export const platformKeyPlace = (kid: string): Place => ({
  table: 'platform_keys',
  column: 'private_enc',
  owner: 'platform',
  row: kid,
})

/**
 * The HMAC key of this installation, 32 bytes: fingerprints of requests and cursors.
 *
 * Kept in the database, sealed, so that all processes agree and a new master key does not change it.
 */
export async function loadServerKey(db: Database, masterKey: Uint8Array): Promise<Uint8Array> {
  const privateEnc = seal(masterKey, platformKeyPlace(KID), randomBytes(32))
  const stored = await db.run(ensurePlatformKey, { kid: KID, alg: 'HS256', privateEnc })
  if (!stored.privateEnc) throw new Error('the server key has no secret part')
  return unseal(masterKey, platformKeyPlace(KID), stored.privateEnc)
}
