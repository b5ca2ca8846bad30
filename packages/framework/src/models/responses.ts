import type { Dispatcher } from 'undici'
import { SseParser, type WireItem } from '@bureau/protocol'
import { ListText } from './list-text.ts'
import { type AnswerReader, postStream } from './post-stream.ts'
import { isOwnId } from './response-items.ts'
import { invalidAnswer, requireBoundedEvent } from './model-error.ts'
import type { ModelCallObserver, ResponsesRequest, ResponsesTransport } from '../agency/model-object.ts'

/** Where a model is served and with whose key. */
export type ModelEndpoint = {
  /** Base URL with the version segment, e.g. `https://api.example.com/v1`. */
  readonly baseUrl: string
  readonly apiKey: string | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly dispatcher: Dispatcher
}

/** The Responses API over HTTP, for one conversation. Each event's JSON text goes to the observer as it came. */
export function responsesTransport(endpoint: ModelEndpoint): ResponsesTransport {
  const url = endpointUrl(endpoint.baseUrl, 'responses')
  const writeBody = bodyWriter()
  return (request, { observer, signal, headers }) =>
    postStream({
      dispatcher: endpoint.dispatcher,
      url,
      headers: { ...headers, ...authorization(endpoint), ...endpoint.headers },
      body: writeBody(request),
      signal,
      onSent: () => observer.onSent?.(),
      onRefused: () => observer.onRefused?.(),
      reader: new ResponsesEventCutter(observer),
    })
}

/** Writes the bodies of one conversation's requests: of tools and items only those that the request before did not have. */
function bodyWriter(): (request: ResponsesRequest) => string {
  const toolsText = new ListText<object>((tools) => tools)
  const inputText = new ListText<WireItem>(replayable)
  return ({ input, tools, ...settings }) => {
    const head = JSON.stringify({ ...settings, stream: true }).slice(0, -1)
    const offered = tools ? `,"tools":[${toolsText.write(tools)}]` : ''
    return `${head}${offered},"input":[${inputText.write(input)}]}`
  }
}

