import type { Message } from '@bureau/protocol'
import type { Frame } from './frame.ts'

/** The frames of a run's log that matter for its text, as far as they are looked at. */
type Said = {
  readonly data: {
    readonly type?: unknown
    readonly callerAgent?: unknown
    /** Of a `raw_response_event`: the provider's event. */
    readonly data?: { readonly type?: unknown; readonly item_id?: unknown; readonly delta?: unknown }
    /** Of a `run_item_stream_event`. */
    readonly name?: unknown
    readonly item?: { readonly raw_item?: Message }
  }
}

/**
 * Takes a run's text for its user out of the frames of its log: what the agents of the user's conversation say.
 *
 * Messages are set apart by a blank line. What agents say to each other, reasoning and tools are no part of it; where to
 * sign in to a tool server is.
 */
export class SpokenText {
  readonly #spoken = new Set<string>()
  #current: string | undefined
  #lastSeq = 0
  #status: 'completed' | 'cancelled' | 'failed' | undefined
  #incomplete = false

  /** Set once the run has ended. */
  get status(): 'completed' | 'cancelled' | 'failed' | undefined {
    return this.#status
  }

  /** True: frames are missing that may have held text. */
  get incomplete(): boolean {
    return this.#incomplete
  }

  /** The text that the next frame of the log adds. */
  read({ seq, text }: Frame): string {
    this.#incomplete ||= seq !== this.#lastSeq + 1 && this.#status === undefined
    this.#lastSeq = seq
    const body = text.slice(text.indexOf('\n') + 1)
    if (body.startsWith('event: messages\n')) return this.#end(parseData(body) as Ending)
    if (body.startsWith('event: reset\n')) this.#incomplete = true
    if (body.startsWith('event: oauth_redirect\n')) return this.#askToSignIn(parseData(body) as Redirect)
    if (!body.startsWith('data: {"data":') || !RELEVANT.test(body)) return ''
    const { data } = parseData(body) as Said
    if (data.callerAgent !== null) return ''
    if (data.type === 'run_item_stream_event') return this.#created(data.item?.raw_item)
    if (data.type !== 'raw_response_event' || data.data?.type !== 'response.output_text.delta') return ''
    const { item_id: itemId, delta } = data.data
    return this.#say(String(itemId), String(delta))
  }

  /** A reader of plain text has no events: the link stands in the text, in a paragraph of its own. */
  #askToSignIn({ state, server, auth_url: url }: Redirect): string {
    return this.#say(`sign-in ${state}`, `Sign in to ${server} to continue: ${url}`)
  }

  /** A message whose text did not come in pieces. */
  #created(item: Message | undefined): string {
    if (item?.type !== 'message' || this.#spoken.has(String(item.id))) return ''
    return this.#say(String(item.id), outputTextOf(item))
  }

  #end({ status, new_messages: items }: Ending): string {
    this.#status = status
    if (this.#spoken.size > 0) return ''
    // Of a log that is no longer kept only this frame is left: it holds the whole text.
    this.#incomplete = false
    return items.map((item, index) => (isSpoken(item) ? this.#say(`#${index}`, outputTextOf(item)) : '')).join('')
  }

  #say(item: string, text: string): string {
    if (text === '') return ''
    const isNext = this.#current !== undefined && this.#current !== item
    this.#current = item
    this.#spoken.add(item)
    return isNext ? `\n\n${text}` : text
  }
}

type Redirect = { readonly state: string; readonly server: string; readonly auth_url: string }

type Ending = {
  readonly status: 'completed' | 'cancelled' | 'failed'
  readonly new_messages: readonly Message[]
}

const RELEVANT = /"response\.output_text\.delta"|"message_output_created"/

function parseData(body: string): unknown {
  return JSON.parse(body.slice(body.indexOf('data: ') + 'data: '.length))
}

function isSpoken({ type, role, callerAgent }: Message): boolean {
  return type === 'message' && role === 'assistant' && callerAgent == null
}

function outputTextOf({ content }: Message): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map((part: { type?: unknown; text?: unknown }) => (part.type === 'output_text' ? String(part.text) : ''))
    .join('')
}
