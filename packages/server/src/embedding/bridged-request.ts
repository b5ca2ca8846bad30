import type { IncomingHttpHeaders } from 'node:http'
import { Readable } from 'node:stream'

/** What Fastify reads of a request besides its body. */
type RequestHead = {
  readonly method: string
  /** Path and query. */
  readonly url: string
  /** With what was taken off it. */
  readonly originalUrl: string
  readonly headers: IncomingHttpHeaders
  readonly socket: RequestSocket
}

/** What is read of the connection that a request came over. */
export type RequestSocket = { readonly remoteAddress?: string | undefined; readonly encrypted?: boolean | undefined }

/**
 * A request as Node's HTTP server would hand it to the application, made of something else: its body is pulled from its
 * source only as fast as it is read.
 */
export class BridgedRequest extends Readable {
  readonly method: string
  url: string
  readonly originalUrl: string
  readonly headers: IncomingHttpHeaders
  readonly socket: RequestSocket
  readonly httpVersion = '1.1'
  /** Whether the whole body has arrived, as in `IncomingMessage`. */
  complete = false
  readonly #pieces: AsyncIterator<Uint8Array>

  constructor({ method, url, originalUrl, headers, socket }: RequestHead, body: AsyncIterable<Uint8Array>) {
    super()
    this.method = method
    this.url = url
    this.originalUrl = originalUrl
    this.headers = headers
    this.socket = socket
    this.#pieces = body[Symbol.asyncIterator]()
  }

  override _read(): void {
    this.#pieces.next().then(
      ({ done, value }) => {
        if (done) this.complete = true
        this.push(done ? null : value)
      },
      (error: unknown) => void this.destroy(error as Error),
    )
  }

  /** A body that nobody will read is given back to its source. */
  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (!this.complete) void this.#pieces.return?.().catch(() => {})
    done(error)
  }
}

/** A body that is there already; none when it is empty. */
export async function* bodyOf(bytes: Uint8Array): AsyncGenerator<Uint8Array, void> {
  if (bytes.length > 0) yield bytes
}
