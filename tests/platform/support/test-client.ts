import { TestStream } from '../../support/test-server.ts'
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
  async complete(request: Record<string, unknown> = {}, sent?: Sent): Promise<TestStream> {
    return new TestStream(await this.fetch('POST', '/get_completion_v2', this.completion(request), sent))
  }

  /** A completion that is refused, or read whole. */
  async completeWhole(request: Record<string, unknown> = {}, sent?: Sent): Promise<Answer & { stream: TestStream }> {
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

  async follow(runId: string, query = '', sent?: Sent): Promise<TestStream> {
    return new TestStream(await this.fetch('GET', `/v1/runs/${runId}/events${query}`, undefined, sent))
  }
}
