/**
 * Writes a new embedded database, with all migrations applied, to a file that the published platform begins with.
 *
 * `node scripts/prepare-records.ts <file>`, with the built packages.
 */
import { createReadStream, createWriteStream, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { constants, createZstdCompress } from 'node:zlib'
import { backupDatabase, openDatabase } from '@bureau/platform'

const [file] = process.argv.slice(2)
if (file === undefined) throw new Error('Say which file to write.')

const folder = mkdtempSync(path.join(tmpdir(), 'bureau-records-'))
const tar = path.join(folder, 'records.tar')
try {
  const db = await openDatabase(`pglite:${path.join(folder, 'data')}`)
  await backupDatabase(db, tar)
  await db.close()
  const compress = createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: 19 } })
  await pipeline(createReadStream(tar), compress, createWriteStream(file))
} finally {
  rmSync(folder, { recursive: true })
}
