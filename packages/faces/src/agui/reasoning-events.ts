import { EventType, type ReasoningMessage } from '@ag-ui/core'
import type { WireItem } from '@bureau/protocol'
import { reasoningTexts } from '../openai/model-event.ts'
import { frame } from './frame.ts'
import type { Entry, Tag, Transcript } from './transcript.ts'
import type { UniqueIds } from './unique-ids.ts'

/** One stretch of reasoning: a span for the client, and in it one message per part that has text. */
type Span = { readonly id: string; readonly tag: Tag; open: Entry<ReasoningMessage> | undefined; said: boolean }

/** Reasoning items as `REASONING_*` events. A span whose text the provider keeps to itself has no messages. */
export class ReasoningEvents {
  readonly #transcript: Transcript
  readonly #ids: UniqueIds
  readonly #spans = new Map<string, Span>()

  constructor(transcript: Transcript, ids: UniqueIds) {
    this.#transcript = transcript
    this.#ids = ids
  }

  start(key: string, itemId: string | undefined, tag: Tag): string {
    const abandoned = this.#spans.get(key)
    const span = { id: this.#ids.take(itemId ?? 'reasoning'), tag, open: undefined, said: false }
    this.#spans.set(key, span)
    return (
      (abandoned ? closeSpan(abandoned) : '') + frame({ type: EventType.REASONING_START, messageId: span.id, ...tag })
    )
  }

  /** Text of the running part; the first text opens a message. */
  delta(key: string, delta: string, tag: Tag): string {
    if (delta === '') return ''
    const started = this.#spans.has(key) ? '' : this.start(key, undefined, tag)
    const span = this.#spans.get(key)!
    const opened = span.open ? '' : this.#openMessage(span)
    const { message } = span.open!
    message.content += delta
    const content = { type: EventType.REASONING_MESSAGE_CONTENT, messageId: message.id, delta } as const
    return started + opened + frame({ ...content, ...span.tag })
  }

  endPart(key: string): string {
    const span = this.#spans.get(key)
    return span ? closeMessage(span) : ''
  }

  /** Ends the span. Text that was never streamed comes first. */
  end(key: string, item: WireItem, tag: Tag): string {
    const started = this.#spans.has(key) ? '' : this.start(key, item.id, tag)
    const span = this.#spans.get(key)!
    const whole = span.said ? [] : reasoningTexts(item)
    const said = whole.map((text) => this.delta(key, text, tag) + closeMessage(span)).join('')
    this.#spans.delete(key)
    return started + said + closeSpan(span)
  }

  /** Closes what the run has left open. */
  endAll(): string {
    const left = [...this.#spans.values()]
    this.#spans.clear()
    return left.map((span) => closeSpan(span)).join('')
  }

  #openMessage(span: Span): string {
    // The first message shares the span's id, so that a client with one message per item finds it under that id.
    const id = span.said ? this.#ids.take(span.id) : span.id
    span.said = true
    span.open = this.#transcript.add({ id, role: 'reasoning', content: '', ...span.tag }, { open: true })
    return frame({ type: EventType.REASONING_MESSAGE_START, messageId: id, role: 'reasoning', ...span.tag })
  }
}

function closeMessage(span: Span): string {
  if (!span.open) return ''
  const messageId = span.open.message.id
  span.open.open = false
  span.open = undefined
  return frame({ type: EventType.REASONING_MESSAGE_END, messageId, ...span.tag })
}

function closeSpan(span: Span): string {
  return closeMessage(span) + frame({ type: EventType.REASONING_END, messageId: span.id, ...span.tag })
}
