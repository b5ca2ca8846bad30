import { createHash, randomUUID } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import { Client } from 'pg'
import { restoreDatabase } from './backup.ts'
import { unavailable } from './database-error.ts'
import { PgliteDatabase } from './database.pglite.ts'
import type { Database } from './database.ts'
import { openDatabase } from './open-database.ts'
import { systemOperation, tenantOperation } from './operation.ts'

export type Engine = Database['engine']

export const SERVER = process.env['TEST_DATABASE_URL'] ?? 'postgres://root@127.0.0.1:5432/test'

/** The engines that tests run on. PostgreSQL is left out, with a printed reason, when it cannot be reached (never in CI). */
export const ENGINES: readonly Engine[] = (await isReachable()) ? ['pglite', 'postgres'] : ['pglite']

/** Embedded databases that tests have given back: opening one is seconds of work, emptying it a fraction of one. */
const idle: PgliteDatabase[] = []

/**
 * An empty database with the current schema, for one test or file. Give it back with `drop`.
 *
 * @param isNew - Nobody has used it before: it has planned no statement for the tables of others.
 */
export async function openTestDatabase(
  engine: Engine,
  isNew = false,
): Promise<{ db: Database; url: string; drop: () => Promise<void> }> {
  if (engine === 'pglite') {
    const db = (isNew ? undefined : idle.pop()) ?? (await PgliteDatabase.open({ restoreFrom: await preparedDump() }))
    const { lent, takeBack } = lend(db)
    const drop = async (): Promise<void> => {
      takeBack()
      await db.run(emptyTables, undefined)
      idle.push(db)
    }
    return { db: lent, url: 'pglite:', drop }
  }
  const schema = `test_${randomUUID().replaceAll('-', '')}`
  const url = new URL(SERVER)
  url.searchParams.set('options', `-c search_path=${schema}`)
  await onServer(`CREATE SCHEMA ${schema}`)
  const db = await openDatabase(url.href)
  const drop = async (): Promise<void> => {
    await db.close()
    await onServer(`DROP SCHEMA ${schema} CASCADE`)
  }
  return { db, url: url.href, drop }
}

/** The same database until it is taken back. Later queries of its borrower are refused, as by a closed database. */
function lend(db: PgliteDatabase): { lent: PgliteDatabase; takeBack: () => void } {
  let isOver = false
  const lent = new Proxy(db, {
    get: (target, name) => {
      if (isOver && name === 'run') return () => Promise.reject(unavailable('the test is over'))
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
  return { lent, takeBack: () => void (isOver = true) }
}

/** Comes after everything that was asked before. */
export const emptyTables = systemOperation(
  { source: import.meta.url, name: 'emptyTables', lane: 'maintenance' },
  async (tx) => {
    const { rows } = await tx.execute<{ names: string }>(sql`SELECT string_agg(quote_ident(tablename), ', ') AS names
      FROM pg_tables WHERE schemaname = current_schema() AND tablename <> 'schema_migrations'`)
    await tx.execute(sql.raw(`TRUNCATE ${rows[0]!.names} RESTART IDENTITY`))
  },
)

/** Rows of a query of the test itself, seen across owners. */
export const queryRows = systemOperation(
  { source: import.meta.url, name: 'queryRows', lane: 'interactive' },
  async (tx, query: string) => (await tx.execute(sql.raw(query))).rows,
)

/** Rows of a query of the test itself, under the row level security of one owner. */
export const queryRowsAs = tenantOperation(
  { source: import.meta.url, name: 'queryRowsAs', lane: 'interactive' },
  async (tx, args: { ownerId: string; query: string }) => (await tx.execute(sql.raw(args.query))).rows,
)

/** Starting PGlite takes seconds, loading a copy of a started one a fraction: made once per schema and version. */
export function preparedDump(): Promise<string> {
  return prepared('records.tar', async (file) => {
    const db = await PgliteDatabase.open({})
    await db.backup(file)
    await db.close()
  })
}

/** A data folder that holds a new database and nothing else, to be copied: processes that begin with one start sooner. */
export function preparedFolder(): Promise<string> {
  return prepared('data', async (folder) => restoreDatabase(await preparedDump(), folder))
}

/** What `make` has put at the path that it was given, or did so earlier for the same schema and version. */
async function prepared(name: string, make: (file: string) => Promise<void>): Promise<string> {
  const folder = new URL('../../migrations/', import.meta.url)
  const hash = createHash('sha256').update(readFileSync(new URL(import.meta.resolve('@electric-sql/pglite'))))
  for (const file of readdirSync(folder).toSorted()) hash.update(readFileSync(new URL(file, folder)))
  const file = join(tmpdir(), `bureau-test-${hash.digest('hex').slice(0, 16)}-${name}`)
  if (!existsSync(file)) {
    const own = `${file}.${randomUUID()}`
    await make(own)
    if (existsSync(file)) rmSync(own, { recursive: true }) // another process was faster
    else renameSync(own, file)
  }
  return file
}

async function onServer(statement: string): Promise<void> {
  const client = new Client({ connectionString: SERVER, connectionTimeoutMillis: 2_000 })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

async function isReachable(): Promise<boolean> {
  try {
    await onServer('SELECT 1')
    return true
  } catch (error) {
    if (process.env['CI']) throw error
    console.warn(`PostgreSQL is not reachable (${String(error)}): its tests are skipped.`)
    return false
  }
}
