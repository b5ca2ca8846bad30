import { type AgentOutputItem, type ModelResponse, type StreamEvent, Usage } from '#agents-core'
import type { WireItem } from '@bureau/protocol'
import { toSdkOutputItem, toWireItem } from '../wire-items.ts'
import { type AiSdkPart, readPart } from './ai-sdk-part.ts'
import { modelErrorOfCode } from './model-failure.ts'
import { type IncompleteReason, ResponseEventWriter, type ResponseUsage } from './response-events.ts'
import {
  type ItemIds,
  openStreamed,
  type StreamedItem,
  streamFunctionCall,
  streamMessage,
  streamReasoning,
} from './streamed-item.ts'
import { ModelError, type ModelCallObserver, type ResponsesResponse } from './transport.ts'

export type ObservedAnswerOptions = {
  readonly observer: ModelCallObserver
  readonly modelName: string | undefined
  /** Item and call ids of the conversation so far. They are not given out again. */
  readonly usedIds: Set<string>
}

/**
 * One answer of a model object of the agents SDK, on its way to the observer.
 *
 * Raw events that already are Responses events pass as they are. From all others a Responses sequence is written: text
 * from the SDK's own events, reasoning and arguments from the raw events of AI SDK models, the rest from the final
 * answer.
 */
export class ObservedAnswer {
  readonly #observer: ModelCallObserver
  readonly #usedIds: Set<string>
  readonly #writer: ResponseEventWriter
  readonly #messages: StreamedItem[] = []
  readonly #reasoning = new Map<string, StreamedItem>()
  readonly #calls = new Map<string, StreamedItem>()
  #message: StreamedItem | undefined
  #cutOff: IncompleteReason | undefined
  /** Set once the model is known to speak the Responses API itself. */
  #verbatim = false
  #terminal: ResponsesResponse | undefined

  constructor({ observer, modelName, usedIds }: ObservedAnswerOptions) {
    this.#observer = observer
    this.#usedIds = usedIds
    this.#writer = new ResponseEventWriter(observer, modelName === undefined ? {} : { model: modelName })
  }

  /** Takes one event of the model's stream. A promise means that the observer's reader is behind. */
  take(event: StreamEvent): Promise<void> | undefined {
    if (event.type === 'output_text_delta' && !this.#verbatim) this.#takeText(event.delta, event['itemId'])
    else if (event.type === 'model' && isResponsesEvent(event.event)) this.#takeResponsesEvent(event.event)
    else if (event.type === 'model' && !this.#verbatim) this.#takePart(readPart(event.event))
    else return undefined
    return this.#observer.onBatchEnd()
  }

  /**
   * Ends the answer.
   *
   * @param done - The model's final answer; undefined when the stream ended without one.
   * @returns The answer for the SDK, with the ids that the observer has seen.
   * @throws ModelError
   */
  finish(done: ModelResponse | undefined): ModelResponse {
    if (!done) throw new ModelError('upstream_invalid_response', { detail: 'the stream ended without an answer' })
    if (this.#verbatim) return done
    this.#writer.start()
    const output = done.output.flatMap((item) => this.#settle(item))
    if (this.#cutOff) this.#writer.incomplete(this.#cutOff, wireUsage(done.usage))
    else this.#writer.complete(wireUsage(done.usage))
    return { ...done, output: this.#usable(output, this.#cutOff) }
  }

  /**
   * Takes an incomplete answer out of the raw events: the vendor's model class throws it away, with its text and usage.
   *
   * @throws ModelError, or `error` when the raw events do not explain it.
   */
  recover(error: unknown): ModelResponse {
    const response = this.#terminal
    if (response?.error) throw modelErrorOfCode(response.error.code, response.error.message ?? '')
    if (response?.status !== 'incomplete') throw error
    const complete = response.output.filter((item) => item.type !== 'function_call' || item['status'] === 'completed')
    const output = this.#usable(complete.map(toSdkOutputItem), response.incomplete_details?.reason)
    return { usage: new Usage({ ...response.usage }), output, responseId: response.id }
  }

  #usable(output: AgentOutputItem[], cutOff: string | undefined): AgentOutputItem[] {
    if (cutOff === undefined || output.some((item) => item.type !== 'reasoning')) return output
    throw new ModelError('response_incomplete', { detail: cutOff })
  }

  #takeResponsesEvent(event: ResponsesEvent): void {
    this.#verbatim = true
    if (TERMINAL.has(event.type)) this.#terminal = event['response'] as ResponsesResponse
    this.#observer.onEvent(event.type, JSON.stringify(event))
  }

  #takeText(delta: string, itemId: unknown): void {
    if (delta === '') return
    if (!this.#message) {
      this.#message = streamMessage(this.#writer.openMessage(this.#freshId(itemId)))
      this.#messages.push(this.#message)
    }
    this.#message.send(delta)
  }

  #takePart(part: AiSdkPart): void {
    this.#writer.start()
    switch (part.kind) {
      case 'reasoning':
        return this.#takeReasoning(part)
      case 'call_start':
        return this.#takeCall(part.id, part.name)
      case 'call_delta':
        return this.#calls.get(part.id)?.send(part.delta)
      case 'call_end':
        // What the model says after a call is another message.
        this.#message = undefined
        return
      case 'finish':
        this.#cutOff = part.cutOff
        return
      case 'other':
        return
    }
  }

  #takeCall(id: string, name: string): void {
    this.#calls.set(id, streamFunctionCall(this.#writer.openFunctionCall({ name, ...this.#callIds(id) })))
  }

  /** A block without text counts when it carries something for the provider, such as a signature. */
  #takeReasoning({ id, delta, hasMetadata }: AiSdkPart & { kind: 'reasoning' }): void {
    let block = this.#reasoning.get(id)
    if (!block && delta === '' && !hasMetadata) return
    this.#message = undefined
    block ??= streamReasoning(this.#writer.openReasoning())
    this.#reasoning.set(id, block)
    block.send(delta)
  }

  /** Brings an item's final form and what was streamed of it together. Empty for a call that was cut off. */
  #settle(item: AgentOutputItem): AgentOutputItem[] {
    const final = toWireItem(item)
    const streamed = this.#streamedOf(final) ?? this.#openStreamed(final)
    if (!streamed) {
      const { id: own, ...fields } = final
      const id = this.#writer.item({ ...fields, ...idField(this.#freshId(own)) })
      return [{ ...item, id }]
    }
    const broken = this.#cutOff !== undefined && final.type === 'function_call' && !isJson(final['arguments'])
    streamed.settle(final, { status: broken ? 'incomplete' : 'completed' })
    const callId = streamed.callId === undefined ? {} : { callId: streamed.callId }
    return broken ? [] : [{ ...item, id: streamed.id, ...callId }]
  }

