import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import {
  hold,
  partsOf,
  RecordedRequest,
  text,
  textDeltas,
  toolCall,
  type Turn,
  usage,
} from '../support/fake-provider.ts'
import { checkResponsesRequest } from '../support/provider/check-responses-request.ts'
import { ClientWatch } from '../support/provider/client-watch.ts'
import { Gate } from '../support/provider/gate.ts'
import { IssuedItems } from '../support/provider/issued-items.ts'
import { ProviderError } from '../support/provider/provider-error.ts'
import { responsesAnswer } from '../support/provider/responses-wire.ts'
import { sendJson, sendStream } from '../support/provider/send-answer.ts'

/**
 * How the model answers a message: at once, after a tool call or ten, after one or ten of which a person has to approve
 * one, half until `release`, half after a tool call, or after a bit of everything (`MIXED`).
 */
export type Behaviour =
  | 'answer'
  | 'tool'
  | 'steps'
  | 'pay'
  | 'pay-steps'
  | 'hold'
  | 'tool-hold'
  | 'mixed'
  | 'mixed-hold'
  | 'errand'

export const STEPS = 10
/** Of the calls of `pay-steps`, the one that a person decides about. */
export const APPROVED_STEP = 5

/** What the agents of a mixed run do before they answer: the tools of a call each; the message has another agent do an errand. */
const MIXED = ['look_up', 'look_up', 'send_message', 'pay', 'transfer_to_Closer', 'look_up', 'look_up']

/** How often a run asks the model. */
export const turnsOf = (behaviour: Behaviour): number =>
  toolsOf(behaviour).length + 1 + (behaviour.startsWith('mixed') ? turnsOf('errand') : 0)

/** The tools that a run calls, one after the other. */
function toolsOf(behaviour: string | undefined = ''): readonly string[] {
  if (behaviour.startsWith('mixed')) return MIXED
  if (behaviour.endsWith('steps')) {
    const paid = behaviour === 'pay-steps' ? APPROVED_STEP - 1 : -1
    return Array.from({ length: STEPS }, (_, index) => (index === paid ? 'pay' : 'look_up'))
  }
  if (behaviour === 'pay') return ['pay']
  return behaviour.startsWith('tool') || behaviour === 'errand' ? ['look_up'] : []
}

/** One request to the model. */
export type ModelCall = {
  /** The number of the message that it answers. */
  readonly ask: number
  readonly chat: string
  readonly tokens: { readonly input: number; readonly output: number }
  /** Numbers of the messages whose images it was sent. */
  readonly images: readonly number[]
  /** `finished`: the whole answer was handed to the network. */
  state: 'active' | 'finished' | 'abandoned'
}

/** Behind the last chunk of a PNG: decoders ignore it, the model reads the number of the message from it. */
const IMAGE_MARK = /ask-(\d+)-image$/
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='

export function imageOf(ask: number): string {
  const marked = Buffer.concat([Buffer.from(PIXEL, 'base64'), Buffer.from(`ask-${ask}-image`)])
  return `data:image/png;base64,${marked.toString('base64')}`
}

/** What a message has to say to the model: its number, how it wants to be answered, and its chat. */
export const messageOf = (ask: number, behaviour: Behaviour, chat: string): string => `#${ask} ${behaviour} in ${chat}`
const MESSAGE = /#(\d+) (answer|tool|steps|pay|pay-steps|hold|tool-hold|mixed|mixed-hold|errand) in (\S+)$/

/** What the tool is called with at a step. */
export const callOf = (ask: number, step: number | 'errand'): string => `#${ask}.${step}`

export const answerTo = (ask: number): string => `This is the answer to ${ask}.`

/** The stand-in for the provider. It checks every request as the real one does, and remembers what it gave. */
export class Model {
  readonly calls: ModelCall[] = []
  /** What must not happen, and did. */
  readonly complaints: string[] = []
  readonly baseUrl: string
  readonly #server: Server
  readonly #closing = new AbortController()
  readonly #issued = new IssuedItems()
  #gate = new Gate()
  /** False while a process that others took for dead may still have a request open. */
  #oneCallPerChat = true

