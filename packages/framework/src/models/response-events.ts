import type { WireItem } from '@bureau/protocol'
import {
  type FunctionCallEvents,
  type ItemEnd,
  type ItemPlace,
  type MessageEvents,
  newWireId,
  openFunctionCall,
  openMessage,
  openReasoning,
  openWholeItem,
  type ReasoningEvents,
  type WholeItemEvents,
} from './response-items.ts'
import type { ModelCallObserver, ResponsesRequest, ResponsesResponse } from '../agency/model-object.ts'

/** Token counts of one response, in the words of the Responses API. Input tokens include the cached ones. */
export type ResponseUsage = {
  readonly input_tokens: number
  readonly input_tokens_details: { readonly cached_tokens: number; readonly [detail: string]: number }
  readonly output_tokens: number
  readonly output_tokens_details: { readonly reasoning_tokens: number; readonly [detail: string]: number }
  readonly total_tokens: number
}

export type IncompleteReason = 'max_output_tokens' | 'content_filter'

type OpenItem = { done(end?: ItemEnd): void }

/**
 * Writes one model response as the event sequence of the Responses API, for models that do not speak it themselves.
 *
 * `text`, `refusal`, `reasoning` and `functionCall` follow the order in which the model speaks: a change of kind ends
 * the item before. The `open…` methods give items that stay open side by side. Ids are new and random; items are listed
 * in the order in which they were opened. Instructions and tools of the request are not repeated in the events.
 *
 * Nothing may be written after `complete`, `incomplete` or `fail`.
 */
export class ResponseEventWriter {
  readonly responseId = newWireId('resp')
  readonly #observer: ModelCallObserver
  readonly #settings: Readonly<Record<string, unknown>>
  readonly #createdAt = Math.floor(Date.now() / 1_000)
  readonly #open = new Map<number, OpenItem>()
  readonly #output: (WireItem | undefined)[] = []
  #model: string
  #sequence = 0
  #speechless = true
  #message: MessageEvents | undefined
  #reasoning: ReasoningEvents | undefined
  #state: 'new' | 'started' | 'ended' = 'new'

  constructor(observer: ModelCallObserver, request: Partial<ResponsesRequest>) {
    this.#observer = observer
    this.#settings = settingsOf(request)
    this.#model = request.model ?? ''
  }

  /** True while there is neither a message nor a call: reasoning alone is not an answer. */
  get speechless(): boolean {
    return this.#speechless
  }

