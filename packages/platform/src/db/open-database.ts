import { existsSync } from 'node:fs'
import { ConfigError, StartError } from '@bureau/protocol'
import { drizzle } from 'drizzle-orm/node-postgres'
import { checkRole, hasRecords } from './check-role.ts'
import { connectPostgres, refusedBy } from './connect-postgres.ts'
import { driverError } from './database-error.ts'
import { PgliteDatabase } from './database.pglite.ts'
import { PostgresDatabase } from './database.postgres.ts'
import type { Database } from './database.ts'
import { recordsFolder } from './folder-format.ts'
import { migrate } from './migrate.ts'
import { isPooled } from './postgres-url.ts'
import { DRIZZLE } from './transaction.ts'

type OpenOptions = { readonly connections?: number | undefined; readonly mustExist?: boolean }

/**
 * Opens the records of the platform and brings their schema up to date.
 *
 * @param url `pglite:<folder>` for one process on one machine, `pglite:` for a database in memory (gone with the
 *   process), `postgres://...` for several processes. `?pgbouncer=true` says that a pooler in between hands connections
 *   on after each transaction.
 * @param options.connections Of this process to a PostgreSQL server. Default 10, behind a pooler 5.
 * @param options.mustExist For commands that have nothing to do where no platform has been: makes neither a folder nor tables.
 * @throws ConfigError the URL is of another kind, the database is newer than this program, or holds no records although it must.
 * @throws StartError the folder is in use, it or the server cannot be used, or the role may not do what is needed.
 */
export async function openDatabase(
  url: string,
  { connections, mustExist = false }: OpenOptions = {},
): Promise<Database> {
  if (/^postgres(ql)?:\/\//.test(url)) {
    await migratePostgres(url, mustExist)
    return new PostgresDatabase({
      url,
      keepStatements: !isPooled(url),
      ...(connections !== undefined && { poolSize: connections }),
    })
  }
  if (!url.startsWith('pglite:')) throw new ConfigError('The database URL must begin with pglite: or postgres://')
  const folder = url.slice('pglite:'.length)
  if (mustExist && folder !== '' && !existsSync(recordsFolder(folder)))
    throw new ConfigError(`There is no database in ${folder}. BUREAU_DATA must name the data folder of the platform.`)
  return PgliteDatabase.open(folder === '' ? {} : { folder })
}

/** A server that does not answer at all keeps whoever starts the platform waiting no longer. */
const CONNECT_MS = 10_000

/** On a connection of its own: a migration may take longer than any request. */
async function migratePostgres(url: string, mustExist: boolean): Promise<void> {
  const client = await connectPostgres(url, { connectionTimeoutMillis: CONNECT_MS })
  try {
    if (mustExist && !(await hasRecords(client)))
      throw new ConfigError('DATABASE_URL: this database is empty. It must name the database of the platform.')
    const exec = async (statements: string): Promise<string> => (await client.query(statements)).command
    await migrate({ tx: drizzle(client, DRIZZLE), exec })
    await checkRole(client)
  } catch (cause) {
    if (cause instanceof ConfigError || cause instanceof StartError) throw cause
    throw refusedBy(client, driverError(cause))
  } finally {
    await client.end().catch(() => {})
  }
}
