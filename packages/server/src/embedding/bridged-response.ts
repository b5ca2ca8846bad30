import { Writable } from 'node:stream'

type HeaderValue = string | number | readonly string[]
type WriteDone = (error?: Error | null) => void

/** How much of an answer is kept for a client that does not read, in bytes. As much again waits where it was written. */
const WINDOW_BYTES = 16_384

/** What concerns one connection (RFC 9110, 7.6.1), of which whoever sends the `Response` knows more. */
const CONNECTION_HEADERS = new Set(['connection', 'keep-alive', 'transfer-encoding', 'upgrade', 'trailer'])

/** Answers with these have no body, and a `Response` refuses one. */
const BODILESS = new Set([204, 205, 304])

/**
 * What the application writes its answer to in place of Node's `ServerResponse`: it becomes a `Response` of the Fetch
 * standard. `write` holds the application back while the client does not read, and a client that leaves destroys it.
 */
export class BridgedResponse extends Writable {
  /** Resolves with the head and a body that is still being written; rejects when there will be no head. */
  readonly response: Promise<Response>
  statusCode = 200
  headersSent = false
  readonly #isHead: boolean
  readonly #answer: (response: Response) => void
  readonly #fail: (reason: Error) => void
  readonly #headers = new Map<string, HeaderValue>()
  #body: ReadableStreamDefaultController<Uint8Array> | undefined
  #waiting: WriteDone | undefined

  constructor({ method }: { readonly method: string }) {
    super({ highWaterMark: WINDOW_BYTES })
    const { promise, resolve, reject } = Promise.withResolvers<Response>()
    this.response = promise
    this.#answer = resolve
    this.#fail = reject
    this.#isHead = method === 'HEAD'
  }

  setHeader(name: string, value: HeaderValue): this {
    this.#headers.set(name.toLowerCase(), value)
    return this
  }

  getHeader(name: string): HeaderValue | undefined {
    return this.#headers.get(name.toLowerCase())
  }

  getHeaders(): Readonly<Record<string, HeaderValue>> {
    return Object.fromEntries(this.#headers)
  }

  hasHeader(name: string): boolean {
    return this.#headers.has(name.toLowerCase())
  }

  removeHeader(name: string): void {
    this.#headers.delete(name.toLowerCase())
  }

  writeHead(status: number, headers: Readonly<Record<string, HeaderValue | undefined>> = {}): this {
    this.statusCode = status
    for (const [name, value] of Object.entries(headers)) if (value !== undefined) this.setHeader(name, value)
    return this
  }

  flushHeaders(): void {
    if (!this.headersSent) this.#sendHead(this.#isBodiless ? null : this.#openBody())
  }

  /** A `Response` has none. */
  addTrailers(): void {}

  /** Nobody waits for it: the body of a request is pulled. */
  writeContinue(): void {}

  /** An answer that is written in one piece needs no stream. */
  override end(...given: unknown[]): this {
    const [piece] = given
    if (!this.headersSent && (typeof piece === 'string' || piece instanceof Uint8Array)) {
      this.#sendHead(this.#isBodiless ? null : Buffer.from(piece))
      return super.end()
    }
    return super.end(...(given as []))
  }

  override _write(piece: Buffer, _encoding: string, done: WriteDone): void {
    this.flushHeaders()
    if (!this.#body) return done()
    this.#body.enqueue(piece)
    if (this.#body.desiredSize! > 0) done()
    else this.#waiting = done
  }

  override _final(done: WriteDone): void {
    if (!this.headersSent) this.#sendHead(null)
    this.#body?.close()
    done()
  }

  override _destroy(error: Error | null, done: WriteDone): void {
    if (!this.writableFinished) {
      const reason = error ?? brokenOff()
      this.#fail(reason)
      this.#body?.error(reason)
      this.#waiting = undefined
    }
    done(error)
  }

  get #isBodiless(): boolean {
    return this.#isHead || BODILESS.has(this.statusCode)
  }

  #sendHead(body: Buffer | ReadableStream<Uint8Array> | null): void {
    this.headersSent = true
    const headers = new Headers()
    for (const [name, value] of this.#headers) {
      if (CONNECTION_HEADERS.has(name)) continue
      for (const each of [value].flat()) headers.append(name, String(each))
    }
    this.#answer(new Response(body, { status: this.statusCode, headers }))
  }

  #openBody(): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => void (this.#body = controller),
        pull: () => this.#goOn(),
        cancel: () => void this.destroy(),
      },
      { highWaterMark: WINDOW_BYTES, size: ({ byteLength }) => byteLength },
    )
  }

  #goOn(): void {
    const done = this.#waiting
    this.#waiting = undefined
    done?.()
  }
}

/** Under the code by which servers know that nobody waits for the rest. */
function brokenOff(): Error {
  return Object.assign(new Error('The answer broke off.'), { code: 'ERR_STREAM_PREMATURE_CLOSE' })
}
