import type { Gate } from './gate.ts'
import type { JsonObject } from './json-object.ts'

/** What the provider does with one model request: one part, or several in order. Nested lists are joined. */
export type Turn = Part | readonly Turn[]

export type Part =
  | OutputPart
  | { readonly part: 'event'; readonly event: JsonObject }
  | { readonly part: 'usage'; readonly usage: TokenUsage | null }
  | { readonly part: 'response_fields'; readonly fields: JsonObject }
  | EndingPart
  | Hold
  | Cut
  | { readonly part: 'raw'; readonly bytes: Buffer }
  | { readonly part: 'framing'; readonly framing: Partial<Framing> }
  | HttpAnswer

/** The parts that become items of the answer's `output`. */
export type OutputPart =
  | { readonly part: 'message'; readonly deltas: readonly Delta[]; readonly annotations: readonly JsonObject[] }
  | { readonly part: 'refusal'; readonly deltas: readonly Delta[] }
  | ReasoningPart
  | FunctionCallPart
  | ItemPart

export type ReasoningPart = {
  readonly part: 'reasoning'
  /** One entry per summary part. */
  readonly summary: readonly string[]
  /** Open reasoning text, as open-weight models give it. */
  readonly content: string | null
  /** Sent only to requests that include `reasoning.encrypted_content`, as the real service does. */
  readonly encrypted: string | null
  /** Where compatible servers put the text in a chat completion; they do not agree on the name. */
  readonly chatField: 'reasoning' | 'reasoning_content'
}

export type FunctionCallPart = {
  readonly part: 'function_call'
  readonly name: string
  readonly deltas: readonly Delta[]
  readonly callId: string | null
}

/** Any other item: its first and last form and the events between. `id`, index and number are filled in. */
export type ItemPart = {
  readonly part: 'item'
  readonly idPrefix: string
  readonly added: JsonObject
  readonly progress: readonly JsonObject[]
  readonly done: JsonObject
}

export type EndingPart =
  | { readonly part: 'ending'; readonly how: 'completed' }
  | { readonly part: 'ending'; readonly how: 'incomplete'; readonly reason: string }
  | { readonly part: 'ending'; readonly how: 'failed'; readonly code: string; readonly message: string }
  | ErrorEnding

type ErrorEnding = {
  readonly part: 'ending'
  readonly how: 'error'
  readonly code: string
  readonly message: string
  /** Under a key `error`, as some answers have it, instead of at the top of the event. */
  readonly nested: boolean
}

/** A piece of streamed text, or a stop between two pieces. */
export type Delta = string | Hold

/** Where a stop is: an event's number from 0, the type of the first such event, or `headers`: before all. */
export type EventMark = number | string

/** `before` null is the place where the part stands. */
export type Hold = { readonly part: 'hold'; readonly gate: Gate; readonly before: EventMark | null }

/** `after` counts events; null is the place where the part stands. */
export type Cut = { readonly part: 'cut'; readonly how: CutHow; readonly after: number | null }

/** `reset`: the peer sees ECONNRESET. `close`: the socket ends mid-answer. `end`: a proper end, too early. */
export type CutHow = 'reset' | 'close' | 'end'

export type Framing = {
  readonly newline: '\n' | '\r\n' | '\r'
  /** False leaves the `event:` lines out, as some compatible servers do. */
  readonly eventLines: boolean
  /** False writes `data:{…}`: the space after the colon is optional in the SSE format. */
  readonly spaceAfterColon: boolean
  /** One write per event, one for everything up to the next stop, or pieces of so many bytes. */
  readonly writes: 'each' | 'joined' | { readonly bytes: number }
}

export type HttpAnswer = {
  readonly part: 'http'
  readonly status: number
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

/** Tokens of one request. `input` includes `cached` and `cacheWrite`; `output` includes `reasoning`. */
export type TokenUsage = {
  readonly input: number
  readonly cached: number
  readonly cacheWrite: number
  readonly output: number
  readonly reasoning: number
}

export function partsOf(turn: Turn): readonly Part[] {
  return 'part' in turn ? [turn] : turn.flatMap((entry) => partsOf(entry))
}

/** An assistant message, streamed word by word. `annotations` are citations in wire form. */
export function text(value: string, options: { annotations?: readonly JsonObject[] } = {}): Part {
  return textDeltas(value.match(/\s*\S+|\s+$/g) ?? [], options)
}

/** An assistant message in exactly these pieces; a `hold` between two pieces stops the stream there. */
export function textDeltas(deltas: readonly Delta[], options: { annotations?: readonly JsonObject[] } = {}): Part {
  return { part: 'message', deltas, annotations: options.annotations ?? [] }
}

/** An assistant message that comes in one piece, as some servers send it: without deltas. */
export function wholeText(value: string): Part {
  const item = { type: 'message', role: 'assistant' }
  const content = [{ type: 'output_text', annotations: [], logprobs: [], text: value }]
  return {
    part: 'item',
    idPrefix: 'msg',
    added: { ...item, status: 'in_progress', content: [] },
    progress: [],
    done: { ...item, status: 'completed', content },
  }
}

/**
 * A function call; several in one turn are parallel calls.
 *
 * @param args - An object, or the argument text itself when it is to be no valid JSON.
 */
export function toolCall(
  name: string,
  args: JsonObject | string = {},
  options: { callId?: string; deltas?: readonly Delta[] } = {},
): Part {
  const json = typeof args === 'string' ? args : JSON.stringify(args)
  const deltas = options.deltas ?? json.match(/.{1,6}/gsu) ?? []
  return { part: 'function_call', name, deltas, callId: options.callId ?? null }
}

export function reasoning(options: Partial<Omit<ReasoningPart, 'part'>> = {}): Part {
  const { summary = [], content = null, encrypted = null, chatField = 'reasoning_content' } = options
  return { part: 'reasoning', summary, content, encrypted, chatField }
}

export function refusal(value: string): Part {
  return { part: 'refusal', deltas: value.match(/\s*\S+|\s+$/g) ?? [] }
}

/** Ends the answer early for `reason` (`max_output_tokens`, `content_filter`), after `partialText` if given. */
export function incomplete(reason: string, partialText?: string): Turn {
  const ending: Part = { part: 'ending', how: 'incomplete', reason }
  return partialText === undefined ? ending : [text(partialText), ending]
}

/** Ends the answer with `response.failed` (in a chat completion: an error in the stream). */
export function failed(code: string, message = 'The model failed.'): Part {
  return { part: 'ending', how: 'failed', code, message }
}

/** Ends the answer with an `error` event. */
export function errorEvent(code: string, message = 'The stream failed.', options: { nested?: boolean } = {}): Part {
  return { part: 'ending', how: 'error', code, message, nested: options.nested ?? false }
}

/** The normal end. Only needed to place something after it. */
export function completed(): Part {
  return { part: 'ending', how: 'completed' }
}

/** Tokens to report; missing numbers are 20 in, 10 out, 0 for the rest. Null reports no usage at all. */
export function usage(tokens: Partial<TokenUsage> | null): Part {
  return { part: 'usage', usage: tokens && { ...DEFAULT_USAGE, ...tokens } }
}

export const DEFAULT_USAGE: TokenUsage = { input: 20, cached: 0, cacheWrite: 0, output: 10, reasoning: 0 }

/** Fields of the response object (or of each chunk) that differ from what the request asked for. */
export function responseFields(fields: JsonObject): Part {
  return { part: 'response_fields', fields }
}

/** An event as it stands, for types that nobody knows yet. It gets a `sequence_number`. */
export function unknownEvent(event: JsonObject & { readonly type: string }): Part {
  return { part: 'event', event }
}
