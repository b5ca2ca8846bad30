import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeFolder } from '@bureau/framework'
import { ConfigError } from '@bureau/protocol'
import { z } from 'zod'

/** The PostgreSQL inside the pinned PGlite. Its files cannot be opened by another major version. */
export const EMBEDDED_POSTGRES = 18

const FolderFormat = z.object({ engine: z.literal('pglite'), postgres: z.number().int() })

/** Where the embedded database keeps its files below the data folder. */
export const recordsFolder = (folder: string): string => join(folder, 'records')

/**
 * For commands that have nothing to do where no platform has been: opening an embedded database would make a new one.
 *
 * @throws ConfigError the folder of the address holds no database.
 */
export function requireRecords(databaseUrl: string): void {
  const [, folder] = /^pglite:(.+)$/.exec(databaseUrl) ?? []
  if (folder === undefined || existsSync(recordsFolder(folder))) return
  throw new ConfigError(`There is no database in ${folder}. BUREAU_DATA must name the data folder of the platform.`)
}

/**
 * Creates the data folder, or checks that this version can open what lies in it.
 *
 * @throws ConfigError the folder was made by another engine version, or holds something else.
 */
export function checkFolderFormat(folder: string): void {
  makeFolder(folder)
  const file = join(folder, 'FORMAT')
  if (!existsSync(file)) {
    if (existsSync(recordsFolder(folder))) throw new ConfigError(`${file} is missing; the data cannot be identified.`)
    return
  }
  const format = FolderFormat.safeParse(readJson(file))
  if (!format.success) throw new ConfigError(`${file} is damaged or of an unknown kind.`)
  if (format.data.postgres !== EMBEDDED_POSTGRES) {
    throw new ConfigError(
      `${folder} was made by an embedded PostgreSQL ${format.data.postgres}; this version has ${EMBEDDED_POSTGRES}. ` +
        'Open it with the version that made it.',
    )
  }
}

/** Marks the folder as one of this version; called before the first file of the database is written. */
export function writeFolderFormat(folder: string): void {
  const file = join(folder, 'FORMAT')
  if (existsSync(file)) return
  const format: z.infer<typeof FolderFormat> = { engine: 'pglite', postgres: EMBEDDED_POSTGRES }
  writeFileSync(`${file}.new`, `${JSON.stringify(format)}\n`)
  renameSync(`${file}.new`, file)
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    return undefined
  }
}
