import type { ModelEvent, RunEnded, RunEventOf, ServiceError, WireItem } from '@bureau/protocol'
import type { LogEvent } from '@bureau/runtime'
import { DONE } from '../openai/api-error.ts'
import { createdItem, incompleteReason, isWithUser, itemOf, parsedEvent } from '../openai/model-event.ts'
import { type OutputItem, OutputItems } from './output-items.ts'
import { findNumbers, renameItem, renumber } from './renumber.ts'
import type { DescribeResponse, ResponseResource } from './resource.ts'
import { type KindOfCall, Steps } from './steps.ts'
import {
  approvalItem,
  approvalMessage,
  asBegun,
  asOutput,
  eventsBetween,
  messageItem,
  outputOf,
} from './whole-items.ts'

export type ResponseStream = {
  /** Of the response. */
  readonly id: string
  readonly approvalsUrl: string | undefined
  readonly describe: DescribeResponse
  /** The agent that was addressed, and the functions of the caller that it is offered. */
  readonly agent: string
  readonly functions: ReadonlySet<string>
  /** Present: what the agents do is part of the output, as items of types of our own. */
  readonly kindOfCall?: KindOfCall
  /** True: nothing but what the specification knows. */
  readonly isStrict: boolean
}

/** What the specification calls the items of a response. */
const STANDARD_ITEMS = new Set(['message', 'function_call', 'function_call_output', 'reasoning'])

/** Not part of an answer: lists of tools that a provider made for itself. */
const WITHHELD_ITEMS = new Set(['mcp_list_tools', 'openai_list_tools'])

/**
 * A run as the events of one response: one beginning and one end, with numbers and places that go on over all requests to
 * models. Every reader of a run gets the same events: they depend on the log alone.
 */
export class ResponseEvents {
  readonly stream: ResponseStream
  /** Only what has a higher number is shown. */
  readonly #after: number
  readonly #items: OutputItems
  readonly #steps: Steps | undefined
  #begun = false
  #seq = 0
  /** Items of the running model response by their places in it; null: not shown. */
  readonly #places = new Map<number, OutputItem | null>()
  /** Messages that a model has finished and the run has not yet taken over. */
  #finishedMessages = 0
  readonly #calls = new Set<string>()
  #incomplete: string | undefined
  #isLost = false
  #resource: ResponseResource | undefined