  private constructor(server: Server) {
    this.#server = server
    this.baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
    server.on('request', (request, response) => void this.#serve(request, response))
  }

  static async start(): Promise<Model> {
    const server = createServer({ keepAliveTimeout: 60_000 })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new Model(server)
  }

  callsOf(ask: number): readonly ModelCall[] {
    return this.calls.filter((call) => call.ask === ask)
  }

  /** Lets all answers that are held go on. */
  release(): void {
    this.#gate.release()
    this.#gate = new Gate()
  }

  expectOverlaps(expected: boolean): void {
    this.#oneCallPerChat = !expected
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#server.close()
    this.#server.closeAllConnections()
    await once(this.#server, 'close')
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const bytes = await buffer(incoming).catch(() => null)
    if (!bytes) return
    const { method = 'GET', url: path = '/', headers } = incoming
    const request = new RecordedRequest({ order: this.calls.length + 1, method, path, headers, bytes })
    try {
      await this.#answer(request, response)
    } catch (cause) {
      const error = cause instanceof ProviderError ? cause : new ProviderError(String(cause))
      this.complaints.push(`the model refused a request: ${JSON.stringify(error.body)}, ${request.lastUserText}`)
      sendJson(response, error.status, error.body)
    }
  }

  async #answer(request: RecordedRequest, response: ServerResponse): Promise<void> {
    const call = this.#begin(request)
    response.once('close', () => {
      if (call.state === 'active') call.state = response.writableFinished ? 'finished' : 'abandoned'
    })
    checkResponsesRequest(request, this.#issued)
    const parts = partsOf([this.#turnOf(request, call), usage(call.tokens)])
    const client = new ClientWatch(response, this.#closing.signal, () => (call.state = 'abandoned'))
    const answer = responsesAnswer(parts, request)
    this.#issued.remember(answer.output, request.body['store'] !== false)
    await sendStream(response, { answer, parts, client })
    if (call.state === 'active') call.state = 'finished'
  }

  #begin(request: RecordedRequest): ModelCall {
    const [, number = '', , chat = ''] = MESSAGE.exec(request.lastUserText) ?? []
    if (number === '') throw new ProviderError('nobody asked this', { code: 'nothing_scripted' })
    const ask = Number(number)
    const overlapping = this.calls.find((other) => other.chat === chat && other.state === 'active')
    if (overlapping && this.#oneCallPerChat) {
      this.complaints.push(`I14: the model has two requests of ${chat} at once, for #${overlapping.ask} and #${ask}`)
    }
    const tokens = { input: 10 + (ask % 50), output: 5 + (ask % 7) }
    const call: ModelCall = { ask, chat, tokens, images: imagesIn(request), state: 'active' }
    this.calls.push(call)
    return call
  }

  #turnOf(request: RecordedRequest, { ask, chat }: ModelCall): Turn {
    const [, , behaviour] = MESSAGE.exec(request.lastUserText) ?? []
    const done = request.toolOutputs.length
    const tool = toolsOf(behaviour)[done]
    if (tool === 'send_message') {
      const message = messageOf(ask, 'errand', chat)
      return toolCall(tool, { recipient_agent: 'Clerk', message, additional_instructions: '' })
    }
    if (tool?.startsWith('transfer')) return toolCall(tool)
    if (tool !== undefined) return toolCall(tool, { what: callOf(ask, behaviour === 'errand' ? 'errand' : done + 1) })
    if (behaviour === 'errand') return text('It is done.')
    if (behaviour?.endsWith('hold')) return textDeltas(['This is ', 'the ', hold(this.#gate), `answer to ${ask}.`])
    return text(answerTo(ask))
  }
}

function imagesIn(request: RecordedRequest): number[] {
  const urls = JSON.stringify(request.items).matchAll(/data:image\/png;base64,([A-Za-z0-9+/=]+)/g)
  return [...urls].flatMap(([, base64 = '']) => {
    const [, ask] = IMAGE_MARK.exec(Buffer.from(base64, 'base64').toString('latin1')) ?? []
    return ask === undefined ? [] : [Number(ask)]
  })
}
