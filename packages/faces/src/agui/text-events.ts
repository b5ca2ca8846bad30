import { type AssistantMessage, EventType } from '@ag-ui/core'
import { type Fields, fieldsOf, type WireItem } from '@bureau/protocol'
import { frame } from './frame.ts'
import type { Entry, Tag, Transcript } from './transcript.ts'
import type { UniqueIds } from './unique-ids.ts'

type Text = { readonly entry: Entry<AssistantMessage>; readonly tag: Tag; announced: boolean }

/** Messages of the agents as `TEXT_MESSAGE_*` events. */
export class TextEvents {
  readonly #transcript: Transcript
  readonly #ids: UniqueIds
  readonly #texts = new Map<string, Text>()

  constructor(transcript: Transcript, ids: UniqueIds) {
    this.#transcript = transcript
    this.#ids = ids
  }

  start(key: string, itemId: string | undefined, tag: Tag): string {
    const abandoned = this.#close(key)
    const id = this.#ids.take(itemId ?? 'msg')
    const entry = this.#transcript.add<AssistantMessage>({ id, role: 'assistant', content: '', ...tag }, { open: true })
    this.#texts.set(key, { entry, tag, announced: false })
    return abandoned + frame({ type: EventType.TEXT_MESSAGE_START, messageId: id, role: 'assistant', ...tag })
  }

  delta(key: string, delta: string, tag: Tag): string {
    if (delta === '') return ''
    const started = this.#texts.get(key)?.entry.open ? '' : this.start(key, undefined, tag)
    const { message } = this.#texts.get(key)!.entry
    message.content += delta
    return started + frame({ type: EventType.TEXT_MESSAGE_CONTENT, messageId: message.id, delta })
  }

  /** Ends the message. Text that its deltas did not have comes first. */
  end(key: string, item: WireItem, tag: Tag): string {
    const started = this.#texts.get(key)?.entry.open ? '' : this.start(key, item.id, tag)
    const { entry } = this.#texts.get(key)!
    const streamed = entry.message.content ?? ''
    const whole = textOf(item)
    const rest = whole.startsWith(streamed) ? this.delta(key, whole.slice(streamed.length), tag) : ''
    entry.message.content = whole
    entry.open = false
    return started + rest + frame({ type: EventType.TEXT_MESSAGE_END, messageId: entry.message.id })
  }

  /** The run has taken the message over. A message that no model streamed (a guardrail's guidance) is sent as a whole. */
  created(key: string, item: WireItem, tag: Tag): string {
    const known = this.#texts.get(key)
    const said = known && !known.entry.open && !known.announced ? '' : this.end(key, item, tag)
    const text = this.#texts.get(key)!
    text.announced = true
    return said + annotated(text.entry.message, item) + this.#transcript.snapshot()
  }

  /** Closes what the run has left open. For the transcript it stays unfinished. */
  endAll(): string {
    const closed = [...this.#texts.keys()].map((key) => this.#close(key)).join('')
    this.#texts.clear()
    return closed
  }

  #close(key: string): string {
    const entry = this.#texts.get(key)?.entry
    return entry?.open ? frame({ type: EventType.TEXT_MESSAGE_END, messageId: entry.message.id }) : ''
  }
}

function partsOf(item: WireItem): readonly Fields[] {
  const { content } = item
  if (typeof content === 'string') return [{ text: content }]
  return Array.isArray(content) ? content.map(fieldsOf) : []
}

function textOf(item: WireItem): string {
  return partsOf(item)
    .map(({ text, refusal }) => text ?? refusal)
    .filter((text) => typeof text === 'string')
    .join('')
}

/** Citations, for clients that show them; the message itself has no place for them. */
function annotated({ id, role, content }: AssistantMessage, item: WireItem): string {
  const annotations = partsOf(item).flatMap((part) => part['annotations'] ?? [])
  if (annotations.length === 0) return ''
  return frame({ type: EventType.CUSTOM, name: 'annotated_output', value: { id, role, content, annotations } })
}
