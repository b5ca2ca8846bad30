import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import { isTransient, parseRetryAfter, RetryableError, withRetries } from './retries.ts'
import { invalidAnswer, ModelError, modelErrorOfStatus } from './model-error.ts'

export type StreamingPost = {
  readonly dispatcher: Dispatcher
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  /** Undefined once the answer has begun: prompts are long, and so are answers. */
  body: string | undefined
  readonly signal: AbortSignal
  /** Called when a connection takes the request. */
  readonly onSent?: () => void
  /** Called when the provider has refused it. */
  readonly onRefused?: () => void
  readonly reader: AnswerReader
}

export interface AnswerReader {
  /** True once the answer is whole, however its connection ends. Its usage may follow. */
  readonly ended: boolean
  /** Receives decoded text as it arrives. A promise pauses the socket until it resolves. */
  push(text: string): Promise<void> | undefined
  /** The answer has ended as HTTP wants it. Some servers say so in no other way. */
  end(): void
}

const MAX_ERROR_BODY_CHARACTERS = 16_384

/** So long nothing may come of an answer that is whole and does not end: one that ends leaves its connection to the next request. */
const END_MS = 1_000

/**
 * POSTs JSON to a model provider and hands on the answer's text while it arrives.
 *
 * Retries (twice, 0.5 s and 1 s, or as `retry-after` says up to 10 s) only before the first byte of a good answer, so that
 * nothing is ever sent twice to the reader.
 *
 * @throws ModelError, the reason of `signal`, or what the reader throws.
 */
export async function postStream(post: StreamingPost): Promise<void> {
  const contentType = await withRetries(post.signal, () => postOnce(post))
  post.reader.end()
  if (post.reader.ended) return
  // Whoever reads the log learns that a proxy or a wrong address has answered, and not the provider.
  const isStream = contentType?.startsWith(EVENT_STREAM) ?? true
  throw invalidAnswer(isStream ? 'the stream ended too early' : `the answer is ${contentType}, not ${EVENT_STREAM}`)
}

const EVENT_STREAM = 'text/event-stream'

const ENCODER = new TextEncoder()

/** A body of more bytes is not kept while its answer arrives. A shorter one weighs less than what it takes to forget it. */
const MAX_KEPT_BYTES = 4_096

/** The body in a piece of memory of its own: undici would put a short text into a pool that is shared, and keep the whole pool. */
function bodyOf(bytes: Uint8Array): Uint8Array | Readable {
  return bytes.length > MAX_KEPT_BYTES ? releaseOnceRead(bytes) : bytes
}

/**
 * A body that can be read once, because undici keeps it as long as the answer lasts. That it takes iterables, its types
 * do not say.
 */
function releaseOnceRead(bytes: Uint8Array): Readable {
  let unread: Uint8Array | undefined = bytes
  const next = (): IteratorResult<Uint8Array> => {
    const value = unread
    unread = undefined
    return value ? { done: false, value } : { done: true, value }
  }
  return { [Symbol.iterator]: () => ({ next }) } as unknown as Readable
}

/** @returns The content type of the answer. */
function postOnce(post: StreamingPost): Promise<string | undefined> {
  const { dispatcher, url, headers, signal } = post
  const bytes = ENCODER.encode(post.body)
  const answer = new StreamedAnswer(post)
  const abort = (): void => answer.abort()
  signal.addEventListener('abort', abort, { once: true })
  dispatcher.dispatch(
    {
      origin: url.origin,
      path: url.pathname + url.search,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: EVENT_STREAM,
        'content-length': String(bytes.length),
        ...headers,
      },
      body: bodyOf(bytes),
    },
    answer,
  )
  return answer.ended.finally(() => {
    signal.removeEventListener('abort', abort)
    answer.close()
  })
}

/** One answer, over undici's callback interface: no web stream and no async iterator between socket and reader. */
class StreamedAnswer implements Dispatcher.DispatchHandler {
  /** Resolves to its content type. */
  readonly ended: Promise<string | undefined>
  readonly #post: StreamingPost
  readonly #settle: PromiseWithResolvers<string | undefined> = Promise.withResolvers()
  readonly #decoder = new TextDecoder()
  #controller: Dispatcher.DispatchController | undefined
  #status = 0
  #contentType: string | undefined
  #retryAfterMs: number | undefined
  #errorBody = ''
  #unread: Buffer[] = []
  #started = false
  #stopped = false
  #readerIsBehind = false
  /** How the answer has ended, once everything that came before is handed on. */
  #end: (() => void) | undefined
  #endTimer: NodeJS.Timeout | undefined

