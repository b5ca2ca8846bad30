import { constants, type ReadStream } from 'node:fs'
import { type FileHandle, mkdir, open, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ServiceError } from '@bureau/protocol'
import { asUploadError } from './agency-mount.ts'

/** What one request added to an upload. */
type Appended = {
  readonly bytes: number
  /** Why the body ended early; what came before is kept. Null when it came whole. */
  readonly brokenOff: Error | null
}

const FLAGS = constants.O_RDWR | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0)

/**
 * Uploads that come in several requests, while they are not complete. They lie outside of every mount.
 *
 * How much of an upload counts is what its record says: bytes behind that offset are overwritten.
 */
export class StagedUploads {
  readonly #folder: string
  readonly #busy = new Set<string>()

  /** @param folder - On the file system of the mounts; made when missing. */
  constructor(folder: string) {
    this.#folder = folder
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
   * Adds to an upload, from the offset that its record has. To be called `exclusively`.
   *
   * @throws ServiceError `upload_offset_mismatch` when less than that was kept; `upload_too_large`, nothing is kept of
   *   that request; `storage_quota_exceeded` when the disk is full.
   */
  async append(
    uploadId: string,
    body: AsyncIterable<Uint8Array>,
    { offset, maxBytes }: { readonly offset: number; readonly maxBytes: number },
  ): Promise<Appended> {
    const path = this.#pathOf(uploadId)
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 })
      await using file = await open(path, FLAGS, 0o600)
      if ((await file.stat()).size < offset) throw new ServiceError('upload_offset_mismatch')
      return await write(file, body, { offset, maxBytes })
    } catch (error) {
      throw asUploadError(error)
    }
  }

  /** The content of an upload that has come whole; `sizeBytes` of it. */
  async *read(uploadId: string, sizeBytes: number): AsyncGenerator<Uint8Array, void> {
    if (sizeBytes === 0) return
    const path = this.#pathOf(uploadId)
    if ((await stat(path)).size < sizeBytes) throw new ServiceError('upload_offset_mismatch')
    const file = await open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0))
    const stream: ReadStream = file.createReadStream({ end: sizeBytes - 1 })
    yield* stream as AsyncIterable<Uint8Array>
  }

  /** Removes what there is of an upload: it is complete, or nobody wants it any more. */
  async discard(uploadId: string): Promise<void> {
    await rm(this.#pathOf(uploadId), { force: true })
  }

  #pathOf(uploadId: string): string {
    if (!/^upl_[0-9a-z]+$/.test(uploadId)) throw new Error('an upload has an id of ours')
    return join(this.#folder, `${uploadId}.upload`)
  }
}

async function write(
  file: FileHandle,
  body: AsyncIterable<Uint8Array>,
  { offset, maxBytes }: { readonly offset: number; readonly maxBytes: number },
): Promise<Appended> {
  let end = offset
  let brokenOff: Error | null = null
  const chunks = body[Symbol.asyncIterator]()
  for (;;) {
    const next = await chunks.next().catch((error: unknown) => error as Error)
    if (next instanceof Error) brokenOff = next
    if (next instanceof Error || next.done) break
    if (end + next.value.byteLength > maxBytes) {
      await chunks.return?.()
      throw new ServiceError('upload_too_large')
    }
    for (let rest = next.value; rest.byteLength > 0;) {
      const { bytesWritten } = await file.write(rest, 0, rest.byteLength, end)
      rest = rest.subarray(bytesWritten)
      end += bytesWritten
    }
  }
  await file.truncate(end)
  await file.sync()
  return { bytes: end - offset, brokenOff }
}
