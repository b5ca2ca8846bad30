import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type WebSocket, WebSocketServer } from 'ws'
import type { Gate } from '../../../../tests/support/fake-provider.ts'
import type { Json } from '../../../../tests/support/test-server.ts'
import { Mailbox } from './mailbox.test-support.ts'

/** What the model does with one `response.create`: one output item, or a stop that the test opens. */
type RealtimeStep =
  | { readonly say: string; readonly audio: readonly Buffer[]; readonly hold?: Gate; readonly as?: 'text' }
  | { readonly call: string; readonly args: Json; readonly callId: string }

type RealtimeResponse = readonly RealtimeStep[]

export const speech = (say: string, audio: readonly Buffer[] = [Buffer.alloc(480)], hold?: Gate): RealtimeStep => ({
  say,
  audio,
  ...(hold && { hold }),
})

export const call = (name: string, args: Json, callId: string): RealtimeStep => ({ call: name, args, callId })

/**
 * Starts a stand-in for a realtime provider: the OpenAI Realtime protocol over real WebSockets on a loopback port.
 *
 * It confirms settings, keeps an audio buffer and a conversation, and answers `response.create` with what the test
 * scripts. What the real service refuses, it refuses with an `error` event.
 */
export async function startRealtimeProvider(): Promise<FakeRealtimeProvider> {
  const server = createServer((_request, response) => response.writeHead(426).end())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return new FakeRealtimeProvider(server)
}

export class FakeRealtimeProvider {
  readonly url: string
  readonly sessions: ProviderSession[] = []
  /** Handshakes are answered with this status instead. */
  refuseWith: number | undefined
  /** What every response has cost. */
  usage: Json = { total_tokens: 12, input_tokens: 7, output_tokens: 5 }
  /** The message with which the next settings are refused. */
  refuseSettings: string | undefined
  readonly #server: Server
  readonly #arrivals = new Mailbox<ProviderSession>('realtime sessions')
  readonly #queue: RealtimeResponse[] = []