  constructor(post: StreamingPost) {
    this.#post = post
    this.ended = this.#settle.promise
  }

  abort(): void {
    const { reason } = this.#post.signal
    this.#controller?.abort(reason instanceof Error ? reason : new Error('aborted'))
  }

  close(): void {
    clearTimeout(this.#endTimer)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#post.signal.aborted) this.abort()
    else this.#post.onSent?.()
  }

  onResponseStart(controller: Dispatcher.DispatchController, statusCode: number, headers: IncomingHttpHeaders): void {
    // Pieces of what was read from the socket: as long as the answer lasts they would keep all of it.
    controller.rawHeaders = null
    this.#status = statusCode
    this.#contentType = headers['content-type']
    this.#retryAfterMs = parseRetryAfter(headers['retry-after'])
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#status !== 200) {
      this.#errorBody += this.#decoder.decode(chunk, { stream: true })
      if (this.#errorBody.length > MAX_ERROR_BODY_CHARACTERS) controller.abort(new Error('the refusal is too long'))
      return
    }
    this.#started = true
    this.#post.body = undefined
    // Providers send each event as an HTTP chunk; those of one read of the socket are handed on together.
    if (this.#unread.push(chunk) === 1) queueMicrotask(() => this.#deliver())
  }

  onResponseEnd(): void {
    if (this.#status === 200) return this.#endWith(() => this.#settle.resolve(this.#contentType))
    this.#refuse()
  }

  onResponseError(_: unknown, error: Error): void {
    const { signal } = this.#post
    if (signal.aborted) return this.#settle.reject(signal.reason)
    if (this.#status > 200) return this.#refuse()
    const failure = modelErrorOfNetwork(error, this.#started)
    this.#endWith(() => {
      if (this.#post.reader.ended) this.#settle.resolve(this.#contentType)
      else this.#settle.reject(this.#started ? failure : new RetryableError(failure))
    })
  }

  /** The status says what the refusal means, also when its body breaks off. */
  #refuse(): void {
    this.#post.onRefused?.()
    const error = modelErrorOfStatus(this.#status, this.#errorBody)
    this.#settle.reject(isTransient(error) ? new RetryableError(error, this.#retryAfterMs) : error)
  }

  #endWith(end: () => void): void {
    this.#end = end
    this.#deliver()
    if (!this.#readerIsBehind) end()
  }

  /**
   * While the reader is behind, the socket is paused and what was read already waits. What the reader throws ends the
   * request, as it was thrown.
   */
  #deliver(): void {
    if (this.#unread.length === 0 || this.#stopped || this.#readerIsBehind) return
    const [first, ...others] = this.#unread
    this.#unread = []
    clearTimeout(this.#endTimer)
    const bytes = others.length === 0 ? first! : Buffer.concat([first!, ...others])
    try {
      const waiting = this.#post.reader.push(this.#decoder.decode(bytes, { stream: true }))
      if (!waiting) return this.#limitEnd()
      this.#readerIsBehind = true
      this.#controller?.pause()
      waiting.then(
        () => this.#goOn(),
        (error: unknown) => this.#stop(error),
      )
    } catch (error) {
      this.#stop(error)
    }
  }

  #goOn(): void {
    this.#readerIsBehind = false
    this.#deliver()
    if (this.#readerIsBehind) return
    this.#end?.()
    this.#controller?.resume()
    this.#limitEnd()
  }

  /** Some servers keep the connection open behind the last event. */
  #limitEnd(): void {
    clearTimeout(this.#endTimer)
    if (!this.#post.reader.ended || this.#end) return
    this.#endTimer = setTimeout(() => this.#controller?.abort(new Error('the answer has no end')), END_MS)
  }

  #stop(error: unknown): void {
    this.#stopped = true
    this.#settle.reject(error)
    this.#controller?.abort(error instanceof Error ? error : new Error('stopped'))
  }
}

function modelErrorOfNetwork(error: Error, started: boolean): ModelError {
  const code = 'code' in error ? String(error.code) : ''
  if (code.endsWith('TIMEOUT')) return new ModelError('upstream_timeout', { cause: error })
  return new ModelError(started ? 'upstream_invalid_response' : 'upstream_unavailable', { cause: error })
}
