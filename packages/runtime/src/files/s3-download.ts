import { Readable } from 'node:stream'
import type { GetObjectCommandOutput } from '@aws-sdk/client-s3'
import { unavailable } from './s3-error.ts'

/** How often in a row a download goes on where its connection broke, without a byte in between. */
const MAX_READ_FAILURES = 3

/** A body that is read on from where it broke, as long as the object is the same. */
export class Download {
  readonly stream: Readable
  #body: Readable
  readonly #sizeBytes: number
  readonly #goOn: (offset: number) => Promise<GetObjectCommandOutput>

  constructor(
    opened: GetObjectCommandOutput,
    sizeBytes: number,
    goOn: (offset: number) => Promise<GetObjectCommandOutput>,
  ) {
    this.#body = opened.Body as Readable
    this.#sizeBytes = sizeBytes
    this.#goOn = goOn
    this.#body.on('error', () => {}) // It may break before anybody reads it; whoever does, notices.
    this.stream = Readable.from(this.#read(), { objectMode: false })
    this.stream.once('close', () => this.#body.destroy())
  }

  async *#read(): AsyncGenerator<Uint8Array, void> {
    let offset = 0
    for (let failures = 0; ;) {
      try {
        for await (const chunk of this.#body as AsyncIterable<Uint8Array>) {
          failures = 0
          offset += chunk.byteLength
          yield chunk
        }
        if (offset >= this.#sizeBytes) return
        throw new Error(`the content ended after ${offset} of ${this.#sizeBytes} bytes`)
      } catch (error) {
        if (++failures > MAX_READ_FAILURES || this.stream.destroyed) throw unavailable(error)
        this.#body = (await this.#goOn(offset)).Body as Readable
      }
    }
  }
}
