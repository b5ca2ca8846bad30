import { randomUUID } from 'node:crypto'
import { ServiceError } from '@bureau/protocol'
import type { FileStore } from '@bureau/runtime'
import { asUploadError } from './agency-mount.ts'

/** What one request added to an upload. */
type Appended = {
  /** Names these bytes in the record of the upload; null when there were none. */
  readonly part: string | null
  readonly bytes: number
  /** Why the body ended early; what came before is kept. Null when it came whole. */
  readonly brokenOff: Error | null
}

/**
 * Uploads that come in several requests, while they are not complete: what each request brings is a file of its own.
 *
 * Which of these count is what the record of the upload says. The others are removed after a day.
 */
export class StagedUploads {
  readonly #files: FileStore
  readonly #busy = new Set<string>()

  constructor(files: FileStore) {
    this.#files = files
  }

  /**
   * Does the work of one request about an upload while no other request of this process works on the same one.
   *
   * @throws ServiceError `upload_offset_mismatch` when another request is at work.
   */
  async exclusively<Result>(uploadId: string, work: () => Promise<Result>): Promise<Result> {
    if (this.#busy.has(uploadId)) throw new ServiceError('upload_offset_mismatch')
    this.#busy.add(uploadId)
    try {
      return await work()
    } finally {
      this.#busy.delete(uploadId)
    }
  }

  /**
   * Keeps what one request brings.
   *
   * @throws ServiceError `upload_too_large`, and nothing is kept; `storage_quota_exceeded` when the disk is full.
   */
  async append(uploadId: string, body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Appended> {
    const part = randomUUID()
    let brokenOff: Error | null = null
    const asFarAsItComes = async function* (): AsyncGenerator<Uint8Array, void> {
      try {
        yield* body
      } catch (error) {
        brokenOff = error as Error
      }
    }
    try {
      const { sizeBytes: bytes } = await this.#files.put(nameOf(uploadId, part), asFarAsItComes(), { maxBytes })
      return { part: bytes > 0 ? part : null, bytes, brokenOff }
    } catch (error) {
      throw asUploadError(error)
    }
  }

  /** The content of these parts, one after the other. */
  async *read(uploadId: string, parts: readonly string[]): AsyncGenerator<Uint8Array, void> {
    for (const part of parts) {
      const file = await this.#files.open(nameOf(uploadId, part))
      if (!file) throw new ServiceError('upload_expired')
      yield* file.stream as AsyncIterable<Uint8Array>
    }
  }

  /** Removes parts: the upload is complete, or they were not recorded. */
  async discard(uploadId: string, parts: readonly string[]): Promise<void> {
    await this.#files.delete(...parts.map((part) => nameOf(uploadId, part)))
  }

  /** Removes what nobody has removed and is older than any upload may be (milliseconds since the epoch). */
  async removeLeftovers(before: number): Promise<void> {
    for await (const { name, modifiedAt } of this.#files.list()) {
      if (modifiedAt < before) await this.#files.delete(name)
    }
  }
}

function nameOf(uploadId: string, part: string): string {
  if (!/^upl_[0-9a-z]+$/.test(uploadId)) throw new Error('an upload has an id of ours')
  return `${uploadId}/${part}`
}
