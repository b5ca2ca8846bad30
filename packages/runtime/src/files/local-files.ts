import { constants } from 'node:fs'
import { access, readlink, realpath, stat, type FileHandle } from 'node:fs/promises'
import { homedir } from 'node:os'
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path'
import type { ByteBudget } from '../egress/byte-budget.ts'
import { AttachmentError, shown } from './attachment-error.ts'
import { classifySource } from './classify-source.ts'
import { openRegularFile, UnsafeFileError } from './open-regular-file.ts'

const CHUNK_BYTES = 256 * 1024
// Linux's PATH_MAX; no system opens more.
const MAX_PATH_LENGTH = 4096

/** The configured directories that can be used right now, with `~` and links resolved. */
export async function usableDirectories(entries: readonly string[]): Promise<string[]> {
  const inspected = await Promise.all(entries.map(inspectDirectory))
  return [...new Set(inspected.flatMap((entry) => (typeof entry === 'object' ? [entry.path] : [])))]
}

/**
 * Opens a file that a request names, if it lies in one of the configured directories.
 *
 * The directories are looked at each time: missing ones are skipped, anything else than a directory is an error. Being
 * inside is decided before existence is, so that paths outside reveal nothing, and it is decided again for the open
 * descriptor, which is the only thing that is read. Hard links are not detected: whoever can place one in an allowed
 * directory can also place a copy.
 *
 * @throws AttachmentError with one of the `local_...` problems.
 */
export async function openLocalFile(source: string, entries: readonly string[] = []): Promise<LocalFile> {
  const directories = await requireDirectories(entries)
  const classified = classifySource(source)
  const path = classified.place === 'local' ? classified.path : source
  const notAllowed = new AttachmentError('local_not_allowed', `Local file not in allowed directories: ${shown(source)}`)
  if (!isAbsolute(path) || path.includes('\0') || path.length > MAX_PATH_LENGTH) throw notAllowed
  const realPath = await resolveLinks(path)
  if (!directories.some((directory) => isInside(realPath, directory))) throw notAllowed
  try {
    const { handle, stats } = await openRegularFile(realPath)
    return new LocalFile(handle, { name: basename(path), sizeBytes: stats.size })
  } catch (error) {
    throw asAttachmentError(error, source, notAllowed)
  }
}

/** A file of this machine, open for reading. Must be closed. */
export class LocalFile {
  readonly name: string
  readonly sizeBytes: number
  readonly #handle: FileHandle

  constructor(handle: FileHandle, { name, sizeBytes }: { name: string; sizeBytes: number }) {
    this.#handle = handle
    this.name = name
    this.sizeBytes = sizeBytes
  }

  /**
   * The whole content, once. Counts what is read, because a file can grow.
   *
   * @throws AttachmentError `too_large`, above `maxBytes` or the budget.
   */
  async read(limits: { maxBytes: number; budget?: ByteBudget; signal?: AbortSignal }): Promise<Uint8Array> {
    const chunks: Uint8Array[] = []
    let sizeBytes = 0
    for (;;) {
      limits.signal?.throwIfAborted()
      const { bytesRead, buffer } = await this.#handle.read({ buffer: Buffer.allocUnsafe(CHUNK_BYTES) })
      if (bytesRead === 0) return Buffer.concat(chunks)
      sizeBytes += bytesRead
      if (sizeBytes > limits.maxBytes || limits.budget?.take(bytesRead) === false) {
        throw new AttachmentError('too_large', `File is too large: ${shown(this.name)}`)
      }
      chunks.push(buffer.subarray(0, bytesRead))
    }
  }

  async close(): Promise<void> {
    await this.#handle.close()
  }
}

type InspectedEntry = { readonly path: string } | 'missing' | 'not_a_directory'

async function inspectDirectory(entry: string): Promise<InspectedEntry> {
  try {
    const path = await realpath(resolve(expandHome(entry)))
    if (!(await stat(path)).isDirectory()) return 'not_a_directory'
    await access(path, constants.R_OK | constants.X_OK)
    return { path }
  } catch {
    return 'missing'
  }
}

async function requireDirectories(entries: readonly string[]): Promise<string[]> {
  const directories: string[] = []
  for (const entry of entries) {
    const inspected = await inspectDirectory(entry)
    if (inspected === 'not_a_directory') {
      throw new AttachmentError('local_directory_invalid', `Allowed path must be a directory: ${shown(entry)}`)
    }
    if (inspected !== 'missing') directories.push(inspected.path)
  }
  if (directories.length === 0) {
    throw new AttachmentError('local_disabled', 'Local file access is disabled for this server.')
  }
  return directories
}

function expandHome(entry: string): string {
  return entry.replace(/^~(?=$|[\\/])/, () => homedir())
}

/**
 * Resolves links and `..` like `realpath`, also where the path (or a link's target) does not exist.
 *
 * Without this a path outside would be told apart by whether it exists.
 */
async function resolveLinks(path: string, linksLeft = 40): Promise<string> {
  const real = await realpath(path).catch(() => undefined)
  const parent = dirname(path)
  if (real !== undefined || parent === path) return real ?? path
  const candidate = join(await resolveLinks(parent, linksLeft), basename(path))
  const target = await readlink(candidate).catch(() => undefined)
  return target === undefined || linksLeft === 0
    ? candidate
    : resolveLinks(resolve(dirname(candidate), target), linksLeft - 1)
}

function isInside(path: string, directory: string): boolean {
  const way = relative(directory, path)
  return way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way)
}

function asAttachmentError(error: unknown, source: string, notAllowed: AttachmentError): unknown {
  if (error instanceof UnsafeFileError) {
    if (error.problem === 'linked') return notAllowed
    return new AttachmentError('local_not_a_file', `Local path must be a file: ${shown(source)}`, { cause: error })
  }
  const { code } = error as NodeJS.ErrnoException
  if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ENAMETOOLONG') {
    return new AttachmentError('local_not_found', `Local file not found: ${shown(source)}`, { cause: error })
  }
  return new AttachmentError('local_unreadable', `Local file cannot be read: ${shown(source)}`, { cause: error })
}
