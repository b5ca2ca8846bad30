import { constants, existsSync } from 'node:fs'
import { lstat, mkdir, open, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { isFileAt } from './open-regular-file.ts'

// Linux shows open descriptors as paths, so that a child can be named relative to a directory that is held open.
const DESCRIPTORS = existsSync('/proc/self/fd') ? '/proc/self/fd' : null
const DIRECTORY_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

/**
 * A directory that is held open, so that nobody can put a link in its place while its entries are used.
 *
 * Where the system does not show descriptors as paths, links are refused when a directory is entered, but a swap
 * right after that goes unnoticed.
 */
export class HeldDirectory {
  readonly #handle: FileHandle
  readonly #path: string
  readonly #descriptors: string | null

  private constructor(handle: FileHandle, path: string, descriptors: string | null) {
    this.#handle = handle
    this.#path = path
    this.#descriptors = descriptors
  }

  /** @param path - Absolute and without links. */
  static async open(path: string, descriptors: string | null = DESCRIPTORS): Promise<HeldDirectory> {
    return new HeldDirectory(await open(path, DIRECTORY_FLAGS), path, descriptors)
  }

  /** The path by which to use an entry. It is valid while the directory is held. */
  at(entry: string): string {
    return this.#descriptors === null ? join(this.#path, entry) : `${this.#descriptors}/${this.#handle.fd}/${entry}`
  }

  /** Enters a subdirectory; undefined when it does not exist, or is a link or a file. */
  async enter(name: string): Promise<HeldDirectory | undefined> {
    const handle = await open(this.at(name), DIRECTORY_FLAGS).catch(ignore('ENOENT', 'ENOTDIR', 'ELOOP'))
    if (!handle) return undefined
    const path = join(this.#path, name)
    if (this.#descriptors !== null || (await isFileAt(handle, path))) {
      return new HeldDirectory(handle, path, this.#descriptors)
    }
    await handle.close()
    return undefined
  }

  /** Creates a subdirectory for this user alone. An existing one is left as it is. */
  async create(name: string): Promise<void> {
    const created = await mkdir(this.at(name), { mode: 0o700 }).then(() => true, ignore('EEXIST'))
    if (created) await this.sync()
  }

  async isDirectory(name: string): Promise<boolean> {
    const stats = await lstat(this.at(name)).catch(ignore('ENOENT'))
    return stats?.isDirectory() ?? false
  }

  /** Makes the names in this directory survive a power cut. */
  async sync(): Promise<void> {
    await this.#handle.sync()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close()
  }
}

/** Turns the named errors of the system into undefined. */
export function ignore(...codes: string[]): (error: NodeJS.ErrnoException) => undefined {
  return (error) => {
    if (!codes.includes(error.code ?? '')) throw error
  }
}
