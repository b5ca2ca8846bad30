import type { EventSource, WireItem } from '@bureau/protocol'
import type { Conversation } from './conversation.ts'
import { isToolCall, itemCreated, publicItem } from './item-events.ts'
import { modelErrorOfCode } from '../models/model-failure.ts'
import { type ModelCallObserver, ModelError, type ResponsesResponse } from '../models/transport.ts'

/**
 * Watches the events of one model request: passes each on as the text it came in, and parses only the few that carry a
 * finished item or the finished response.
 */
export class ResponseWatcher implements ModelCallObserver {
  readonly #conversation: Conversation
  readonly #source: EventSource
  readonly #model: string
  readonly #items: WireItem[] = []
  readonly #seen = new Set<string>()
  #shown = false
  #response: ResponsesResponse | undefined
  #failure: ModelError | undefined
  #counted = false
  #itemIdText = ' '
  #itemId = ''
  #echo: string | undefined
  #shownEcho: string | undefined

  constructor(conversation: Conversation, model: string) {
    this.#conversation = conversation
    this.#source = conversation.source
    this.#model = model
  }

  onEvent(kind: string, json: string): void {
    this.#shown = true
    if (kind.endsWith('.delta')) return this.#pass(kind, json)
    switch (kind) {
      case 'response.output_item.added':
      case 'response.output_item.done':
        return this.#onItem(kind, json)
      case 'response.created':
      case 'response.in_progress':
      case 'response.queued':
        return this.#onBegun(kind, json)
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
        return this.#onResponse(kind, json)
      case 'error':
        return this.#onError(json)
      default:
        return this.#pass(kind, json)
    }
  }

  /** True once something of the answer has gone to whoever follows the run. */
  get hasShown(): boolean {
    return this.#shown
  }

  onBatchEnd(): Promise<void> | undefined {
    return this.#conversation.run.ready()
  }

  /**
   * The finished response.
   *
   * An incomplete response that holds an answer counts as finished: its text and its usage are real.
   *
   * @throws ModelError the provider reported a failure, or sent no response.
   */
  result(): ResponsesResponse {
    if (this.#failure) throw this.#failure
    const response = this.#response
    if (!response) throw new ModelError('upstream_invalid_response', { detail: 'no response event' })
    // Some compatible servers stream the items but leave them out of the finished response.
    const output = response.output.length === 0 ? this.#items : response.output
    if (response.status !== 'incomplete') return { ...response, output }
    const usable = output.filter((item) => !isToolCall(item) || item['status'] === 'completed')
    if (!usable.some((item) => item.type === 'message' || isToolCall(item))) {
      throw new ModelError('response_incomplete', { detail: response.incomplete_details?.reason ?? 'unknown reason' })
    }
    return { ...response, output: usable, status: 'completed' }
  }

  #pass(kind: string, json: string): void {
    const itemId = this.#itemIdOf(json)
    if (itemId === '') return this.#emit(kind, json)
    this.#conversation.run.emit({ type: 'model.event', source: this.#source, kind, json, item_id: itemId })
  }

