import type { Readable } from 'node:stream'

export type StoredFile = {
  readonly name: string
  readonly sizeBytes: number
  /** Milliseconds since the epoch. */
  readonly modifiedAt: number
}

export type OpenedFile = StoredFile & {
  /**
   * The content that was opened, whatever is stored under the name later; never more than `sizeBytes`.
   *
   * Must be read to its end or destroyed.
   */
  readonly stream: Readable
}

export type PutOptions = {
  readonly maxBytes: number
  /** The checksum that the content must have, in hexadecimal. */
  readonly sha256?: string
  readonly signal?: AbortSignal
}

/**
 * Files by name, e.g. the mount of an agency.
 *
 * A store that cannot be reached throws ServiceError `files_unavailable`, from every method and from streams.
 * Every method throws `ServiceError` `invalid_file_name` for names that `isFileName` refuses, so no name can leave the
 * store. Contents are streams and are never held in memory as a whole.
 */
export interface FileStore {
  /**
   * Stores a file, replacing one of that name. All or nothing: readers see the old content or the new one.
   *
   * Resolves when the content is safely stored. Reads no more of `body` than is needed to know that it is too large.
   *
   * @throws ServiceError `file_too_large`, `checksum_mismatch`, or `invalid_file_name` where something that is not a file
   * is in the way, or the name is too long for the store; the error of `body`; the reason of `signal`.
   */
  put(name: string, body: AsyncIterable<Uint8Array>, options: PutOptions): Promise<StoredFile & { sha256: string }>

  /** Opens a file for reading, or undefined when there is none. */
  open(name: string): Promise<OpenedFile | undefined>

  stat(name: string): Promise<StoredFile | undefined>

  /** Deletes files. Deleting a file that does not exist succeeds. */
  delete(...names: readonly string[]): Promise<void>

  /**
   * Yields the files whose names begin with `prefix` (every file when omitted), sorted by the bytes of their names.
   *
   * @param after - Only files behind this name.
   */
  list(prefix?: string, after?: string): AsyncIterable<StoredFile>
}
