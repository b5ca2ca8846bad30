import { existsSync } from 'node:fs'
import { ConfigError } from '@bureau/protocol'
import { PgliteDatabase } from './database.pglite.ts'
import type { Database } from './database.ts'

/**
 * Writes a complete copy of an embedded database to one file. The file appears only when it is complete.
 *
 * The embedded database survives a killed process, not a power cut (it does not wait for the disk), so copies matter.
 * Secrets in the copy are sealed with the master key, which the copy does not contain: keep both.
 *
 * @throws ConfigError the database is a PostgreSQL server: use its own tools.
 */
export async function backupDatabase(db: Database, file: string): Promise<void> {
  if (!(db instanceof PgliteDatabase)) throw new ConfigError('Back up a PostgreSQL server with pg_dump.')
  await db.backup(file)
}

/** Fills a new data folder from a file that `backupDatabase` wrote. @throws ConfigError the folder holds a database. */
export async function restoreDatabase(file: string, folder: string): Promise<void> {
  if (!existsSync(file)) throw new ConfigError(`There is no file ${file}.`)
  const db = await PgliteDatabase.open({ folder, restoreFrom: file })
  await db.close()
}