  #emit(kind: string, json: string): void {
    this.#conversation.run.emit({ type: 'model.event', source: this.#source, kind, json })
  }

  /** Consecutive deltas belong to one item, so its text is searched for before it is cut out anew. */
  #itemIdOf(json: string): string {
    if (json.includes(this.#itemIdText)) return this.#itemId
    const found = ITEM_ID.exec(json)
    if (!found) return ''
    this.#itemIdText = ownCopy(found[0])
    return (this.#itemId = ownCopy(found[1]!))
  }

  #onItem(kind: string, json: string): void {
    this.#echo = this.#shownEcho = undefined
    const event = parse(json) as { item?: WireItem }
    const item = event.item
    if (typeof item !== 'object' || item === null) return this.#pass(kind, json)
    const shown = publicItem(item)
    const callId = item.call_id ?? item.id
    this.#conversation.run.emit({
      type: 'model.event',
      source: this.#source,
      kind,
      json: shown === item ? json : JSON.stringify({ ...event, item: shown }),
      ...(callId !== undefined && { call_id: callId }),
    })
    if (kind === 'response.output_item.done') this.#finish(item)
  }

  #finish(item: WireItem): void {
    const key = `${item.type ?? ''} ${item.id ?? item.call_id ?? this.#items.length}`
    if (this.#seen.has(key)) return
    this.#seen.add(key)
    this.#items.push(item)
    this.#conversation.modelProduced(item)
    if (item.type !== 'message') this.#announce(item)
  }

  #announce(item: WireItem): void {
    const created = itemCreated(item, this.#source, this.#conversation.toolFacts(item))
    if (created) this.#conversation.run.emit(created)
  }

  /** The provider says the same response two or three times before it begins, with all prompts and schemas in it. */
  #onBegun(kind: string, json: string): void {
    const { head, echo, tail } = BEGUN.exec(json)?.groups ?? {}
    if (echo !== undefined && echo !== this.#echo) {
      this.#echo = echo
      this.#shownEcho = publicText(echo)
    }
    if (echo === undefined || this.#shownEcho === undefined) this.#showResponse(kind, json)
    else this.#emit(kind, `${head}${this.#shownEcho}${tail}`)
  }

  /** Prompts, tool schemas and settings that the provider echoes stay in the process: an allow-list of fields goes out. */
  #showResponse(kind: string, json: string): ResponsesResponse | undefined {
    const event = parse(json) as { response?: unknown }
    const response = readResponse(event.response)
    this.#emit(kind, JSON.stringify({ ...event, response: response && publicResponse(response) }))
    return response
  }

  #onResponse(kind: string, json: string): void {
    const response = this.#showResponse(kind, json)
    if (!response) return
    this.#response = response
    for (const item of response.output) this.#finish(item)
    this.#count(response.usage)
    if (kind === 'response.failed') this.#failure = failureOf(response.error ?? {})
    else for (const item of this.#items) if (item.type === 'message') this.#announce(item)
  }

  #onError(json: string): void {
    const event = parse(json) as { code?: string; message?: string; error?: { code?: string; message?: string } }
    this.#failure = failureOf(event.error ?? event)
    const shown = { type: 'error', code: event.error?.code ?? event.code ?? null, message: this.#failure.message }
    this.#pass('error', JSON.stringify(shown))
  }

  #count(rawUsage: unknown): void {
    if (this.#counted || !rawUsage) return
    this.#counted = true
    const model = this.#response?.model ?? this.#model
    this.#conversation.run.count(this.#source.agent, model, rawUsage)
  }
}

/** An event that holds a response and nothing else of weight. */
const BEGUN =
  /^(?<head>\{"type":"[^"]*",(?:"sequence_number":\d+,)?"response":)(?<echo>\{.*\})(?<tail>(?:,"sequence_number":\d+)?\})$/s

/** A part of a text keeps the whole text in memory, here everything that was read from the socket with it. */
function ownCopy(text: string): string {
  return Buffer.from(text).toString()
}

const ITEM_ID = /"item_id"\s*:\s*"([^"\\]*)"/

const PUBLIC_RESPONSE_FIELDS = [
  'id',
  'object',
  'created_at',
  'completed_at',
  'status',
  'incomplete_details',
  'model',
  'service_tier',
  'usage',
] as const

function publicResponse(response: ResponsesResponse): Record<string, unknown> {
  const shown: Record<string, unknown> = {}
  for (const field of PUBLIC_RESPONSE_FIELDS) if (field in response) shown[field] = response[field]
  if (response.error) shown['error'] = { code: response.error.code ?? null, message: failureOf(response.error).message }
  else shown['error'] = null
  shown['output'] = response.output.map(publicItem)
  return shown
}

/**
 * A response as far as it can be relied on: a list of items, and the name of a model or none.
 *
 * @throws ModelError something in the list is no item.
 */
function readResponse(value: unknown): ResponsesResponse | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const { output, model, ...rest } = value as Partial<ResponsesResponse>
  const items: readonly unknown[] = Array.isArray(output) ? output : []
  if (!items.every(isItem)) throw new ModelError('upstream_invalid_response', { detail: 'an output item is no object' })
  return { ...rest, ...(typeof model === 'string' && { model }), output: items } as ResponsesResponse
}

function isItem(value: unknown): value is WireItem {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function publicText(response: string): string | undefined {
  try {
    const read = readResponse(JSON.parse(response))
    return read && JSON.stringify(publicResponse(read))
  } catch {
    return undefined
  }
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch (cause) {
    throw new ModelError('upstream_invalid_response', { detail: 'an event of the stream is not valid JSON', cause })
  }
}

function failureOf(error: { code?: string; message?: string }): ModelError {
  return modelErrorOfCode(error.code, `${error.code ?? ''} ${error.message ?? ''}`.trim())
}
