import { existsSync, linkSync, renameSync } from 'node:fs'
import path from 'node:path'
import { ConfigError } from '@bureau/protocol'
import type { PlatformConfig } from '../config.ts'
import type { Database } from '../db/database.ts'
import { startError } from '../start-error.ts'
import { loadMasterKeyFile } from '../security/master-key.ts'
import { rewrapKeys } from './rewrap-keys.ts'

type Rotation = {
  /** How many keys are now wrapped with the new master key and were not before. */
  readonly wrapped: number
  /** Where the old master key lies now. Undefined: the new one is in the environment, and no file has changed. */
  readonly oldKeyFile: string | undefined
}

/**
 * Replaces the master key of a database that no process serves: by `PLATFORM_NEW_MASTER_KEY`, or by a new one in the
 * file. Killed at any moment, it is simply called again.
 *
 * @param open Opens the records; they are closed here.
 * @throws ConfigError there is no key to replace, or none to put in its place.
 * @throws StartError the key is not that of the database, processes use the database or the data folder, or a file cannot be written.
 */
export async function rotateMasterKey(config: PlatformConfig, open: () => Promise<Database>): Promise<Rotation> {
  try {
    return await rotate(config, open)
  } catch (error) {
    throw startError(error, config)
  }
}

async function rotate(config: PlatformConfig, open: () => Promise<Database>): Promise<Rotation> {
  const { masterKey, newMasterKey } = config
  const file = path.join(config.dataFolder, 'master.key')
  const newFile = `${file}.new`
  if (masterKey === undefined && !existsSync(file)) throw new ConfigError(`There is no master key: ${file} is missing.`)
  if (masterKey !== undefined && newMasterKey === undefined) {
    throw new ConfigError('PLATFORM_NEW_MASTER_KEY: set 32 bytes, e.g. of `openssl rand -hex 32`.')
  }
  const from = masterKey ?? loadMasterKeyFile(file)
  if (newMasterKey !== undefined && Buffer.compare(from, newMasterKey) === 0) {
    throw new ConfigError('PLATFORM_NEW_MASTER_KEY: this is the master key that is in use.')
  }
  const db = await open()
  let wrapped: number
  try {
    // On the disk before anything is wrapped with it; after a kill it is found here again.
    wrapped = await rewrapKeys(db, { from, to: () => newMasterKey ?? loadMasterKeyFile(newFile) })
  } finally {
    await db.close()
  }
  if (newMasterKey !== undefined) return { wrapped, oldKeyFile: undefined }
  const oldKeyFile = `${file}.until-${new Date().toISOString().replaceAll(':', '')}`
  linkSync(file, oldKeyFile)
  renameSync(newFile, file)
  return { wrapped, oldKeyFile }
}
