import { createReadStream, createWriteStream, existsSync } from 'node:fs'
import { mkdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import v8 from 'node:v8'
import { createZstdDecompress } from 'node:zlib'
import { PGlite } from '@electric-sql/pglite'
import { packTar, unpackTar } from 'modern-tar/fs'
import type { WorkerSetup } from './worker-messages.ts'

/** A new database with all migrations, made when the package is built; running from its sources there is none. */
const PREPARED = new URL('records.tar.zst', import.meta.url)

const OPTIONS = {
  // The engine's own values suit a server: they keep 60 MB more, and nothing of ours is measurably faster with them.
  startParams: [
    ...PGlite.defaultStartParams,
    ...['shared_buffers=8MB', 'wal_buffers=256kB', 'max_connections=4'].flatMap((setting) => ['-c', setting]),
  ],
}

/** The engine on the folder of `setup`, which it makes when there is none: from a copy, or from the prepared one. */
export async function openEngine({ recordsFolder, restoreFrom }: WorkerSetup): Promise<PGlite> {
  if (recordsFolder === undefined) return openInMemory(restoreFrom)
  if (!existsSync(recordsFolder)) await makeFolder(recordsFolder, restoreFrom)
  return compileLightly(() => PGlite.create({ ...OPTIONS, dataDir: recordsFolder }))
}

async function openInMemory(restoreFrom: string | undefined): Promise<PGlite> {
  const image = restoreFrom === undefined ? {} : { loadDataDir: new Blob([await readFile(restoreFrom)]) }
  return compileLightly(() => PGlite.create({ ...OPTIONS, dataDir: 'memory://', ...image }))
}

/** A first start that was killed half-way must not leave something that looks like a database. */
async function makeFolder(recordsFolder: string, restoreFrom: string | undefined): Promise<void> {
  const unfinished = `${recordsFolder}.new`
  await rm(unfinished, { recursive: true, force: true })
  await mkdir(unfinished, { mode: 0o700 }) // the files that the engine makes in it are for everybody
  if (restoreFrom !== undefined) await unpack(createReadStream(restoreFrom), unfinished)
  else if (existsSync(PREPARED)) await unpack(createReadStream(PREPARED).pipe(createZstdDecompress()), unfinished)
  else await (await compileLightly(() => PGlite.create({ ...OPTIONS, dataDir: unfinished }))).close()
  await rename(unfinished, recordsFolder)
}

async function unpack(tar: Readable, folder: string): Promise<void> {
  const reader = unpackTar(folder, {
    strict: true, // a copy that was cut off is none
    map: (header) => ({ ...header, name: header.name.replace(/^\//, '') }),
  })
  await pipeline(tar, reader)
  // In a folder without these the engine would make a new database.
  const missing = ['PG_VERSION', 'global/pg_control'].find((file) => !existsSync(join(folder, file)))
  if (missing !== undefined) throw new Error(`the copy has no ${missing}`)
}

/** Writes a copy of the database to `file`, as of the last transaction. `restoreFrom` takes it. */
export async function copyRecords(pglite: PGlite, recordsFolder: string | undefined, file: string): Promise<void> {
  await pglite.exec('CHECKPOINT')
  const copy = recordsFolder === undefined ? (await pglite.dumpDataDir('none')).stream() : packFolder(recordsFolder)
  await pipeline(copy, createWriteStream(file, { mode: 0o600, flush: true }))
}

/** With the names that the engine itself gives them, so that either can read what the other wrote. */
const packFolder = (folder: string): Readable =>
  packTar(folder, {
    filter: (name) => !name.endsWith('postmaster.pid'),
    map: (header) => ({ ...header, name: `/${header.name}` }),
  })

/**
 * Opens the engine without V8's optimizing compiler for WebAssembly, which takes 500 MB for some seconds to save a tenth of
 * what small transactions cost. Code that is compiled later, such as undici's parser, is optimized as ever.
 */
async function compileLightly(create: () => Promise<PGlite>): Promise<PGlite> {
  for (const flag of TIERS) v8.setFlagsFromString(`--no-${flag}`)
  try {
    return await create()
  } finally {
    for (const flag of TIERS) v8.setFlagsFromString(`--${flag}`)
  }
}

const TIERS = ['wasm-tier-up', 'wasm-dynamic-tiering']
