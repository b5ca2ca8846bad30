import { createHash } from 'node:crypto'
import type { FileStore } from '@bureau/runtime'

/** Inline images of an owner, by the SHA-256 of their content. No blob is larger than an inline image may be. */
export class BlobStore {
  readonly #files: FileStore

  constructor(files: FileStore) {
    this.#files = files
  }

  /** Stores a blob; an existing one is written again, so that it counts as new. @returns Its SHA-256. */
  async put(ownerId: string, bytes: Uint8Array): Promise<Uint8Array> {
    const sha256 = createHash('sha256').update(bytes).digest()
    const body = async function* (): AsyncGenerator<Uint8Array> {
      yield bytes
    }
    await this.#files.put(nameOf(ownerId, sha256), body(), { maxBytes: bytes.length, sha256: sha256.toString('hex') })
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

  async delete(ownerId: string, ...hashes: readonly Uint8Array[]): Promise<void> {
    await this.#files.delete(...hashes.map((sha256) => nameOf(ownerId, sha256)))
  }

  /** The blobs of all owners and when each was written, in milliseconds since the epoch. */
  async *list(): AsyncGenerator<{ ownerId: string; sha256: Uint8Array; writtenAt: number }, void> {
    for await (const { name, modifiedAt } of this.#files.list()) {
      const [ownerId = '', hash = ''] = name.split('/')
      yield { ownerId, sha256: new Uint8Array(Buffer.from(hash, 'hex')), writtenAt: modifiedAt }
    }
  }
}

const nameOf = (ownerId: string, sha256: Uint8Array): string => `${ownerId}/${Buffer.from(sha256).toString('hex')}`
