import type { EventSource, WireItem } from '@bureau/protocol'
import { deltaCharacters, estimateTokens, tokensOfDeltas } from '../models/estimate-tokens.ts'
import { usageOfResponse } from '../models/pricing.ts'
import { preservationItem } from '../history/history.ts'
import { invalidAnswer, ModelError } from '../models/model-error.ts'
import type { ModelCallObserver, ResponsesResponse } from '../agency/model-object.ts'
import type { OpenRequest } from '../run/run.ts'
import { AnswerItems, type ItemPosition } from './answer-items.ts'
import type { Conversation } from './conversation.ts'
import { isToolCall, itemCreated, publicItem } from './item-events.ts'
import { limitedOutput } from './limited-output.ts'
import {
  begunResponse,
  failureOf,
  ownCopy,
  parseEnded,
  parseEvent,
  publicResponse,
  readResponse,
  requireItem,
} from './public-response.ts'

/**
 * Watches the events of one model request: passes each on as the text it came in, and parses only the few that carry a
 * finished item or the finished response.
 */
export class ResponseWatcher implements ModelCallObserver, OpenRequest {
  readonly #conversation: Conversation
  readonly #source: EventSource
  readonly #model: string
  readonly #items: AnswerItems
  #prompt: (() => unknown) | undefined
  #deltas = 0
  #characters = 0
  #response: ResponsesResponse | undefined
  #failure: ModelError | undefined
  #isSent = false
  #begun = false
  #counted = false
  #itemIdText = ' '
  #itemId = ''

  /** @param model - Its name, where the answer does not say another. */
  constructor(conversation: Conversation, model: string) {
    this.#conversation = conversation
    this.#source = conversation.source
    this.#model = model
    this.#items = new AnswerItems(
      (item) => conversation.knows(item) || !conversation.run.ownsCall(item.call_id ?? '', this.#source.agent_run_id),
    )
  }

  /**
   * The request is about to be sent. From now on it is counted, whatever becomes of it, unless the provider refuses it.
   *
   * @param prompt - All that is sent to the model, for an estimate in case that the provider does not tell the usage.
   */
  begin(prompt: () => unknown): void {
    this.#prompt = prompt
    this.#conversation.run.open(this)
  }

  onSent(): void {
    this.#isSent = true
  }

  onRefused(): void {
    this.#isSent = false
  }

