import { createHash } from 'node:crypto'
import { ServiceError } from '@bureau/protocol'
import type { FileStore } from '@bureau/runtime'
import { isDiskFull } from '../mount/agency-mount.ts'

/** PostgreSQL takes 65,535 parameters in a statement. */
const PAGE_SIZE = 1_000

/** Inline images of an owner, by the SHA-256 of their content. No blob is larger than an inline image may be. */
export class BlobStore {
  readonly #files: FileStore

  constructor(files: FileStore) {
    this.#files = files
  }

  /**
   * Stores a blob; an existing one is written again, so that it counts as new.
   *
   * @returns Its SHA-256. @throws ServiceError `files_unavailable`, also when the disk is full.
   */
  async put(ownerId: string, bytes: Uint8Array): Promise<Uint8Array> {
    const sha256 = createHash('sha256').update(bytes).digest()
    const body = async function* (): AsyncGenerator<Uint8Array> {
      yield bytes
    }
    const options = { maxBytes: bytes.length, sha256: sha256.toString('hex') }
    await this.#files.put(nameOf(ownerId, sha256), body(), options).catch((cause: unknown) => {
      throw isDiskFull(cause) ? new ServiceError('files_unavailable', { cause }) : cause
    })
    return new Uint8Array(sha256)
  }

  /** Undefined: there is no such blob of this owner. */
  async read(ownerId: string, sha256: Uint8Array): Promise<Uint8Array | undefined> {
    const file = await this.#files.open(nameOf(ownerId, sha256))
    if (!file) return undefined
    const chunks: Uint8Array[] = []
    for await (const chunk of file.stream) chunks.push(chunk as Uint8Array)
    return Buffer.concat(chunks)
  }

  /** The blobs that were put before a moment (milliseconds since the epoch), of one owner at a time and at most 1,000. */
  async *listOld(before: number): AsyncGenerator<{ ownerId: string; hashes: readonly Uint8Array[] }, void> {
    let page: { ownerId: string; hashes: Uint8Array[] } = { ownerId: '', hashes: [] }
    for await (const { name, modifiedAt } of this.#files.list()) {
      if (modifiedAt >= before) continue
      const [ownerId = '', hash = ''] = name.split('/')
      if (page.ownerId !== ownerId || page.hashes.length === PAGE_SIZE) {
        if (page.hashes.length > 0) yield page
        page = { ownerId, hashes: [] }
      }
      page.hashes.push(new Uint8Array(Buffer.from(hash, 'hex')))
    }
    if (page.hashes.length > 0) yield page
  }

  /** Deletes a blob, unless it was put since this moment: a request may have sent it again after it was listed. */
  async deleteOld(ownerId: string, sha256: Uint8Array, before: number): Promise<void> {
    const name = nameOf(ownerId, sha256)
    const file = await this.#files.stat(name)
    if (file && file.modifiedAt < before) await this.#files.delete(name)
  }
}

const nameOf = (ownerId: string, sha256: Uint8Array): string => `${ownerId}/${Buffer.from(sha256).toString('hex')}`