/** A query of the base URL stays, because some providers want an API version there. The URL is shared: do not change it. */
export function endpointUrl(baseUrl: string, path: string): URL {
  const key = `${path} ${baseUrl}`
  const known = urls.get(key)
  if (known) return known
  const url = new URL(baseUrl)
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/${path}`
  url.hash = ''
  if (urls.size >= MAX_URLS) urls.clear()
  urls.set(key, url)
  return url
}

// A cache, because every run asks for the same few: callers may name addresses, so it is bounded.
const urls = new Map<string, URL>()
const MAX_URLS = 100

export function authorization(endpoint: ModelEndpoint): Record<string, string> {
  return endpoint.apiKey ? { authorization: `Bearer ${endpoint.apiKey}` } : {}
}

/** How the JSON text of an event begins, up to its name. */
const TYPE = '{"type":"'

const LAST = new Set(['response.completed', 'response.incomplete', 'response.failed'])

/**
 * Cuts events out of the stream by searching for line ends, because this is the path of every token: the common frame
 * (`event: …\ndata: {…}\n\n`) is neither split into lines nor parsed. Anything else takes the general parser.
 */
export class ResponsesEventCutter implements AnswerReader {
  ended = false
  readonly #observer: ModelCallObserver
  #isOver = false
  #rest = ''
  #endsLine = false
  #general: SseParser | undefined

  constructor(observer: ModelCallObserver) {
    this.#observer = observer
  }

  push(text: string): Promise<void> | undefined {
    if (!this.#general && text.includes('\r')) {
      this.#general = new SseParser()
      text = this.#rest + text
    }
    if (this.#general) this.#deliverFrames(this.#general, text)
    else if (this.#endsEvent(text)) this.#pushFast(this.#rest === '' ? text : this.#rest + text)
    else this.#rest += text
    requireBoundedEvent(this.#general ? this.#general.pending : this.#rest.length)
    return this.#observer.onBatchEnd()
  }

  /** Nothing but a terminal event ends a response. */
  end(): void {}

  /** A large event comes in many pieces, so only what is new is searched. */
  #endsEvent(text: string): boolean {
    const endsHere = text.includes('\n\n') || (this.#endsLine && text.startsWith('\n'))
    this.#endsLine = text.endsWith('\n')
    return endsHere
  }

  #pushFast(text: string): void {
    let start = 0
    for (;;) {
      const end = text.indexOf('\n\n', start)
      if (end < 0) break
      const line = text.indexOf('\n', start)
      if (
        text.startsWith('event: ', start) &&
        text.startsWith('data: ', line + 1) &&
        text.indexOf('\n', line + 1) === end
      )
        this.#deliver(text.slice(start + 7, line), text.slice(line + 7, end))
      else this.#deliverFrames(new SseParser(), text.slice(start, end + 2))
      start = end + 2
    }
    this.#rest = start === 0 ? text : text.slice(start)
  }

  #deliverFrames(parser: SseParser, text: string): void {
    for (const frame of parser.push(text)) {
      if (frame.data === '[DONE]') continue
      const json = frame.data.includes('\n') ? frame.data.replaceAll('\n', ' ') : frame.data
      this.#deliver(frame.event ?? '', json)
    }
  }

  /** A last event ends the response. An error may be followed by that of the response that has failed. */
  #deliver(named: string, json: string): void {
    if (this.#isOver) return
    const isPlain =
      json.startsWith(TYPE) &&
      json.startsWith(named, TYPE.length) &&
      json.startsWith('"', TYPE.length + named.length) &&
      json.endsWith('}')
    const kind = isPlain ? named : kindOf(json, named)
    if (kind === undefined) return
    this.#isOver = LAST.has(kind)
    this.ended ||= this.#isOver || kind === 'error'
    this.#observer.onEvent(kind, json)
  }
}

/** What an event says it is, or else its `event:` line; a bare error is an error. Anything else is none of the API's. */
function kindOf(json: string, named: string): string | undefined {
  const { type, error } = assertJson(json) as { type?: unknown; error?: unknown }
  if (typeof type === 'string') return type
  if (error != null) return 'error'
  return named.startsWith('response.') ? named : undefined
}

function assertJson(json: string): object {
  try {
    const value: unknown = JSON.parse(json)
    if (typeof value === 'object' && value !== null) return value
  } catch {
    // Falls through to the one error below.
  }
  throw invalidAnswer('an event of the stream is not a JSON object')
}

/** What the Responses API takes on the items that other vendors' models produce as well. */
const REPLAYED_MEMBERS: ReadonlyMap<string | undefined, readonly string[]> = new Map([
  ['message', ['type', 'id', 'role', 'content', 'status', 'phase']],
  ['function_call', ['type', 'id', 'call_id', 'name', 'arguments', 'status', 'namespace', 'caller']],
])

/**
 * Without what other vendors' models have left: their reasoning and the calls that their providers carried out cannot be
 * looked up, and their own members are unknown. An item with a member `provider` is of the AI SDK, whatever its id.
 */
function replayable(items: readonly WireItem[]): readonly WireItem[] {
  if (!items.some(isForeign)) return items
  return items.flatMap((item) => {
    if (!isForeign(item)) return [item]
    const members = REPLAYED_MEMBERS.get(item.type)
    if (members) return [Object.fromEntries(Object.entries(item).filter(([name]) => members.includes(name)))]
    return isOfAiSdk(item) || item.type === 'reasoning' ? [] : [item]
  })
}

function isForeign(item: WireItem): boolean {
  return isOfAiSdk(item) || isOwnId(item.id)
}

function isOfAiSdk({ provider }: WireItem): boolean {
  return typeof provider === 'object' && provider !== null
}
