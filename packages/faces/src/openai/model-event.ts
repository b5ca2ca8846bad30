import { type EventSource, fieldsOf, type ModelEvent, type RunEventOf, type WireItem } from '@bureau/protocol'

/** Whether this is part of the conversation with the user, and not of one between agents. */
export function isWithUser({ callerAgent }: EventSource): boolean {
  return callerAgent === null
}

const DELTA = '"delta":"'

/**
 * The text of a delta event as the JSON literal that it is, with its quotes: it is copied from one frame into another and
 * never decoded. Undefined: the event has none.
 */
export function deltaLiteral(json: string): string | undefined {
  const at = json.indexOf(DELTA)
  if (at < 0) return parsedDelta(json)
  const start = at + DELTA.length - 1
  let end = json.indexOf('"', start + 1)
  while (end > 0 && isEscaped(json, end)) end = json.indexOf('"', end + 1)
  return end > 0 ? json.slice(start, end + 1) : undefined
}

/** Whether an odd number of backslashes stands before the quote. */
function isEscaped(json: string, quote: number): boolean {
  let at = quote
  while (json.charCodeAt(at - 1) === 92) at--
  return (quote - at) % 2 === 1
}

/** For servers that put spaces into their JSON. */
function parsedDelta(json: string): string | undefined {
  const { delta } = parsedEvent(json)
  return typeof delta === 'string' ? JSON.stringify(delta) : undefined
}

export type ParsedEvent = {
  readonly item?: WireItem
  readonly item_id?: string
  readonly output_index?: number
  readonly response?: { readonly incomplete_details?: { readonly reason?: unknown } | null }
  readonly delta?: unknown
  readonly [key: string]: unknown
}

/** Empty for text that is not JSON after all: a run passes most events on without reading them. */
export function parsedEvent(json: string): ParsedEvent {
  try {
    return JSON.parse(json) as ParsedEvent
  } catch {
    return {}
  }
}

/** The item that an event carries. */
export function itemOf(event: ModelEvent): WireItem | undefined {
  const { item } = parsedEvent(event.json)
  return typeof item === 'object' && item !== null ? item : undefined
}

/** The finished item of an event of the run itself. */
export function createdItem(event: RunEventOf<'item.created'>): WireItem {
  return event.item.raw_item
}

/** Why a model broke off: `max_output_tokens`, `content_filter`. */
export function incompleteReason(event: ModelEvent): string {
  const reason = parsedEvent(event.json).response?.incomplete_details?.reason
  return typeof reason === 'string' ? reason : 'max_output_tokens'
}

type Item = Readonly<Record<string, unknown>>

/** The text of a message, without refusals. */
export function textOf(item: Item): string {
  const { content } = item
  return typeof content === 'string' ? content : partsOf(item, 'text')
}

/** What a model has refused to do, in its words. */
export function refusalOf(item: Item): string {
  return partsOf(item, 'refusal')
}

function partsOf({ content }: Item, member: 'text' | 'refusal'): string {
  if (!Array.isArray(content)) return ''
  return (content as (Record<string, unknown> | null)[])
    .map((part) => part?.[member])
    .filter((text) => typeof text === 'string')
    .join('')
}

/** The reasoning of an item as one text. */
export const reasoningOf = (item: Item): string => reasoningTexts(item).join('\n\n')

/** The parts of the summary, or of the open text of models that give it. */
export function reasoningTexts(item: Item): string[] {
  const parts = [item['summary'], item['content']].find((list) => Array.isArray(list) && list.length > 0) ?? []
  const texts = (parts as readonly unknown[]).map(fieldsOf)
  return texts.flatMap(({ text }) => (typeof text === 'string' && text !== '' ? [text] : []))
}

/**
 * Which messages of a run have been streamed: not all are. A guardrail's guidance comes as a whole, and some model servers
 * send a message without its deltas.
 */
export class StreamedMessages {
  #hasDeltas = false
  #finished = 0

  delta(): void {
    this.#hasDeltas = true
  }

  /** The model has finished a message. True: its text is still to be shown. */
  finished(): boolean {
    const isNew = !this.#hasDeltas
    this.#hasDeltas = false
    this.#finished++
    return isNew
  }

  /** The run has a message. True: its text is still to be shown. */
  created(): boolean {
    if (this.#finished > 0) {
      this.#finished--
      return false
    }
    const isNew = !this.#hasDeltas
    this.#hasDeltas = false
    return isNew
  }
}