  onEvent(kind: string, json: string): void {
    this.#begun = true
    if (kind.endsWith('.delta')) {
      this.#deltas++
      this.#characters += deltaCharacters(json)
      return this.#pass(kind, json)
    }
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
        // Whatever else a provider says of its response, it may repeat the request in it.
        return HOLDS_RESPONSE.test(json) ? void this.#showResponse(kind, json) : this.#pass(kind, json)
    }
  }

  /** True once something of the answer has gone to whoever follows the run. */
  get hasShown(): boolean {
    return this.#begun
  }

  onBatchEnd(): Promise<void> | undefined {
    return this.#conversation.run.ready()
  }

  /**
   * The items of the finished response.
   *
   * An incomplete response that holds an answer counts as finished: its text and its usage are real.
   *
   * @throws ModelError the provider reported a failure, or sent no response.
   */
  result(): readonly WireItem[] {
    if (this.#failure) throw this.#failure
    const response = this.#response
    if (!response) throw invalidAnswer('no response event')
    // Some compatible servers stream the items but leave them out of the finished response.
    const output = response.output.length === 0 ? this.#items.finished : response.output
    if (response.status !== 'incomplete') return output
    const usable = output.filter((item) => !isToolCall(item) || item['status'] === 'completed')
    if (!usable.some((item) => item.type === 'message' || isToolCall(item))) {
      throw new ModelError('response_incomplete', { detail: response.incomplete_details?.reason ?? 'unknown reason' })
    }
    return usable
  }

  /**
   * Counts the request when it has ended. Whatever has cost something is estimated where the provider reports no usage:
   * an aborted or interrupted request never has one. A refused request is not counted.
   */
  async counted(answer: Promise<void>, signal: AbortSignal): Promise<void> {
    try {
      await answer
      this.abandoned()
    } catch (error) {
      if (this.#begun || signal.aborted) this.abandoned()
      else this.#close()
      throw error
    }
  }

  abandoned(): void {
    if (this.#counted) return
    // What nobody has got costs nothing.
    if (!this.#isSent && !this.#begun) return this.#close()
    const output = Math.max(tokensOfDeltas(this.#deltas, this.#characters), estimateTokens(this.#items.finished))
    this.#count({ input_tokens: estimateTokens(this.#prompt?.()), output_tokens: output }, { estimated: true })
  }

  #close(): void {
    this.#counted = true
    this.#prompt = undefined
    this.#conversation.run.closeRequest(this)
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
    const event = parseEvent(json) as { item?: WireItem; output_index?: number }
    const { item: sent, output_index: place } = event
    if (typeof sent !== 'object' || sent === null) return this.#pass(kind, json)
    requireItem(sent)
    const item = limitedOutput(this.#items.named(sent, place))
    const shown = publicItem(item)
    const callId = item.call_id ?? item.id
    this.#conversation.run.emit({
      type: 'model.event',
      source: this.#source,
      kind,
      json: shown === sent ? json : JSON.stringify({ ...event, item: shown }),
      ...(callId !== undefined && { call_id: callId }),
    })
    if (kind === 'response.output_item.done' && !isHalf(item)) this.#finish(item, { place, callId: sent.call_id })
  }

  #finish(item: WireItem, position: ItemPosition = {}): void {
    if (!this.#items.finish(item, position)) return
    this.#conversation.add(item)
    const preserved = preservationItem(item)
    if (preserved) this.#conversation.add(preserved.item, preserved.origin)
    if (item.type !== 'message') this.#announce(item)
  }

  #announce(item: WireItem): void {
    const created = itemCreated(item, this.#source, this.#conversation.toolFacts(item))
    if (created) this.#conversation.run.emit(created)
  }

  /** The provider says the same response two or three times before it begins, with all prompts and schemas in it. */
  #onBegun(kind: string, json: string): void {
    const [, head, own = '', rest, tail] = BEGUN.exec(json) ?? []
    const shown = rest === undefined ? undefined : begunResponse(this.#conversation.agentInControl, own, rest)
    if (shown === undefined) this.#showResponse(kind, json)
    else this.#emit(kind, `${head}${shown}${tail}`)
  }

  /** Prompts, tool schemas and settings that the provider echoes stay in the process: an allow-list of fields goes out. */
  #showResponse(kind: string, json: string): ResponsesResponse | undefined {
    const event = parseEnded(this.#conversation.agentInControl, json)
    const read = readResponse(event.response)
    const isEmpty = !read || read.output.length === 0
    const response = isEmpty ? read : { ...read, output: this.#items.settled(read.output).map(limitedOutput) }
    this.#emit(kind, JSON.stringify({ ...event, response: response && publicResponse(response) }))
    return response
  }

  #onResponse(kind: string, json: string): void {
    const response = this.#showResponse(kind, json)
    if (!response) return
    this.#response = response
    const isFailed = kind === 'response.failed'
    // What a limit has left of a message is all that there will be; half a call is none, and its output would never come.
    const isCut = response.status === 'incomplete'
    const isKept = (item: WireItem): boolean => !isHalf(item) || !(isFailed || (isCut && isToolCall(item)))
    for (const item of response.output) if (isKept(item)) this.#finish(item)
    // There is no request without tokens: some servers write zeros where they do not count.
    if (usageOfResponse(response.usage).total_tokens > 0) this.#count(response.usage)
    if (isFailed) this.#failure = failureOf(response.error ?? {})
    else for (const item of this.#items.finished) if (item.type === 'message') this.#announce(item)
  }

  #onError(json: string): void {
    const event = parseEvent(json) as { code?: string; message?: string; error?: { code?: string; message?: string } }
    this.#failure = failureOf(event.error ?? event)
    const shown = { type: 'error', code: event.error?.code ?? event.code ?? null, message: this.#failure.message }
    this.#pass('error', JSON.stringify(shown))
  }

  #count(rawUsage: unknown, how: { readonly estimated: boolean } = { estimated: false }): void {
    if (this.#counted) return
    this.#close()
    const model = this.#response?.model ?? this.#model
    this.#conversation.run.count({ agent: this.#source.agent, model, rawUsage, ...how })
  }
}

/** An unfinished item cannot be continued. An item that was cut by a limit will not get any longer, and is kept. */
function isHalf({ status }: WireItem): boolean {
  return status === 'incomplete' || status === 'in_progress'
}

/** An event that holds a response and nothing else of weight; the response's id and time may come first in it. */
const BEGUN =
  /^(\{"type":"[^"]*",(?:"sequence_number":\d+,)?"response":)(\{"id":"[^"\\]*","object":"response","created_at":\d+,)?(.*\})((?:,"sequence_number":\d+)?\})$/s

const HOLDS_RESPONSE = /"response"\s*:\s*\{/

const ITEM_ID = /"item_id"\s*:\s*"([^"\\]*)"/
