import { constants, existsSync, statSync } from 'node:fs'
import { access } from 'node:fs/promises'
import { ConfigError } from '@bureau/protocol'
import { checkRole, hasRecords } from './check-role.ts'
import { connectPostgres } from './connect-postgres.ts'
import { checkFolderFormat, nearestFolder, recordsFolder } from './folder-format.ts'
import { lockFolder } from './lock-folder.ts'

/** What a database server says of itself; nothing for the embedded database. */
type DatabaseProbe = {
  readonly version?: string
  /** How far its clock is ahead of this machine's, in milliseconds. */
  readonly clockAheadMs?: number
}

const ANSWER_MS = 5_000

/**
 * Looks whether the database behind a URL (as `openDatabase` takes it) could be opened, and changes nothing in it.
 *
 * @throws ConfigError the folder is not readable by this version; StartError it is in use, the server cannot be
 *   reached, or the role may not see the records.
 */
export async function probeDatabase(url: string): Promise<DatabaseProbe> {
  if (/^postgres(ql)?:\/\//.test(url)) return probePostgres(url)
  const folder = url.slice('pglite:'.length)
  if (folder === '') return {}
  const nearest = nearestFolder(folder)
  if (!statSync(nearest).isDirectory()) throw new ConfigError(`BUREAU_DATA: ${nearest} is a file, not a folder.`)
  await access(nearest, constants.W_OK)
  checkFolderFormat(folder)
  if (existsSync(recordsFolder(folder))) lockFolder(folder)()
  return {}
}

async function probePostgres(url: string): Promise<DatabaseProbe> {
  const client = await connectPostgres(url, { connectionTimeoutMillis: ANSWER_MS, query_timeout: ANSWER_MS })
  try {
    if (await hasRecords(client)) await checkRole(client)
    const askedAt = Date.now()
    const { rows } = await client.query<{ version: string; at: number }>(
      "SELECT current_setting('server_version') AS version, extract(epoch FROM clock_timestamp())::float8 * 1000 AS at",
    )
    const { version, at } = rows[0]!
    return { version, clockAheadMs: Math.round(at - (askedAt + Date.now()) / 2) }
  } finally {
    await client.end()
  }
}