  /** @param after - The number of the last event that the reader has. The first one is 0. */
  constructor(stream: ResponseStream, after = -1) {
    this.stream = stream
    this.#after = after
    this.#items = new OutputItems(stream.id)
    const { kindOfCall } = stream
    if (!kindOfCall) return
    this.#steps = new Steps(
      kindOfCall,
      (item) => this.#open(item),
      (entry, item) => this.#close(entry, item),
    )
  }

  /** The response as it is now. */
  get resource(): ResponseResource {
    return this.#resource ?? this.stream.describe({ status: 'in_progress', output: this.#items.finished })
  }

  encode(event: LogEvent): string {
    if (this.#begun) return this.#frames(event)
    this.#begun = true
    // What begins a response is not kept in every log.
    const response = this.stream.describe({ status: 'in_progress', output: [] })
    const begin = this.#frame('response.created', { response }) + this.#frame('response.in_progress', { response })
    return begin + this.#frames(event)
  }

  /** What ends the stream of a client that may read no longer. The response goes on. */
  refuse({ code, message }: ServiceError): string {
    return `${this.#frame('error', { code, message, param: null })}${DONE}`
  }

  #frames(event: LogEvent): string {
    if (event.type === 'model.event' || event.type === 'item.created') {
      if (this.#isLost || !isWithUser(event.source)) return ''
      return event.type === 'model.event' ? this.#onModelEvent(event) : this.#onItemCreated(event)
    }
    switch (event.type) {
      case 'custom':
        return this.#steps?.custom(event) ?? ''
      case 'oauth.redirect':
        return this.#signIn(event)
      case 'approval.requested':
        return this.#approval(event)
      case 'log.reset':
        this.#isLost = true
        return ''
      case 'run.ended':
        return this.#end(event)
      default:
        return ''
    }
  }

  /** Whoever is not shown the steps must still learn where to go. */
  #signIn(event: RunEventOf<'oauth.redirect'>): string {
    return this.#steps?.signIn(event) ?? this.#whole(messageItem(`Sign in to ${event.server}: ${event.auth_url}`))
  }

  /**
   * Clients that know no items of ours find nothing in such a response, and some ask again and again: they get a message too.
   */
  #approval(event: RunEventOf<'approval.requested'>): string {
    const { approvalsUrl } = this.stream
    const message = this.#steps ? '' : this.#whole(approvalMessage(event, approvalsUrl))
    return message + this.#whole(approvalItem(event, approvalsUrl))
  }

  #frame(type: string, fields: object): string {
    const seq = this.#seq++
    if (seq <= this.#after) return ''
    return `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: seq, ...fields })}\n\n`
  }

  #onModelEvent(event: ModelEvent): string {
    switch (event.kind) {
      case 'response.created':
      case 'response.in_progress':
      case 'response.queued':
        if (event.kind === 'response.created') this.#beginModelResponse()
        return ''
      case 'response.incomplete':
        this.#incomplete = incompleteReason(event)
        return ''
      case 'response.completed':
      case 'response.failed':
        return ''
      case 'response.output_item.added':
        return this.#onAdded(event)
      case 'response.output_item.done':
        return this.#onDone(event)
      default:
        return event.kind.startsWith('response.') ? this.#passOn(event) : ''
    }
  }

  #beginModelResponse(): void {
    this.#places.clear()
    this.#incomplete = undefined
  }

  /** An event of an item with the numbers that it has here. */
  #passOn(event: ModelEvent): string {
    const { kind, json } = event
    const numbers = findNumbers(json)
    if (!numbers) return this.#passOnParsed(event)
    const item = this.#places.get(Number(json.slice(numbers.indexStart, numbers.indexEnd)))
    if (!item) return ''
    const seq = this.#seq++
    if (seq <= this.#after) return ''
    const text = renumber(json, numbers, item.index, seq)
    const named = item.renamed === undefined ? text : renameItem(text, item.renamed, item.id)
    if (!this.stream.isStrict || !kind.startsWith(OPEN_REASONING)) return `event: ${kind}\ndata: ${named}\n\n`
    const strict = this.#nameOf(kind)
    return `event: ${strict}\ndata: ${named.replace(`"type":"${kind}"`, `"type":"${strict}"`)}\n\n`
  }

  #nameOf(kind: string): string {
    return this.stream.isStrict ? kind.replace(OPEN_REASONING, 'response.reasoning.') : kind
  }

  /** For servers that lay out their JSON in another way. */
  #passOnParsed(event: ModelEvent): string {
    const { type: _, sequence_number: __, output_index: place, ...fields } = parsedEvent(event.json)
    const item = this.#places.get(place ?? -1)
    if (!item) return ''
    return this.#frame(this.#nameOf(event.kind), { ...fields, item_id: item.id, output_index: item.index })
  }

  /** The agents' own calls are steps of theirs; those of the caller's functions are for the caller. */
  #isShown(item: WireItem, agent: string): boolean {
    const type = item.type ?? 'message'
    if (type === 'function_call') return this.#isCallers(item, agent)
    return this.stream.isStrict ? STANDARD_ITEMS.has(type) : !WITHHELD_ITEMS.has(type)
  }

  #isCallers({ type, name }: WireItem, agent: string): boolean {
    return type === 'function_call' && agent === this.stream.agent && this.stream.functions.has(String(name))
  }

  #onAdded(event: ModelEvent): string {
    const item = itemOf(event)
    if (!item) return ''
    const place = placeOf(event, this.#places.size)
    if (!this.#isShown(item, event.source.agent)) {
      this.#places.set(place, null)
      return ''
    }
    const { entry, text } = this.#open(item)
    this.#places.set(place, entry)
    return text
  }

  #onDone(event: ModelEvent): string {
    const item = itemOf(event)
    if (!item || !this.#isShown(item, event.source.agent)) return ''
    if (item.type === 'message') this.#finishedMessages++
    const place = placeOf(event, this.#places.size)
    const entry = this.#places.get(place)
    return entry ? this.#close(entry, item) : this.#whole(item)
  }

  #onItemCreated(event: RunEventOf<'item.created'>): string {
    const item = createdItem(event)
    const begun = this.#begunAs(item)
    if (begun) return this.#close(begun, item)
    if (item.type === 'message') {
      if (this.#finishedMessages === 0) return this.#whole(item)
      this.#finishedMessages--
      return ''
    }
    if (!this.#isCallers(item, event.source.agent)) return this.#steps?.onItem(event, item) ?? ''
    return this.#calls.has(item.call_id ?? '') ? '' : this.#whole(item)
  }

  /** An item that has begun and whose end no event of the model has told: some servers send it with the whole response only. */
  #begunAs({ id }: WireItem): OutputItem | undefined {
    const isIt = (entry: OutputItem): boolean => (entry.renamed ?? entry.id) === id && !this.#items.isFinished(entry)
    return [...this.#places.values()].find((entry) => entry && isIt(entry)) ?? undefined
  }

  #open(item: WireItem): { readonly entry: OutputItem; readonly text: string } {
    if (item.type === 'function_call') this.#calls.add(item.call_id ?? '')
    const entry = this.#items.add(item)
    const shown = { ...item, id: entry.id }
    return { entry, text: this.#frame('response.output_item.added', { output_index: entry.index, item: shown }) }
  }

  #close(entry: OutputItem, item: WireItem): string {
    const finished = this.#items.finish(entry, item)
    return this.#frame('response.output_item.done', { output_index: entry.index, item: finished })
  }

  /** An item that no model has streamed. */
  #whole(item: WireItem): string {
    const whole = asOutput(item)
    const { entry, text } = this.#open(asBegun(whole))
    const between = eventsBetween(whole, { item_id: entry.id, output_index: entry.index })
    const frames = between.map(({ type, fields }) => this.#frame(type, fields)).join('')
    return text + frames + this.#close(entry, { ...whole, status: 'completed' })
  }

  #end(ended: RunEnded): string {
    const { describe } = this.stream
    const output = this.#isLost ? outputOf(ended) : this.#items.finished
    const { status, reason } = this.#statusOf(ended)
    const response = describe({ status, output, ended, ...(reason !== undefined && { reason }) })
    // A stream knows no `cancelled`.
    this.#resource = ended.status === 'cancelled' ? { ...response, status: 'cancelled' } : response
    if (this.#isLost) this.#seq = Math.max(this.#seq, this.#after + 1)
    const { code, message: words } = ended.error ?? {}
    const error = status === 'failed' ? this.#frame('error', { code, message: words, param: null }) : ''
    return `${error}${this.#frame(`response.${status}`, { response })}${DONE}`
  }

  #statusOf({ status, error }: RunEnded): {
    readonly status: 'completed' | 'failed' | 'incomplete'
    readonly reason?: string
  } {
    if (status === 'cancelled') return { status: 'incomplete', reason: 'cancelled' }
    if (error?.code === 'response_incomplete') {
      return { status: 'incomplete', reason: this.#incomplete ?? 'max_output_tokens' }
    }
    if (status === 'failed') return { status }
    return this.#incomplete === undefined ? { status: 'completed' } : { status: 'incomplete', reason: this.#incomplete }
  }
}

/** OpenAI's name of the events of reasoning that is not summarized; the specification has another. */
const OPEN_REASONING = 'response.reasoning_text.'

function placeOf(event: ModelEvent, fallback: number): number {
  return parsedEvent(event.json).output_index ?? fallback
}
