import { randomUUID } from 'node:crypto'
import type { Dirent } from 'node:fs'
import { lstat, open, readdir, realpath, rename, rm, stat, unlink } from 'node:fs/promises'
import { basename, dirname, join, sep } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { makeFolder } from '@bureau/framework'
import { ConfigError, ServiceError } from '@bureau/protocol'
import { CheckedBody } from './checked-body.ts'
import { isFileName, requireFileName } from './file-name.ts'
import type { FileStore, OpenedFile, PutOptions, StoredFile } from './file-store.ts'
import type { FileStores } from './file-stores.ts'
import { HeldDirectory, ignore } from './held-directory.ts'
import { openRegularFile, UnsafeFileError } from './open-regular-file.ts'

type LocalFileStoreOptions = {
  /** Where the files are. Created when missing. */
  readonly directory: string
  /** Where files are written before they get their name: outside `directory`, on the same file system. */
  readonly stagingDirectory: string
  /** Where the system shows open descriptors as paths; null when nowhere. Default: `/proc/self/fd` if it exists. */
  readonly descriptors?: string | null
}

/** The stores of a folder: each area is a folder in it, beside `staging`. */
export function localFileStores(folder: string): FileStores {
  const stagingDirectory = join(folder, 'staging')
  return {
    open: (area) => openLocalFileStore({ directory: join(folder, area), stagingDirectory }),
    removeLeftovers: (before) => removeStagedFiles(stagingDirectory, before),
    close: () => {},
  }
}

/**
 * Opens a store on a local disk.
 *
 * @throws ConfigError when the two directories do not fit together.
 */
export async function openLocalFileStore(options: LocalFileStoreOptions): Promise<LocalFileStore> {
  makeFolder(options.directory)
  makeFolder(options.stagingDirectory)
  const directory = await realpath(options.directory)
  const stagingDirectory = await realpath(options.stagingDirectory)
  if (`${stagingDirectory}${sep}`.startsWith(`${directory}${sep}`)) {
    throw new ConfigError(`The staging directory ${stagingDirectory} must not lie in the store ${directory}.`)
  }
  if ((await stat(directory)).dev !== (await stat(stagingDirectory)).dev) {
    throw new ConfigError(`The staging directory ${stagingDirectory} must be on the file system of ${directory}.`)
  }
  return new LocalFileStore({ ...options, directory, stagingDirectory })
}

/**
 * Embedded: a directory. Others may write to it too, e.g. a sandbox that mounts it, and may place links at any time.
 *
 * Files that are reached over a symbolic link, have a second hard link or are not regular are treated as missing.
 */
export class LocalFileStore implements FileStore {
  readonly #options: LocalFileStoreOptions

  /** Paths must be real. Use {@link openLocalFileStore}. */
  constructor(options: LocalFileStoreOptions) {
    this.#options = options
  }

  async put(
    name: string,
    body: AsyncIterable<Uint8Array>,
    options: PutOptions,
  ): Promise<StoredFile & { sha256: string }> {
    requireFileName(name)
    const path = join(this.#options.stagingDirectory, `${randomUUID()}.part`)
    try {
      const checked = new CheckedBody(body, options)
      const file = await open(path, 'wx', 0o600)
      await pipeline(checked, file.createWriteStream({ flush: true }))
      const { mtimeMs } = await stat(path)
      await this.#publish(path, name)
      return { name, sizeBytes: checked.sizeBytes, sha256: checked.sha256, modifiedAt: Math.trunc(mtimeMs) }
    } catch (error) {
      await rm(path, { force: true })
      throw error
    }
  }

  async open(name: string): Promise<OpenedFile | undefined> {
    const opened = await this.#openFile(name)
    if (!opened) return undefined
    const { handle, file } = opened
    if (file.sizeBytes > 0) return { ...file, stream: handle.createReadStream({ end: file.sizeBytes - 1 }) }
    await handle.close()
    return { ...file, stream: Readable.from([]) }
  }

  async stat(name: string): Promise<StoredFile | undefined> {
    const opened = await this.#openFile(name)
    await opened?.handle.close()
    return opened?.file
  }

  async delete(...names: readonly string[]): Promise<void> {
    names.forEach(requireFileName)
    for (const name of names) await this.#delete(name)
  }

  async #delete(name: string): Promise<void> {
    await using parent = await this.#openDirectory(parentsOf(name))
    if (!parent || (await parent.isDirectory(basename(name)))) return
    await unlink(parent.at(basename(name))).catch(ignore('ENOENT'))
  }

