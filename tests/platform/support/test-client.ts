import { type SseFrame, SseParser } from '@bureau/protocol'
import { checkAnswer } from './check-answer.ts'

// oxlint-disable-next-line no-explicit-any -- answers are asserted on, member by member
export type Json = any

export type Answer = {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly body: Json
}

type Sent = { readonly headers?: Record<string, string>; readonly signal?: AbortSignal }

const IS_JSON = /^application\/json\b/

/** Calls a platform with one API key. */
export class TestClient {
  readonly url: string
  readonly token: string
  readonly ownerId: string
  readonly integrationId: string

  constructor(client: { url: string; token: string; ownerId: string; integrationId: string }) {
    this.url = client.url
    this.token = client.token
    this.ownerId = client.ownerId
    this.integrationId = client.integrationId
  }

  /** The same with other values. */
  with(changes: Partial<{ url: string; token: string; integrationId: string }>): TestClient {
    const { url, token, ownerId, integrationId } = this
    return new TestClient({ url, token, ownerId, integrationId, ...changes })
  }

  async fetch(method: string, path: string, body?: unknown, { headers = {}, signal }: Sent = {}): Promise<Response> {
    const isRaw = typeof body === 'string' || body instanceof Uint8Array
    return fetch(this.url + path, {
      method,
      headers: {
        ...(this.token !== '' && { authorization: `Bearer ${this.token}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: isRaw ? (body as string) : JSON.stringify(body) }),
      ...(signal && { signal }),
    })
  }

  async call(method: string, path: string, body?: unknown, sent?: Sent): Promise<Answer> {
    const response = await this.fetch(method, path, body, sent)
    const text = await response.text()
    const isJson = text !== '' && IS_JSON.test(response.headers.get('content-type') ?? '') // HEAD has no body
    const answer = {
      status: response.status,
      headers: response.headers,
      text,
      body: isJson ? JSON.parse(text) : undefined,
    }
    checkAnswer(method, path, answer)
    return answer
  }

  get(path: string, sent?: Sent): Promise<Answer> {
    return this.call('GET', path, undefined, sent)
  }

  post(path: string, body?: unknown, sent?: Sent): Promise<Answer> {
    return this.call('POST', path, body, sent)
  }

  /** Starts a completion and reads it as it comes. */
  async complete(request: Record<string, unknown> = {}, sent?: Sent): Promise<CompletionStream> {
    return new CompletionStream(await this.fetch('POST', '/get_completion_v2', this.completion(request), sent))
  }

  /** A completion that is refused, or read whole. */
  async completeWhole(
    request: Record<string, unknown> = {},
    sent?: Sent,
  ): Promise<Answer & { stream: CompletionStream }> {
    const stream = await (await this.complete(request, sent)).all()
    const { status, headers } = stream.response
    const isJson = IS_JSON.test(headers.get('content-type') ?? '')
    const answer = { status, headers, text: stream.text, body: isJson ? JSON.parse(stream.text) : undefined }
    checkAnswer('POST', '/get_completion_v2', answer)
    return { ...answer, stream }
  }

  /** Sends these very bytes as a completion. */
  completeRaw(body: string | Uint8Array, sent?: Sent): Promise<Answer> {
    return this.call('POST', '/get_completion_v2', body, sent)
  }

  completion(request: Record<string, unknown>): Record<string, unknown> {
    return { apiIntegrationId: this.integrationId, message: 'Hello', ...request }
  }

  async follow(runId: string, query = '', sent?: Sent): Promise<CompletionStream> {
    return new CompletionStream(await this.fetch('GET', `/v1/runs/${runId}/events${query}`, undefined, sent))
  }
}

/** A stream of the platform, read frame by frame or whole. */
export class CompletionStream {
  readonly response: Response
  readonly frames: SseFrame[] = []
  text = ''
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  readonly #parser = new SseParser()
  readonly #decoder = new TextDecoder()

  constructor(response: Response) {
    this.response = response
    this.#reader = response.body?.getReader()
  }

  get runId(): string {
    return this.response.headers.get('x-agent-run-id') ?? ''
  }

  get chatId(): string {
    return this.response.headers.get('x-chat-id') ?? ''
  }

  async until(fits: (frame: SseFrame) => boolean): Promise<SseFrame> {
    for (let at = 0; ;) {
      for (; at < this.frames.length; at++) if (fits(this.frames[at]!)) return this.frames[at]!
      if (!(await this.#pull())) throw new Error(`the stream ended before the frame came:\n${this.text.slice(-2000)}`)
    }
  }

  untilText(part: string): Promise<SseFrame> {
    return this.until((frame) => frame.data.includes(part))
  }

  async all(): Promise<this> {
    while (await this.#pull()) {
      // Frames collect in `frames`.
    }
    return this
  }

  async hangUp(): Promise<void> {
    await this.#reader?.cancel()
  }

  get meta(): Json {
    return JSON.parse(this.frames.find((frame) => frame.event === 'meta')!.data)
  }

  get result(): Json {
    return JSON.parse(this.frames.find((frame) => frame.event === 'messages')!.data)
  }

  /** The numbers of the frames, in order. */
  get ids(): number[] {
    return this.frames.flatMap(({ id }) => (id === null ? [] : [Number(id)]))
  }

  /** What the model said in pieces. */
  get spoken(): string {
    return this.frames
      .flatMap((frame) => (frame.event === null ? [JSON.parse(frame.data).data] : []))
      .filter((event) => event?.data?.type === 'response.output_text.delta')
      .map((event) => event.data.delta)
      .join('')
  }

  async #pull(): Promise<boolean> {
    const next = await this.#reader?.read()
    if (!next || next.done) return false
    const text = this.#decoder.decode(next.value, { stream: true })
    this.text += text
    this.frames.push(...this.#parser.push(text))
    return true
  }
}
