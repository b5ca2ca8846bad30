import type { Readable } from 'node:stream'
import { ServiceError } from '@bureau/protocol'
import type { FileStore, PutOptions, StoredFile } from '@bureau/runtime'
import { nameInMount, pathOf, prefixInMount } from './mount-path.ts'
import type { SandboxFile } from './sandbox-files.ts'

export type MountFile = {
  /** Canonical, under `/app/mnt/`. */
  readonly path: string
  readonly name: string
  readonly sizeBytes: number
  /** Milliseconds since the epoch. */
  readonly modifiedAt: number
}

/** Must be read to its end or destroyed. */
export type OpenedMountFile = MountFile & { readonly stream: Readable }

/**
 * The persistent files of one integration, by their paths under `/app/mnt/`.
 *
 * A sandbox may write there at the same time: links of any kind, pipes and devices are treated as missing, and every
 * check is made on what was opened. Paths that are not canonical throw ServiceError `invalid_sandbox_file`.
 */
export class AgencyMount {
  readonly #files: FileStore

  constructor(files: FileStore) {
    this.#files = files
  }

  async stat(path: string): Promise<MountFile | undefined> {
    const file = await this.#files.stat(requireName(path))
    return file && view(file)
  }

  async open(path: string): Promise<OpenedMountFile | undefined> {
    const file = await this.#files.open(requireName(path))
    return file && { ...view(file), stream: file.stream }
  }

  /** Yields the files below a folder, or whose paths begin like this, sorted by path, from behind one of them. Default: all. */
  async *list(prefix = pathOf(''), after?: string): AsyncGenerator<MountFile, void> {
    const name = prefixInMount(prefix)
    if (name === undefined) throw new ServiceError('invalid_sandbox_file')
    for await (const file of this.#files.list(name, after && nameInMount(after))) yield view(file)
  }

  /**
   * Stores a file as a whole, or not at all.
   *
   * @throws ServiceError `upload_too_large`, `checksum_mismatch`, `storage_quota_exceeded` when the disk is full, or
   *   `invalid_file_name` where a folder or link is in the way; the error of `body`; the reason of `signal`.
   */
  async put(
    path: string,
    body: AsyncIterable<Uint8Array>,
    options: PutOptions,
  ): Promise<MountFile & { readonly sha256: string }> {
    try {
      const stored = await this.#files.put(requireName(path), body, options)
      return { ...view(stored), sha256: stored.sha256 }
    } catch (error) {
      throw asUploadError(error)
    }
  }

  /** Deletes a file. Returns what there was, for who counts the room; undefined when there was none. */
  async delete(path: string): Promise<MountFile | undefined> {
    const file = await this.stat(path)
    await this.#files.delete(requireName(path))
    return file
  }

  /** Counts what the mount holds: agents write there without asking. */
  async measure(): Promise<{ readonly usedBytes: number; readonly fileCount: number }> {
    let usedBytes = 0
    let fileCount = 0
    for await (const { sizeBytes } of this.#files.list()) {
      usedBytes += sizeBytes
      fileCount++
    }
    return { usedBytes, fileCount }
  }

  /** The paths of those files that are not there. Their form was checked. */
  async missing(files: readonly SandboxFile[]): Promise<readonly string[]> {
    const found = await Promise.all(files.map(({ path }) => this.stat(path)))
    return files.filter((_, index) => !found[index]).map(({ path }) => path)
  }
}

function requireName(path: string): string {
  const name = nameInMount(path)
  if (name === undefined) throw new ServiceError('invalid_sandbox_file')
  return name
}

function view({ name, sizeBytes, modifiedAt }: StoredFile): MountFile {
  return { path: pathOf(name), name: name.slice(name.lastIndexOf('/') + 1), sizeBytes, modifiedAt }
}

export function asUploadError(error: unknown): unknown {
  if (error instanceof ServiceError && error.code === 'file_too_large') return new ServiceError('upload_too_large')
  return isDiskFull(error) ? new ServiceError('storage_quota_exceeded', { cause: error }) : error
}

export function isDiskFull(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === 'ENOSPC' || code === 'EDQUOT'
}
