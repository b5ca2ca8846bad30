import { isJsonObject, type JsonObject } from './json-object.ts'
import { ProviderError } from './provider-error.ts'
import type { RecordedRequest } from './recorded-request.ts'
import { joined } from './responses-items.ts'
import type { Delta, EndingPart, FunctionCallPart, Part, ReasoningPart, TokenUsage } from './turn.ts'
import { newId, obfuscates, obfuscation, responseFieldsOf, stepOfCut, stepOfHold, usageOf } from './wire.ts'
import type { Step, WireAnswer } from './wire.ts'

/**
 * One turn as a chat completion, in chunks and as one object.
 *
 * @throws Error when a part has no form in this API, such as the items of hosted tools.
 */
export function chatAnswer(parts: readonly Part[], request: RecordedRequest): WireAnswer {
  const ending = parts.find((part) => part.part === 'ending') ?? { part: 'ending', how: 'completed' }
  const endless = parts.every((part) => part.part !== 'ending')
  const chunks = new ChunkSequence(parts, request)

  chunks.delta({ role: 'assistant', content: '', refusal: null })
  for (const part of endless ? [...parts, ending] : parts) addPart(chunks, part)
  return { steps: chunks.steps, output: [], whole: wholeAnswer(chunks, parts, ending) }
}

/** The chunks of one answer, and the message that they add up to. */
class ChunkSequence {
  readonly steps: Step[] = []
  readonly toolCalls: JsonObject[] = []
  readonly head: JsonObject
  readonly #usage: TokenUsage | null
  readonly #includesUsage: boolean
  readonly #obfuscate: boolean

  constructor(parts: readonly Part[], { body }: RecordedRequest) {
    const options = body['stream_options']
    this.#includesUsage = isJsonObject(options) && options['include_usage'] === true
    this.#obfuscate = obfuscates(body)
    this.#usage = usageOf(parts)
    this.head = {
      id: newId('chatcmpl').replace('_', '-'),
      object: 'chat.completion.chunk',
      created: Math.floor(Date.now() / 1000),
      model: body['model'],
      service_tier: 'default',
      system_fingerprint: null,
      ...responseFieldsOf(parts),
    }
  }

  delta(delta: JsonObject, finish: string | null = null): void {
    const streamed = delta['content'] ?? delta['refusal']
    this.#push({
      ...this.head,
      choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
      ...(this.#includesUsage ? { usage: null } : {}),
      ...(this.#obfuscate && typeof streamed === 'string' ? { obfuscation: obfuscation(streamed) } : {}),
    })
  }

  deltas(deltas: readonly Delta[], fields: (delta: string) => JsonObject): void {
    for (const delta of deltas) {
      if (typeof delta === 'string') this.delta(fields(delta))
      else this.steps.push(stepOfHold(delta))
    }
  }

  toolCall({ name, deltas, callId }: FunctionCallPart): void {
    const index = this.toolCalls.length
    const id = callId ?? newId('call').slice(0, 29)
    this.toolCalls.push({ id, type: 'function', function: { name, arguments: joined(deltas) } })
    this.delta({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] })
    this.deltas(deltas, (delta) => ({ tool_calls: [{ index, function: { arguments: delta } }] }))
  }

  end(finish: string): void {
    this.delta({}, finish)
    if (this.#includesUsage && this.#usage) this.#push({ ...this.head, choices: [], usage: wireUsage(this.#usage) })
    this.steps.push({ step: 'event', name: null, data: '[DONE]' })
  }

  fail(code: string, message: string): void {
    this.#push(new ProviderError(message, { code, type: 'server_error' }).body)
  }

  #push(chunk: JsonObject): void {
    this.steps.push({ step: 'event', name: null, data: JSON.stringify(chunk) })
  }
}

function addPart(chunks: ChunkSequence, part: Part): void {
  switch (part.part) {
    case 'message':
      return chunks.deltas(part.deltas, (content) => ({ content }))
    case 'refusal':
      return chunks.deltas(part.deltas, (delta) => ({ refusal: delta }))
    case 'reasoning':
      return chunks.deltas(thoughts(part), (delta) => ({ [part.chatField]: delta }))
    case 'function_call':
      return chunks.toolCall(part)
    case 'ending':
      return addEnding(chunks, part)
    case 'event':
      return void chunks.steps.push({ step: 'event', name: null, data: JSON.stringify(part.event) })
    case 'raw':
      return void chunks.steps.push({ step: 'raw', bytes: part.bytes })
    case 'hold':
      return void (part.before === null && chunks.steps.push(stepOfHold(part)))
    case 'cut':
      return void (part.after === null && chunks.steps.push(stepOfCut(part)))
    case 'item':
      throw new Error(`A chat completion has no form for an item of type ${String(part.done['type'])}.`)
    default:
      return
  }
}

function addEnding(chunks: ChunkSequence, ending: EndingPart): void {
  if (ending.how === 'failed' || ending.how === 'error') return chunks.fail(ending.code, ending.message)
  chunks.end(finishReason(ending, chunks.toolCalls.length > 0))
}

const thoughts = ({ summary, content }: ReasoningPart): readonly string[] =>
  content === null ? summary : [...summary, content]

function finishReason(ending: EndingPart, callsTools: boolean): string {
  if (ending.how === 'incomplete') return ending.reason === 'content_filter' ? 'content_filter' : 'length'
  return callsTools ? 'tool_calls' : 'stop'
}

const wireUsage = ({ input, cached, cacheWrite, output, reasoning }: TokenUsage): JsonObject => ({
  prompt_tokens: input,
  completion_tokens: output,
  total_tokens: input + output,
  prompt_tokens_details: { cached_tokens: cached, cache_write_tokens: cacheWrite, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: reasoning, audio_tokens: 0 },
})

function wholeAnswer(chunks: ChunkSequence, parts: readonly Part[], ending: EndingPart): WireAnswer['whole'] {
  if (ending.how === 'failed' || ending.how === 'error') {
    const error = new ProviderError(ending.message, { code: ending.code, type: 'server_error' })
    return { status: 500, body: error.body }
  }
  const tokens = usageOf(parts)
  const choice = {
    index: 0,
    message: wholeMessage(chunks, parts),
    logprobs: null,
    finish_reason: finishReason(ending, chunks.toolCalls.length > 0),
  }
  const usage = tokens ? { usage: wireUsage(tokens) } : {}
  return { status: 200, body: { ...chunks.head, object: 'chat.completion', choices: [choice], ...usage } }
}

function wholeMessage({ toolCalls }: ChunkSequence, parts: readonly Part[]): JsonObject {
  const said = (kind: 'message' | 'refusal'): string | null => {
    const deltas = parts.flatMap((part) => (part.part === kind ? part.deltas : []))
    return parts.some((part) => part.part === kind) ? joined(deltas) : null
  }
  const thought = parts.filter((part) => part.part === 'reasoning')
  return {
    role: 'assistant',
    content: said('message'),
    refusal: said('refusal'),
    ...Object.fromEntries(thought.map((part) => [part.chatField, thoughts(part).join('')])),
    ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
  }
}