  /** Says that the model has begun. Needed only to say so before its first word, or to name the model that answers. */
  start(model?: string): void {
    if (this.#state === 'ended') throw new Error('the response has ended')
    if (this.#state === 'started') return
    this.#state = 'started'
    this.#model = model ?? this.#model
    const response = this.#response('in_progress', null)
    this.#send({ type: 'response.created', response })
    this.#send({ type: 'response.in_progress', response })
  }

  text(delta: string): void {
    this.#currentMessage().text(delta)
  }

  refusal(delta: string): void {
    this.#currentMessage().refusal(delta)
  }

  /** A piece of the reasoning summary. */
  reasoning(delta: string): void {
    if (!this.#reasoning) {
      this.#endCurrent()
      this.#reasoning = this.openReasoning()
    }
    this.#reasoning.summary(delta)
  }

  /** A call whose arguments follow. It stays open, so that parallel calls may arrive interleaved. */
  functionCall(call: { readonly name: string; readonly callId?: string; readonly id?: string }): FunctionCallEvents {
    this.#endCurrent()
    return this.openFunctionCall(call)
  }

  /** An item that the model gives at once, of any type. Its id, which is returned, is kept when it has one. */
  item(item: WireItem): string {
    this.#endCurrent()
    const whole = this.openItem(item)
    whole.done()
    return whole.id
  }

  /** The same for an item that the provider still works on. */
  openItem(item: WireItem): WholeItemEvents {
    this.#speechless &&= item.type === 'reasoning'
    const place = this.#place()
    return this.#keep(place, openWholeItem(place, item))
  }

  openMessage(id?: string): MessageEvents {
    this.#speechless = false
    const place = this.#place()
    return this.#keep(place, openMessage(place, id))
  }

  openReasoning(id?: string): ReasoningEvents {
    const place = this.#place()
    return this.#keep(place, openReasoning(place, id))
  }

  openFunctionCall(call: {
    readonly name: string
    readonly callId?: string
    readonly id?: string
  }): FunctionCallEvents {
    this.#speechless = false
    const place = this.#place()
    return this.#keep(place, openFunctionCall(place, { ...call, callId: call.callId ?? newWireId('call') }))
  }

  complete(usage: ResponseUsage | null): void {
    this.#end('completed', { usage, completed_at: Math.floor(Date.now() / 1_000) })
  }

  /** The answer was cut off; items that are still open are marked as incomplete. */
  incomplete(reason: IncompleteReason, usage: ResponseUsage | null): void {
    this.#end('incomplete', { usage, incomplete_details: { reason } })
  }

  /** The provider reported a failure after it had accepted the request. */
  fail(error: { readonly code: string; readonly message: string }, usage: ResponseUsage | null = null): void {
    this.#end('failed', { usage, error })
  }

  #end(status: 'completed' | 'incomplete' | 'failed', fields: Readonly<Record<string, unknown>>): void {
    this.start()
    const end: ItemEnd = { status: status === 'completed' ? 'completed' : 'incomplete' }
    for (const item of this.#open.values()) item.done(end)
    this.#state = 'ended'
    this.#send({ type: `response.${status}`, response: { ...this.#response(status, null), ...fields } })
  }

  #currentMessage(): MessageEvents {
    if (this.#message) return this.#message
    this.#endCurrent()
    return (this.#message = this.openMessage())
  }

  #endCurrent(): void {
    this.#message?.done()
    this.#reasoning?.done()
    this.#message = this.#reasoning = undefined
  }

  #keep<Item extends OpenItem>(place: ItemPlace, item: Item): Item {
    this.#open.set(place.outputIndex, item)
    return item
  }

  #place(): ItemPlace {
    this.start()
    const outputIndex = this.#output.push(undefined) - 1
    return {
      outputIndex,
      send: (event) => this.#send(event),
      sendDelta: (kind, head, delta) =>
        this.#observer.onEvent(kind, `${head}${this.#sequence++},"delta":${JSON.stringify(delta)}}`),
      close: (item) => {
        this.#open.delete(outputIndex)
        this.#output[outputIndex] = item
      },
    }
  }

  #send(event: { readonly type: string; readonly [key: string]: unknown }): void {
    this.#observer.onEvent(event.type, JSON.stringify({ ...event, sequence_number: this.#sequence++ }))
  }

  #response(status: string, usage: ResponseUsage | null): ResponsesResponse {
    return {
      id: this.responseId,
      object: 'response',
      created_at: this.#createdAt,
      status,
      background: false,
      error: null,
      incomplete_details: null,
      instructions: null,
      model: this.#model,
      output: this.#output.filter((item) => item !== undefined),
      previous_response_id: null,
      store: false,
      tools: [],
      usage,
      ...this.#settings,
    }
  }
}

/** The members of a response that repeat the request, with the values that stand for "not given". */
const SETTINGS = {
  max_output_tokens: null,
  metadata: {},
  parallel_tool_calls: true,
  reasoning: { effort: null, summary: null },
  temperature: null,
  text: { format: { type: 'text' } },
  tool_choice: 'auto',
  top_p: null,
  truncation: 'disabled',
}

function settingsOf(request: Partial<ResponsesRequest>): Record<string, unknown> {
  const entries = Object.entries(SETTINGS).map(([name, absent]) => [name, request[name] ?? absent])
  return Object.fromEntries(entries)
}
