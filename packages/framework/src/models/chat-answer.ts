import { type Fields, fieldsOf } from '@bureau/protocol'
import { CallIds, countOf, isJson, responseUsage } from './answer-values.ts'
import { invalidAnswer, requireFewItems } from './model-error.ts'
import type { FunctionCallEvents } from './response-items.ts'
import type { IncompleteReason, ResponseEventWriter, ResponseUsage } from './response-events.ts'

/** A call as its pieces arrive. It is announced when its name is known. */
type PendingCall = {
  readonly index: number | undefined
  id: string | undefined
  arguments: string
  events?: FunctionCallEvents
}

/** Reads the chunks of one streamed chat completion and writes them as Responses events. */
export class ChatAnswer {
  readonly #writer: ResponseEventWriter
  readonly #callIds: CallIds
  readonly #calls: PendingCall[] = []
  #begun = false
  #finishReason: string | undefined
  #usage: ResponseUsage | null = null
  #ended = false

  /** `usedCallIds`: the calls of the conversation so far. */
  constructor(writer: ResponseEventWriter, usedCallIds: Iterable<string>) {
    this.#writer = writer
    this.#callIds = new CallIds(usedCallIds)
  }

  /** True once the reason for its end has come: a server may say no more, or its usage and `[DONE]`. */
  get isWhole(): boolean {
    return this.#ended || this.#finishReason !== undefined
  }

  /**
   * Takes the data of one server-sent event.
   *
   * @throws ModelError `upstream_invalid_response`
   */
  read(data: string): void {
    if (this.#ended) return
    if (data === '[DONE]' && this.#begun) return this.#finish(this.#finishReason ?? 'stop')
    const chunk = parseChunk(data)
    if (chunk['error']) return this.#fail(chunk['error'])
    const choices = chunk['choices']
    if (!Array.isArray(choices)) throw invalidAnswer('a chunk has no choices')
    this.#begun = true
    this.#writer.start(typeof chunk['model'] === 'string' && chunk['model'] !== '' ? chunk['model'] : undefined)
    if (chunk['usage']) this.#usage = readUsage(fieldsOf(chunk['usage']))
    for (const choice of choices) this.#readChoice(fieldsOf(choice))
  }

  /** There is nothing more to read. */
  end(): void {
    if (!this.#ended && this.#finishReason !== undefined) this.#finish(this.#finishReason)
  }

  #readChoice(choice: Fields): void {
    if ((choice['index'] ?? 0) !== 0) return
    const delta = fieldsOf(choice['delta'])
    const reasoning = delta['reasoning_content'] ?? delta['reasoning']
    if (typeof reasoning === 'string' && reasoning !== '') this.#writer.reasoning(reasoning)
    this.#readContent(delta['content'] ?? '')
    if (typeof delta['refusal'] === 'string' && delta['refusal'] !== '') this.#writer.refusal(delta['refusal'])
    if (Array.isArray(delta['tool_calls'])) for (const call of delta['tool_calls']) this.#readCall(fieldsOf(call))
    const reason = choice['finish_reason']
    if (typeof reason === 'string' && reason !== '') this.#finishReason = reason
  }

  #readContent(content: unknown): void {
    if (Array.isArray(content)) for (const part of content) this.#readPart(fieldsOf(part))
    else if (typeof content !== 'string') throw invalidAnswer('the content of a chunk is not text')
    else if (content !== '') this.#writer.text(content)
  }

  /** Content in parts, as of Mistral: a thought is a part of its own, with parts of text. What has no text says nothing. */
  #readPart({ text, thinking }: Fields): void {
    if (typeof text === 'string' && text !== '') this.#writer.text(text)
    if (!Array.isArray(thinking)) return
    for (const { text: thought } of thinking.map(fieldsOf))
      if (typeof thought === 'string' && thought !== '') this.#writer.reasoning(thought)
  }

