import { createHash } from 'node:crypto'
import { ServiceError } from '@bureau/protocol'
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

/**
 * Passes items on until the signal aborts, and then throws its reason at once.
 *
 * Unlike `pipeline` it does not wait for a source that is in the middle of producing its next item.
 */
async function* abortable<T>(source: AsyncIterable<T>, signal: AbortSignal | undefined): AsyncGenerator<T> {
  signal?.throwIfAborted()
  const iterator = source[Symbol.asyncIterator]()
  const aborted = Promise.withResolvers<never>()
  const abort = (): void => aborted.reject(signal?.reason)
  aborted.promise.catch(() => {}) // An abort after the last item is nobody's business.
  signal?.addEventListener('abort', abort, { once: true })
  try {
    for (;;) {
      const next = await Promise.race([iterator.next(), aborted.promise])
      if (next.done === true) return
      yield next.value
    }
  } finally {
    signal?.removeEventListener('abort', abort)
    // Not awaited: a generator that is waiting for something answers only when it has it.
    iterator.return?.().catch(() => {})
  }
}
