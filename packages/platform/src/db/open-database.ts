import { ConfigError, StartError } from '@bureau/protocol'
import { drizzle } from 'drizzle-orm/node-postgres'
import { Client } from 'pg'
import { PgliteDatabase } from './database.pglite.ts'
import { PostgresDatabase } from './database.postgres.ts'
import type { Database } from './database.ts'
import { migrate } from './migrate.ts'
import { DRIZZLE } from './transaction.ts'

/**
 * Opens the records of the platform and brings their schema up to date.
 *
 * @param url `pglite:<folder>` for one process on one machine, `pglite:` for a database in memory (gone with the
 *   process), `postgres://...` for several processes. `?pgbouncer=true` says that a pooler in between hands connections
 *   on after each transaction.
 * @param options.connections Of this process to a PostgreSQL server. Default 10, behind a pooler 5.
 * @throws ConfigError the URL is of another kind, the folder is in use, or the database is newer than this program.
 * @throws StartError the folder or the server cannot be used.
 */
export async function openDatabase(
  url: string,
  { connections }: { readonly connections?: number | undefined } = {},
): Promise<Database> {
  if (/^postgres(ql)?:\/\//.test(url)) {
    await migratePostgres(url)
    const keepStatements = new URL(url).searchParams.get('pgbouncer') !== 'true'
    return new PostgresDatabase({ url, keepStatements, ...(connections !== undefined && { poolSize: connections }) })
  }
  if (!url.startsWith('pglite:')) throw new ConfigError('The database URL must begin with pglite: or postgres://')
  const folder = url.slice('pglite:'.length)
  return PgliteDatabase.open(folder === '' ? {} : { folder })
}

/** On a connection of its own: a migration may take longer than any request. */
async function migratePostgres(url: string): Promise<void> {
  const client = new Client({ connectionString: url })
  client.on('error', () => {}) // the query in progress fails by itself
  await client.connect().catch((error: unknown) => {
    throw new StartError(`DATABASE_URL: PostgreSQL at ${client.host}:${client.port} refuses: ${reasonOf(error)}.`, {
      cause: error,
    })
  })
  try {
    const exec = async (statements: string): Promise<string> => (await client.query(statements)).command
    await migrate({ tx: drizzle(client, DRIZZLE), exec })
  } finally {
    await client.end()
  }
}

/** A name with several addresses fails once for each, and the whole then has no message. */
function reasonOf(error: unknown): string {
  const [first = error] = error instanceof AggregateError ? error.errors : []
  return first instanceof Error ? first.message : String(first)
}