  #streamedOf(final: WireItem): StreamedItem | undefined {
    if (final.type === 'message') return this.#messages.shift()
    const from = final.type === 'reasoning' ? this.#reasoning : final.type === 'function_call' ? this.#calls : undefined
    const key = (final.type === 'reasoning' ? final.id : final.call_id) ?? 'default'
    const streamed = from?.get(key)
    from?.delete(key)
    return streamed
  }

  #openStreamed(final: WireItem): StreamedItem | undefined {
    return openStreamed(this.#writer, final, { ...this.#callIds(final.call_id), ...idField(this.#freshId(final.id)) })
  }

  #callIds(callId: string | undefined): ItemIds {
    if (callId === undefined || callId === '' || this.#usedIds.has(callId)) return {}
    this.#usedIds.add(callId)
    return { callId }
  }

  /** Ids such as `0` or `txt-1` come again in the next answer; the run's history needs ids that never do. */
  #freshId(id: unknown): string | undefined {
    if (typeof id !== 'string' || id.length < 20 || this.#usedIds.has(id)) return undefined
    this.#usedIds.add(id)
    return id
  }
}

const TERMINAL = new Set(['response.completed', 'response.incomplete', 'response.failed'])

type ResponsesEvent = { readonly type: string; readonly [key: string]: unknown }

/** An AI SDK stream has parts of type `error` too, but no sequence number. */
function isResponsesEvent(event: unknown): event is ResponsesEvent {
  if (typeof event !== 'object' || event === null || !('type' in event) || typeof event.type !== 'string') return false
  return event.type.startsWith('response.') || (event.type === 'error' && 'sequence_number' in event)
}

function wireUsage(usage: Usage): ResponseUsage {
  const { cached_tokens = 0, ...input } = summed(usage.inputTokensDetails)
  const { reasoning_tokens = 0, ...output } = summed(usage.outputTokensDetails)
  return {
    input_tokens: usage.inputTokens,
    input_tokens_details: { cached_tokens, ...input },
    output_tokens: usage.outputTokens,
    output_tokens_details: { reasoning_tokens, ...output },
    total_tokens: usage.totalTokens,
  }
}

function idField(id: string | undefined): { id?: string } {
  return id === undefined ? {} : { id }
}

function summed(details: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const sums: Record<string, number> = {}
  for (const entry of details) {
    for (const [name, count] of Object.entries(entry)) sums[name] = (sums[name] ?? 0) + count
  }
  return sums
}

function isJson(text: unknown): boolean {
  try {
    JSON.parse(String(text))
    return true
  } catch {
    return false
  }
}