  constructor(server: Server) {
    this.#server = server
    this.url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/v1/realtime`
    const sockets = new WebSocketServer({ noServer: true })
    server.on('upgrade', (request, socket, head) => {
      if (this.refuseWith !== undefined) {
        socket.end(`HTTP/1.1 ${this.refuseWith} Refused\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`)
        return
      }
      sockets.handleUpgrade(request, socket, head, (accepted) => {
        const session = new ProviderSession(this, accepted, request.url ?? '', request.headers)
        this.sessions.push(session)
        this.#arrivals.add(session)
      })
    })
  }

  /** Answers for coming `response.create` events, in order, whichever session they come from. */
  script(responses: readonly RealtimeResponse[]): void {
    this.#queue.push(...responses)
  }

  takeResponse(): RealtimeResponse | undefined {
    return this.#queue.shift()
  }

  /** Drops what was scripted and not asked for. */
  forget(): void {
    this.#queue.length = 0
  }

  /** The next session that a client opens. */
  nextSession(): Promise<ProviderSession> {
    return this.#arrivals.next(() => true)
  }

  async close(): Promise<void> {
    for (const session of this.sessions) session.socket.terminate()
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }
}

let numbers = 0
const newId = (prefix: string): string => `${prefix}_${++numbers}`

/** One client's session, as the provider has it. */
class ProviderSession {
  readonly socket: WebSocket
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** Every event of the client, in order. */
  readonly received: Json[] = []
  /** The settings in force. */
  settings: Json = { type: 'realtime', object: 'realtime.session', instructions: 'default', tools: [], tracing: null }
  closeCode: number | undefined
  readonly #provider: FakeRealtimeProvider
  readonly #events = new Mailbox<Json>('events of the realtime client')
  readonly #items = new Map<string, Json>()
  #bufferedBytes = 0
  #active: string | undefined

  constructor(provider: FakeRealtimeProvider, socket: WebSocket, path: string, headers: IncomingHttpHeaders) {
    this.#provider = provider
    this.socket = socket
    this.path = path
    this.headers = headers
    socket.on('message', (data: Buffer) => {
      const event = JSON.parse(data.toString())
      this.received.push(event)
      this.#handle(event)
      this.#events.add(event)
    })
    socket.on('close', (code) => {
      this.closeCode = code
      this.#events.add({ type: 'close' })
    })
    this.send({ type: 'session.created', session: this.settings })
  }

  send(event: Json): void {
    this.socket.send(JSON.stringify({ event_id: newId('event'), ...event }))
  }

  /** The next event of this type that the client sends, or one that it has sent and nobody has waited for. */
  next(type: string): Promise<Json> {
    return this.#events.next((event) => event.type === type)
  }

  #handle(event: Json): void {
    switch (event.type) {
      case 'session.update':
        return this.#update(event.session)
      case 'input_audio_buffer.append':
        this.#bufferedBytes += Buffer.from(event.audio, 'base64').length
        return
      case 'input_audio_buffer.commit':
        return void this.#commit()
      case 'conversation.item.create':
        return this.#addItem({ id: newId('item'), status: 'completed', ...event.item })
      case 'conversation.item.truncate':
        return this.send({ ...event, type: 'conversation.item.truncated' })
      case 'conversation.item.retrieve':
        return this.send({ type: 'conversation.item.retrieved', item: this.#items.get(event.item_id) })
      case 'response.create':
        return void this.#respond()
      case 'response.cancel':
        return this.#cancel()
      default:
        return this.#refuse(`Invalid value: '${event.type}'.`, event.event_id)
    }
  }

  #refuse(message: string, eventId?: string): void {
    this.send({
      type: 'error',
      error: { type: 'invalid_request_error', code: 'invalid_value', message, event_id: eventId ?? null },
    })
  }

  #update(session: Json): void {
    const refusal = this.#provider.refuseSettings
    this.#provider.refuseSettings = undefined
    if (refusal) return this.#refuse(refusal)
    this.settings = { ...this.settings, ...session }
    this.send({ type: 'session.updated', session: this.settings })
  }

  /** What the detection of turns does when the user has stopped speaking. @returns The item that was said. */
  detectTurn(): string {
    const id = this.#commit()
    void this.#respond()
    return id
  }

  #commit(): string {
    if (this.#bufferedBytes === 0) {
      this.#refuse('The input audio buffer is empty.')
      return ''
    }
    this.#bufferedBytes = 0
    const id = newId('item')
    this.send({ type: 'input_audio_buffer.committed', item_id: id, previous_item_id: null })
    const content = [{ type: 'input_audio', audio: 'AAAA', transcript: null }]
    this.#addItem({ id, type: 'message', role: 'user', status: 'completed', content })
    return id
  }

  /** What the client has said, once the provider has understood it. */
  transcribe(itemId: string, transcript: string, usage?: Json): void {
    const item = this.#items.get(itemId)
    item.content[0].transcript = transcript
    const type = 'conversation.item.input_audio_transcription.completed'
    this.send({ type, item_id: itemId, content_index: 0, transcript, usage })
  }

  #addItem(item: Json): void {
    this.#items.set(item.id, item)
    this.send({ type: 'conversation.item.added', item, previous_item_id: null })
    this.send({ type: 'conversation.item.done', item, previous_item_id: null })
  }

  async #respond(): Promise<void> {
    if (this.#active) return this.#refuse('Conversation already has an active response.')
    const steps = this.#provider.takeResponse()
    const id = newId('resp')
    this.#active = id
    this.send({
      type: 'response.created',
      response: { id, object: 'realtime.response', status: 'in_progress', output: [] },
    })
    const output: Json[] = []
    for (const [index, step] of (steps ?? []).entries()) {
      output.push('call' in step ? this.#sendCall(step, id, index) : await this.#sendSpeech(step, id, index))
      if (this.#active !== id) return
    }
    this.#done(id, 'completed', output)
  }

  #sendCall(step: Extract<RealtimeStep, { call: string }>, responseId: string, index: number): Json {
    const place = { response_id: responseId, output_index: index }
    const item = { id: newId('item'), type: 'function_call', name: step.call, call_id: step.callId }
    const args = JSON.stringify(step.args)
    this.send({ type: 'response.output_item.added', ...place, item: { ...item, status: 'in_progress', arguments: '' } })
    const part = { ...place, item_id: item.id, call_id: step.callId }
    this.send({ type: 'response.function_call_arguments.delta', ...part, delta: args })
    this.send({ type: 'response.function_call_arguments.done', ...part, arguments: args })
    const done = { ...item, status: 'completed', arguments: args }
    this.send({ type: 'response.output_item.done', ...place, item: done })
    return done
  }

  async #sendSpeech(step: Extract<RealtimeStep, { say: string }>, responseId: string, index: number): Promise<Json> {
    const place = { response_id: responseId, output_index: index }
    const item = { id: newId('item'), object: 'realtime.item', type: 'message', role: 'assistant' }
    const part = { ...place, item_id: item.id, content_index: 0 }
    this.send({ type: 'response.output_item.added', ...place, item: { ...item, status: 'in_progress', content: [] } })
    for (const word of step.say.split(/(?<= )/)) {
      this.send({ type: 'response.output_audio_transcript.delta', ...part, delta: word })
    }
    for (const [number, chunk] of step.audio.entries()) {
      this.send({ type: 'response.output_audio.delta', ...part, delta: chunk.toString('base64') })
      if (number === 0 && step.hold) await step.hold.pass(new AbortController().signal)
      if (this.#active !== responseId) return item
    }
    this.send({ type: 'response.output_audio.done', ...part })
    this.send({ type: 'response.output_audio_transcript.done', ...part, transcript: step.say })
    const done = { ...item, status: 'completed', content: [{ type: 'output_audio', transcript: step.say }] }
    this.#items.set(item.id, done)
    this.send({ type: 'response.output_item.done', ...place, item: done })
    return done
  }

  #cancel(): void {
    if (!this.#active) return this.#refuse('Cancellation failed: no active response found')
    this.#done(this.#active, 'cancelled', [])
  }

  #done(id: string, status: string, output: Json[]): void {
    this.#active = undefined
    const { usage } = this.#provider
    this.send({ type: 'response.done', response: { id, object: 'realtime.response', status, output, usage } })
  }
}
