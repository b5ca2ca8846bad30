import { existsSync } from 'node:fs'
import path from 'node:path'
import { makeFolder } from '@bureau/framework'
import { StartError } from '@bureau/protocol'
import type { PlatformConfig } from './config.ts'
import type { Database } from './db/database.ts'
import { openDatabase } from './db/open-database.ts'
import { Authenticator } from './api-keys/authenticate.ts'
import type { KeyIssuer } from './api-keys/create-api-key.ts'
import { SigningKeys } from './api-keys/signing-keys.ts'
import { ConsumerAuthenticator } from './consumer-tokens/consumer-authenticator.ts'
import { DataKeys } from './owners/data-keys.ts'
import { loadMasterKeyFile } from './security/master-key.ts'
import { listPlatformKeys } from './security/platform-keys.repo.ts'
import { loadServerKey } from './security/server-key.ts'

type StoreConfig = Pick<
  PlatformConfig,
  'databaseUrl' | 'databaseConnections' | 'dataFolder' | 'masterKey' | 'platformId'
>

type StoreKeys = {
  /** 32 bytes. */
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

/**
 * @param options.mustExist See `openDatabase`.
 * @throws ConfigError the database cannot be opened. @throws StartError its master key is missing.
 * @throws SealError the master key is not that of the database.
 */
export async function openPlatformStore(
  config: StoreConfig,
  { mustExist = false }: { readonly mustExist?: boolean } = {},
): Promise<PlatformStore> {
  const db = await openDatabase(config.databaseUrl, { connections: config.databaseConnections, mustExist })
  try {
    const masterKey = config.masterKey ?? (await masterKeyIn(config.dataFolder, db))
    return await equipStore(db, { masterKey, issuer: config.platformId })
  } catch (error) {
    await db.close()
    throw error
  }
}

/** The key in the data folder. A new one is made for a new database alone: it would not open what another one has sealed. */
async function masterKeyIn(dataFolder: string, db: Database): Promise<Uint8Array> {
  const file = path.join(dataFolder, 'master.key')
  if (!existsSync(file) && (await db.run(listPlatformKeys, undefined)).length > 0)
    throw new StartError(
      `The master key of this database is missing: set PLATFORM_MASTER_KEY to it, or put the file ${file} back.`,
    )
  makeFolder(dataFolder)
  return loadMasterKeyFile(file)
}

/** A store on a database that is open already. Close it with `db.close()`. */
export async function equipStore(db: Database, { masterKey, issuer }: StoreKeys): Promise<PlatformStore> {
  const signingKeys = await SigningKeys.load(db, masterKey)
  const serverKey = await loadServerKey(db, masterKey)
  const keyIssuer: KeyIssuer = { db, signingKeys, issuer }
  const authenticator = new Authenticator(keyIssuer)
  const consumers = new ConsumerAuthenticator(keyIssuer)
  return { db, dataKeys: new DataKeys(db, masterKey), serverKey, keyIssuer, authenticator, consumers }
}
