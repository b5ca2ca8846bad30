import { constants, type Stats } from 'node:fs'
import { lstat, open, readlink, realpath, type FileHandle } from 'node:fs/promises'

/** A path that leads over a link, or to something that is not a regular file. */
export class UnsafeFileError extends Error {
  override readonly name = 'UnsafeFileError'
  readonly problem: 'linked' | 'not_regular'

  constructor(problem: 'linked' | 'not_regular', path: string) {
    super(`${path} is ${problem === 'linked' ? 'reached over a link' : 'not a regular file'}`)
    this.problem = problem
  }
}

// Windows knows neither flag. O_NONBLOCK: opening a named pipe must not wait for a writer.
const READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0)

/**
 * Opens a regular file for reading, without following a link anywhere in its path.
 *
 * What is checked is the open descriptor, so that swapping the file or a directory for a link in between is noticed.
 *
 * @param path - Absolute, and without links, as `realpath` returns it.
 * @throws UnsafeFileError, or the system's error when the file is missing or not readable.
 */
export async function openRegularFile(path: string): Promise<{ handle: FileHandle; stats: Stats }> {
  // Looked at first, because merely opening a device can have effects.
  const entry = await lstat(path)
  if (!entry.isFile()) throw new UnsafeFileError(entry.isSymbolicLink() ? 'linked' : 'not_regular', path)
  const handle = await openWithoutLinks(path)
  try {
    const stats = await handle.stat()
    if (!stats.isFile()) throw new UnsafeFileError('not_regular', path)
    if (!(await isDescriptorOf(handle, path))) throw new UnsafeFileError('linked', path)
    return { handle, stats }
  } catch (error) {
    await handle.close()
    throw error
  }
}

/** Whether the descriptor is open on exactly this path. Asks the kernel where it tells, and compares files elsewhere. */
export async function isDescriptorOf(handle: FileHandle, path: string): Promise<boolean> {
  const actual = await readlink(`/proc/self/fd/${handle.fd}`).catch(() => undefined)
  return actual === undefined ? isFileAt(handle, path) : actual === path
}

/** The portable answer: the path is without links and names the same file as the descriptor. */
export async function isFileAt(handle: FileHandle, path: string): Promise<boolean> {
  const opened = await handle.stat({ bigint: true })
  const named = await lstat(path, { bigint: true }).catch(() => undefined)
  if (named?.dev !== opened.dev || named.ino !== opened.ino) return false
  return (await realpath(path).catch(() => undefined)) === path
}

async function openWithoutLinks(path: string): Promise<FileHandle> {
  try {
    return await open(path, READ_FLAGS)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ELOOP') throw new UnsafeFileError('linked', path)
    throw error
  }
}