  async *list(prefix = '', after = ''): AsyncGenerator<StoredFile> {
    await using root = await this.#openDirectory([])
    if (root) yield* listDirectory(root, '', { prefix, after })
  }

  async #openFile(name: string) {
    requireFileName(name)
    try {
      const { handle, stats } = await openRegularFile(join(this.#options.directory, ...name.split('/')))
      const file: StoredFile = { name, sizeBytes: stats.size, modifiedAt: Math.trunc(stats.mtimeMs) }
      if (stats.nlink === 1) return { handle, file }
      await handle.close()
      return undefined
    } catch (error) {
      if (error instanceof UnsafeFileError) return undefined
      return ignore('ENOENT', 'ENOTDIR')(error as NodeJS.ErrnoException)
    }
  }

  async #publish(stagedPath: string, name: string): Promise<void> {
    await using parent = await this.#openDirectory(parentsOf(name), 'create')
    // A link, a file or a folder is in the way.
    if (!parent || (await parent.isDirectory(basename(name)))) throw new ServiceError('invalid_file_name')
    await rename(stagedPath, parent.at(basename(name)))
    await parent.sync()
  }

  /** Walks down one directory at a time; undefined when a part of the way is missing or no real directory. */
  async #openDirectory(segments: readonly string[], missing?: 'create'): Promise<HeldDirectory | undefined> {
    let held = await HeldDirectory.open(this.#options.directory, this.#options.descriptors)
    for (const segment of segments) {
      await using parent = held
      if (missing === 'create') await parent.create(segment)
      const child = await parent.enter(segment)
      if (!child) return undefined
      held = child
    }
    return held
  }
}

function parentsOf(name: string): string[] {
  return dirname(name) === '.' ? [] : dirname(name).split('/')
}

type Wanted = { readonly prefix: string; readonly after: string }

/** Looks only at what can be listed: whoever lists page by page asks for the rest of a large store again and again. */
async function* listDirectory(directory: HeldDirectory, path: string, wanted: Wanted): AsyncGenerator<StoredFile> {
  const entries = await readdir(directory.at('.'), { withFileTypes: true })
  for (const entry of entries.toSorted(byStoredName)) {
    const name = path + entry.name
    if (!isFileName(name)) continue
    if (entry.isDirectory() && mayHoldWanted(`${name}/`, wanted)) {
      await using child = await directory.enter(entry.name)
      if (child) yield* listDirectory(child, `${name}/`, wanted)
    } else if (entry.isFile() && name.startsWith(wanted.prefix) && isBehind(name, wanted.after)) {
      const stats = await lstat(directory.at(entry.name)).catch(ignore('ENOENT'))
      if (!stats?.isFile() || stats.nlink !== 1) continue
      yield { name, sizeBytes: stats.size, modifiedAt: Math.trunc(stats.mtimeMs) }
    }
  }
}

function mayHoldWanted(folder: string, { prefix, after }: Wanted): boolean {
  const fits = folder.startsWith(prefix) || prefix.startsWith(folder)
  return fits && (after.startsWith(folder) || isBehind(folder, after))
}

function isBehind(name: string, after: string): boolean {
  return Buffer.compare(Buffer.from(name), Buffer.from(after)) > 0
}

/** What lies in a directory sorts by its whole name, in which a `/` follows. */
function byStoredName(a: Dirent, b: Dirent): number {
  const [left, right] = [a, b].map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name))
  return Buffer.compare(Buffer.from(left ?? ''), Buffer.from(right ?? ''))
}

async function removeStagedFiles(directory: string, before: number): Promise<void> {
  for (const entry of (await readdir(directory).catch(ignore('ENOENT'))) ?? []) {
    const path = join(directory, entry)
    const stats = entry.endsWith('.part') ? await lstat(path).catch(ignore('ENOENT')) : undefined
    if (stats && stats.mtimeMs < before) await rm(path, { force: true })
  }
}