  #readCall(piece: Fields): void {
    const { name, arguments: args } = fieldsOf(piece['function'])
    const named = typeof name === 'string' && name !== ''
    const call = this.#callOf(piece, named)
    call.arguments += typeof args === 'string' ? args : args === undefined || args === null ? '' : JSON.stringify(args)
    if (named) call.events ??= this.#writer.functionCall({ name, ...this.#callIds.take(call.id) })
    if (!call.events) return
    call.events.arguments(call.arguments)
    call.arguments = ''
  }

  /** Some servers leave the index out, or repeat it for parallel calls: then another id means another call. */
  #callOf(piece: Fields, named: boolean): PendingCall {
    const id = typeof piece['id'] === 'string' && piece['id'] !== '' ? piece['id'] : undefined
    const index = typeof piece['index'] === 'number' ? piece['index'] : undefined
    const fits = (call: PendingCall): boolean =>
      (index === undefined || call.index === index) && (id === undefined || call.id === undefined || call.id === id)
    const startsAnother = index === undefined && id === undefined && named
    const known = startsAnother ? undefined : this.#calls.findLast(fits)
    if (known) {
      known.id ??= id
      return known
    }
    const call = { index, id, arguments: '' }
    requireFewItems(this.#calls.push(call))
    return call
  }

  #finish(reason: string): void {
    if (reason === 'error') throw invalidAnswer('the model broke off')
    const cutOff = INCOMPLETE.get(reason)
    this.#endCalls(cutOff)
    this.#ended = true
    if (cutOff) return this.#writer.incomplete(cutOff, this.#usage)
    if (this.#writer.speechless) this.#writer.text('')
    this.#writer.complete(this.#usage)
  }

  #endCalls(cutOff: IncompleteReason | undefined): void {
    for (const call of this.#calls) {
      if (!call.events) throw invalidAnswer('a tool call has no name')
      if (cutOff && !isJson(call.events.streamed)) continue
      if (call.events.streamed === '') call.events.arguments('{}')
      call.events.done()
    }
  }

  /** A failure that the server reports inside the stream becomes `response.failed`, as at the Responses API. */
  #fail(error: unknown): void {
    const { code, type, message } = fieldsOf(error)
    this.#ended = true
    this.#writer.fail({
      code: namedCode(code) ?? namedCode(type) ?? 'server_error',
      message: typeof message === 'string' ? message : JSON.stringify(error),
    })
  }
}

const INCOMPLETE: ReadonlyMap<string, IncompleteReason> = new Map([
  ['length', 'max_output_tokens'],
  ['content_filter', 'content_filter'],
])

function parseChunk(data: string): Fields {
  try {
    const chunk: unknown = JSON.parse(data)
    if (typeof chunk === 'object' && chunk !== null) return chunk as Fields
  } catch (cause) {
    throw invalidAnswer('a chunk is not valid JSON', cause)
  }
  throw invalidAnswer('a chunk is not a JSON object')
}

/** Gateways report the HTTP status of the server behind them as the code. */
function namedCode(code: unknown): string | undefined {
  const status = Number(code)
  if (!Number.isInteger(status) || status < 400) return typeof code === 'string' && code !== '' ? code : undefined
  if (status === 401 || status === 403) return 'invalid_api_key'
  if (status === 429) return 'rate_limit_exceeded'
  return status >= 500 ? 'server_error' : 'invalid_prompt'
}

/** Cached tokens stand where the vendor puts them, or in `prompt_cache_hit_tokens` as at DeepSeek. */
function readUsage(usage: Fields): ResponseUsage {
  const input = fieldsOf(usage['prompt_tokens_details'])
  const output = fieldsOf(usage['completion_tokens_details'])
  return responseUsage({
    input: countOf(usage['prompt_tokens']),
    cached: countOf(input['cached_tokens'] ?? usage['prompt_cache_hit_tokens']),
    written: countOf(input['cache_write_tokens']),
    output: countOf(usage['completion_tokens']),
    reasoning: countOf(output['reasoning_tokens']),
    total: countOf(usage['total_tokens']),
  })
}
