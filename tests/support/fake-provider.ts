import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { chatAnswer } from './provider/chat-completions-wire.ts'
import { checkChatRequest } from './provider/check-chat-request.ts'
import { checkResponsesRequest } from './provider/check-responses-request.ts'
import { ClientWatch } from './provider/client-watch.ts'
import { Counter } from './provider/counter.ts'
import { Gate } from './provider/gate.ts'
import { IssuedItems } from './provider/issued-items.ts'
import type { JsonObject } from './provider/json-object.ts'
import { ProviderError } from './provider/provider-error.ts'
import { RecordedRequest } from './provider/recorded-request.ts'
import { responsesAnswer } from './provider/responses-wire.ts'
import { sendHttp, sendJson, sendStream, sendWhole } from './provider/send-answer.ts'
import { partsOf, type Part, type Turn } from './provider/turn.ts'
import { UploadedFiles } from './provider/uploaded-files.ts'
import { newId } from './provider/wire.ts'

export * from './provider/faults.ts'
export * from './provider/hosted-items.ts'
export * from './provider/turn.ts'
export { Gate, RecordedRequest }

export type FakeProviderOptions = {
  /** Keys that are accepted. Absent: any, but a request without a key is refused with 401. */
  readonly apiKeys?: readonly string[]
  /** False takes every request as it is, even without a key, like many compatible servers. Default true. */
  readonly validate?: boolean
}

type Responder = (request: RecordedRequest) => Turn | undefined | Promise<Turn | undefined>

type Rejection = { readonly request: RecordedRequest; readonly error: ProviderError }

/**
 * Starts a stand-in for a model provider on a free loopback port.
 *
 * It speaks the Responses API, Chat Completions, `/v1/files` and `/v1/models` over real sockets and answers what
 * the test scripts. A request that nothing was scripted for is refused, never answered by chance.
 */
export async function startFakeProvider(options: FakeProviderOptions = {}): Promise<FakeProvider> {
  const server = createServer({ keepAliveTimeout: 60_000 })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return new FakeProvider(server, options)
}

export class FakeProvider {
  /** Without `/v1`. */
  readonly url: string
  /** What a client takes as base URL: ends in `/v1`. */
  readonly baseUrl: string
  /** Every request in the order of arrival, refused ones and those for files and models too. */
  readonly requests: RecordedRequest[] = []
  /** Requests that were refused by a check, for a wrong key, or because nothing was scripted. */
  readonly rejected: Rejection[] = []
  readonly files = new UploadedFiles()
  readonly #options: FakeProviderOptions
  readonly #server: ReturnType<typeof createServer>
  readonly #sockets = new Set<Socket>()
  readonly #arrived = new Counter('model requests')
  readonly #abandoned = new Counter('abandoned model requests')
  readonly #closing = new AbortController()
  readonly #issued = new IssuedItems()
  readonly #queue: Turn[] = []
  #responder: Responder = () => undefined

