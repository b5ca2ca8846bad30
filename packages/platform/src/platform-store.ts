import type { Database } from './db/database.ts'
import { openDatabase } from './db/open-database.ts'
import { Authenticator } from './api-keys/authenticate.ts'
import type { KeyIssuer } from './api-keys/create-api-key.ts'
import { SigningKeys } from './api-keys/signing-keys.ts'
import { ConsumerAuthenticator } from './consumer-tokens/consumer-authenticator.ts'
import { DataKeys } from './owners/data-keys.ts'
import { loadServerKey } from './security/server-key.ts'

type PlatformStoreOptions = {
  /** See `openDatabase`. */
  readonly databaseUrl: string
  /** See `openDatabase`. */
  readonly connections?: number | undefined
  /** 32 bytes, from `parseMasterKey` or `loadMasterKeyFile`. */
  readonly masterKey: Uint8Array
  /** Names this installation in its API keys, e.g. its public address. Keys of another one are refused. */
  readonly issuer: string
}

/** The records of the platform and the keys without which they are of no use. */
export type PlatformStore = {
  readonly db: Database
  readonly dataKeys: DataKeys
  /** HMAC key for fingerprints and cursors. */
  readonly serverKey: Uint8Array
  readonly keyIssuer: KeyIssuer
  readonly authenticator: Authenticator
  readonly consumers: ConsumerAuthenticator
}

/** @throws ConfigError the database cannot be opened. @throws SealError the master key is not that of the database. */
export async function openPlatformStore(options: PlatformStoreOptions): Promise<PlatformStore> {
  const db = await openDatabase(options.databaseUrl, { connections: options.connections })
  try {
    return await equipStore(db, options)
  } catch (error) {
    await db.close()
    throw error
  }
}

/** A store on a database that is open already. Close it with `db.close()`. */
export async function equipStore(
  db: Database,
  { masterKey, issuer }: Pick<PlatformStoreOptions, 'masterKey' | 'issuer'>,
): Promise<PlatformStore> {
  const signingKeys = await SigningKeys.load(db, masterKey)
  const serverKey = await loadServerKey(db, masterKey)
  const keyIssuer: KeyIssuer = { db, signingKeys, issuer }
  const authenticator = new Authenticator(keyIssuer)
  const consumers = new ConsumerAuthenticator(keyIssuer)
  return { db, dataKeys: new DataKeys(db, masterKey), serverKey, keyIssuer, authenticator, consumers }
}
