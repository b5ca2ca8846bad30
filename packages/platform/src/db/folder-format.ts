import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { ConfigError } from '@bureau/protocol'
import { z } from 'zod'

/** The PostgreSQL inside the pinned PGlite. Its files cannot be opened by another major version. */
export const EMBEDDED_POSTGRES = 18

const FolderFormat = z.object({ engine: z.literal('pglite'), postgres: z.number().int() })

/** Where the embedded database keeps its files below the data folder. */
export const recordsFolder = (folder: string): string => join(folder, 'records')

/** The folder itself, or the one above in which it would be made. */
export function nearestFolder(folder: string): string {
  return existsSync(folder) ? folder : nearestFolder(dirname(resolve(folder)))
}

/**
 * Checks that this version can open what lies in a data folder.
 *
 * @throws ConfigError the folder was made by another engine version, or holds something else.
 */
export function checkFolderFormat(folder: string): void {
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