  constructor(server: ReturnType<typeof createServer>, options: FakeProviderOptions) {
    const { port } = server.address() as AddressInfo
    this.url = `http://127.0.0.1:${port}`
    this.baseUrl = `${this.url}/v1`
    this.#options = options
    this.#server = server
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
    })
    server.on('request', (request, response) => void this.#serve(request, response))
  }

  /** Requests to the two model APIs. */
  get modelRequests(): readonly RecordedRequest[] {
    return this.requests.filter(({ api }) => api === 'responses' || api === 'chat')
  }

  /** Sockets that are open now. */
  get connections(): number {
    return this.#sockets.size
  }

  /** Model requests whose client went away before the answer had ended. */
  get aborted(): number {
    return this.#abandoned.value
  }

  /** Scripted turns that no request has taken yet. */
  get unused(): number {
    return this.#queue.length
  }

  /** Adds turns to the queue: each valid model request takes one. */
  script(turns: readonly Turn[]): void {
    this.#queue.push(...turns)
  }

  /** Answers by content whatever the queue does not: for concurrent runs, several agents and histories. */
  respond(responder: Responder): void {
    this.#responder = responder
  }

  gate(): Gate {
    return new Gate()
  }

  /**
   * Resolves when `count` model requests in all have arrived.
   *
   * @throws Error after 10 seconds.
   */
  waitForRequests(count: number): Promise<void> {
    return this.#arrived.reach(count)
  }

  /**
   * Resolves when `count` model requests in all were abandoned by their clients.
   *
   * @throws Error after 10 seconds.
   */
  waitForAborts(count: number): Promise<void> {
    return this.#abandoned.reach(count)
  }

  /** Ends every answer and frees the port. Safe to repeat. */
  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return
    this.#closing.abort()
    const ends = [this.#server, ...this.#sockets].map((open) => once(open, 'close'))
    this.#server.close()
    this.#server.closeAllConnections()
    await Promise.all(ends)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const bytes = await buffer(incoming).catch(() => null)
    if (!bytes) return
    const { method = 'GET', url: path = '/', headers } = incoming
    const request = new RecordedRequest({ order: this.requests.length + 1, method, path, headers, bytes })
    this.requests.push(request)
    response.setHeader('x-request-id', newId('req'))
    try {
      await this.#route(request, response)
    } catch (cause) {
      const error = cause instanceof ProviderError ? cause : new ProviderError(`The script failed: ${String(cause)}`)
      this.rejected.push({ request, error })
      sendJson(response, error.status, error.body)
    }
  }

  async #route(request: RecordedRequest, response: ServerResponse): Promise<void> {
    if (request.api === 'responses' || request.api === 'chat') return this.#answerModel(request, response)
    this.#authenticate(request)
    if (request.api === 'models') return sendJson(response, 200, MODELS)
    if (request.api === 'other') {
      throw new ProviderError(`Invalid URL (${request.method} ${request.path})`, { status: 404 })
    }
    const answer = await this.files.answer(request)
    if (Buffer.isBuffer(answer)) response.setHeader('content-type', 'application/octet-stream').end(answer)
    else sendJson(response, 200, answer)
  }

  #authenticate({ apiKey }: RecordedRequest): void {
    const { apiKeys, validate = true } = this.#options
    if (apiKeys ? apiKey !== null && apiKeys.includes(apiKey) : apiKey !== null || !validate) return
    const message = apiKey === null ? "You didn't provide an API key." : `Incorrect API key provided: ${apiKey}.`
    throw new ProviderError(message, { status: 401, code: 'invalid_api_key' })
  }

  async #answerModel(request: RecordedRequest, response: ServerResponse): Promise<void> {
    const client = new ClientWatch(response, this.#closing.signal, () => this.#abandoned.increment())
    this.#arrived.increment()
    this.#authenticate(request)
    this.#check(request)
    const parts = partsOf(await this.#nextTurn(request))
    await passHeaderHolds(parts, client.signal)
    const http = parts.find((part) => part.part === 'http')
    if (http) return sendHttp(response, http)
    const answer = request.api === 'responses' ? responsesAnswer(parts, request) : chatAnswer(parts, request)
    this.#issued.remember(answer.output, request.body['store'] !== false)
    if (request.stream) await sendStream(response, { answer, parts, client })
    else await sendWhole(response, { answer, parts, client })
  }

  #check(request: RecordedRequest): void {
    if (!request.isJson) throw new ProviderError('We could not parse the JSON body of your request.')
    if (this.#options.validate === false) return
    if (request.api === 'responses') checkResponsesRequest(request, this.#issued)
    else checkChatRequest(request)
  }

  async #nextTurn(request: RecordedRequest): Promise<Turn> {
    const turn = this.#queue.shift() ?? (await this.#responder(request))
    if (turn) return turn
    const message = `Nothing is scripted for model request ${this.#arrived.value}: ${request.lastUserText}`
    throw new ProviderError(message, { code: 'nothing_scripted' })
  }
}

/** Stops that come before the status line. An answer that is one HTTP error has no other place for them. */
async function passHeaderHolds(parts: readonly Part[], signal: AbortSignal): Promise<void> {
  const early = parts.some((part) => part.part === 'http')
  for (const part of parts) {
    if (part.part === 'hold' && (early || part.before === 'headers')) await part.gate.pass(signal)
  }
}

const modelObject = (id: string): JsonObject => ({ id, object: 'model', created: 1_754_000_000, owned_by: 'system' })

const MODELS: JsonObject = { object: 'list', data: ['gpt-5', 'gpt-5-mini', 'gpt-5-nano'].map(modelObject) }
