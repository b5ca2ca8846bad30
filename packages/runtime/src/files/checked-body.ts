import { createHash } from 'node:crypto'
import { ServiceError } from '@bureau/protocol'
import { abortable } from './abortable.ts'
import type { PutOptions } from './file-store.ts'

/** A body on its way into a store: what has passed is counted, and the end fails unless the checksum is the right one. */
export class CheckedBody {
  sizeBytes = 0
  /** Known when the body has ended. */
  sha256 = ''
  readonly #body: AsyncIterable<Uint8Array>
  readonly #options: PutOptions

  constructor(body: AsyncIterable<Uint8Array>, options: PutOptions) {
    this.#body = body
    this.#options = options
  }

  /** @throws ServiceError `file_too_large`, `checksum_mismatch`; the error of the body; the reason of the signal */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void> {
    const { maxBytes, sha256, signal } = this.#options
    const hash = createHash('sha256')
    for await (const chunk of abortable(this.#body, signal)) {
      this.sizeBytes += chunk.byteLength
      if (this.sizeBytes > maxBytes) throw new ServiceError('file_too_large')
      hash.update(chunk)
      yield chunk
    }
    this.sha256 = hash.digest('hex')
    if (sha256 !== undefined && sha256.toLowerCase() !== this.sha256) throw new ServiceError('checksum_mismatch')
  }
}
