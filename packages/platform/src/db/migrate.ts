import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { ConfigError } from '@bureau/protocol'
import { sql } from 'drizzle-orm'
import type { Session as Connection } from './transaction.ts'

type Session = Pick<Connection, 'tx' | 'exec'>

type Migration = { readonly version: number; readonly name: string; readonly text: string; readonly checksum: string }

/** Both `src/db` and `dist/db` lie two levels below the package, beside `migrations`. */
const FOLDER = new URL('../../migrations/', import.meta.url)

/** Serialises processes that start at the same time on an empty database. */
const LOCK = 727_001

/**
 * Brings the schema up to date: every shipped migration that is missing, in order, each in its own transaction.
 *
 * @throws ConfigError the database is newer than this program, or an applied migration differs from the shipped one.
 */
export async function migrate(session: Session): Promise<void> {
  const shipped = await readMigrations()
  await inTransaction(session, async () => {
    await session.exec(
      'CREATE TABLE IF NOT EXISTS schema_migrations (version integer PRIMARY KEY, name text NOT NULL, ' +
        'checksum bytea NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())',
    )
    requireKnown(shipped, await appliedMigrations(session))
  })
  for (const migration of shipped) await inTransaction(session, () => apply(session, migration))
}

async function apply(session: Session, migration: Migration): Promise<void> {
  const applied = await appliedMigrations(session)
  if (applied.has(migration.version)) return
  await session.exec(migration.text)
  await session.tx.execute(sql`INSERT INTO schema_migrations (version, name, checksum)
    VALUES (${migration.version}, ${migration.name}, decode(${migration.checksum}, 'hex'))`)
}

/** Without the time limits that a role may have: they are meant for requests, and a migration that they end never succeeds. */
async function inTransaction(session: Session, work: () => Promise<void>): Promise<void> {
  const unlimited = 'SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0'
  await session.exec(`BEGIN; ${unlimited}; SELECT pg_advisory_xact_lock(${LOCK})`)
  try {
    await work()
  } catch (error) {
    await session.exec('ROLLBACK').catch(() => {}) // the connection may be lost, as `error` says
    throw error
  }
  await session.exec('COMMIT')
}

async function appliedMigrations(session: Session): Promise<Map<number, string>> {
  const { rows } = await session.tx.execute<{ version: number; checksum: string }>(
    sql`SELECT version, encode(checksum, 'hex') AS checksum FROM schema_migrations ORDER BY version`,
  )
  return new Map(rows.map((row) => [row.version, row.checksum]))
}

function requireKnown(shipped: readonly Migration[], applied: ReadonlyMap<number, string>): void {
  for (const [version, checksum] of applied) {
    const known = shipped.find((migration) => migration.version === version)
    if (!known) throw new ConfigError(`The database has schema version ${version}, newer than this program.`)
    if (known.checksum !== checksum) {
      throw new ConfigError(`The applied migration ${known.name} differs from the one of this program.`)
    }
  }
}

/** Files are called `<number>-<name>.sql`; no number comes twice. */
async function readMigrations(): Promise<Migration[]> {
  const files = (await readdir(FOLDER)).filter((file) => file.endsWith('.sql')).toSorted()
  const numbers = new Set(files.map((file) => Number(file.slice(0, 4))))
  if (numbers.size !== files.length) throw new Error('two migrations have the same number')
  return Promise.all(
    files.map(async (file) => {
      const text = (await readFile(new URL(file, FOLDER), 'utf8')).replaceAll('\r\n', '\n')
      const version = Number(file.slice(0, 4))
      return { version, name: file.slice(0, -4), text, checksum: createHash('sha256').update(text).digest('hex') }
    }),
  )
}
