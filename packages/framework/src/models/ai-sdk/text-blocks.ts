import type { LanguageModelV4Citation, LanguageModelV4Source, LanguageModelV4StreamPart } from '@ai-sdk/provider'
import type { ResponseEventWriter } from '../response-events.ts'
import type { Annotation, MessageEvents } from '../response-items.ts'
import { mergeMetadata, type Metadata, type ProviderData } from './provider-data.ts'

type TextPart = Extract<LanguageModelV4StreamPart, { type: 'text-start' | 'text-delta' | 'text-end' }>
type Block = {
  text: string
  metadata: Metadata | undefined
  citations: readonly LanguageModelV4Citation[]
  hasEnded: boolean
}
type Message = { readonly events: MessageEvents; text: string; readonly blocks: { end: number; metadata?: Metadata }[] }

/**
 * The text of one answer. Blocks that follow each other are one message, because vendors begin a block for each citation.
 * A block that begins before another has ended waits for it, so that the text stays in order.
 */
export class TextBlocks {
  readonly #writer: ResponseEventWriter
  readonly #model: string
  /** Blocks that are not written to their end, by their ids. The first is being written. */
  readonly #blocks = new Map<string, Block>()
  #message: Message | undefined
  #sources: LanguageModelV4Source[] = []

  constructor(writer: ResponseEventWriter, model: string) {
    this.#writer = writer
    this.#model = model
  }

  read(part: TextPart): void {
    const block = this.#blocks.get(part.id) ?? { text: '', metadata: undefined, citations: [], hasEnded: false }
    this.#blocks.set(part.id, block)
    block.metadata = mergeMetadata(block.metadata, part.providerMetadata)
    if (part.type === 'text-delta') block.text += part.delta
    if (part.type === 'text-end') {
      block.citations = part.citations ?? []
      block.hasEnded = true
    }
    this.#write()
  }

  /** Sources of the answer stand at the end of the message; without an address they are not shown. */
  cite(source: LanguageModelV4Source): void {
    this.#sources.push(source)
  }

  /** Another item begins: text after it belongs to another message. */
  interrupt(): void {
    if (this.#blocks.size === 0) this.#close('completed')
  }

  /** The answer ends, with the last message complete or cut off. */
  end(status: 'completed' | 'incomplete'): void {
    for (const block of this.#blocks.values()) block.hasEnded = true
    this.#write()
    this.#close(status)
  }

  #write(): void {
    for (const [id, block] of this.#blocks) {
      this.#say(block)
      if (!block.hasEnded) return
      this.#endBlock(block)
      this.#blocks.delete(id)
    }
  }

  /** A block without text counts when it carries something for the provider. */
  #say(block: Block): void {
    if (block.text === '' && !block.metadata) return
    this.#message ??= { events: this.#writer.openMessage(), text: '', blocks: [] }
    this.#message.events.text(block.text)
    this.#message.text += block.text
    block.text = ''
  }

  #endBlock({ metadata, citations }: Block): void {
    const message = this.#message
    if (!message) return
    const start = message.blocks.at(-1)?.end ?? 0
    for (const citation of citations) this.#annotate(message, annotationOf(citation, start, message.text.length))
    message.blocks.push({ end: message.text.length, ...(metadata && { metadata }) })
  }

  #annotate({ events }: Message, annotation: Annotation | undefined): void {
    if (!annotation) return
    this.#sources = this.#sources.filter((source) => source.sourceType !== 'url' || source.url !== annotation['url'])
    events.annotate(annotation)
  }

  #close(status: 'completed' | 'incomplete'): void {
    const message = this.#message
    if (!message) return
    const { length } = message.text
    const sources = this.#sources
    this.#sources = []
    for (const source of sources) this.#annotate(message, annotationOf({ source }, length, length))
    message.events.done({ status, fields: this.#providerField(message) })
    this.#message = undefined
  }

  #providerField({ blocks }: Message): { provider?: ProviderData } {
    if (!blocks.some(({ metadata }) => metadata)) return {}
    const [first, ...others] = blocks
    const isWhole = others.length === 0 && first?.metadata
    return { provider: { model: this.#model, ...(isWhole ? { metadata: isWhole } : { blocks }) } }
  }
}

/** Positions in the text of the message; `start` and `end` are those of the block. */
function annotationOf(
  { source, startIndex, endIndex }: LanguageModelV4Citation,
  start: number,
  end: number,
): Annotation | undefined {
  if (source.sourceType !== 'url') return undefined
  return {
    type: 'url_citation',
    url: source.url,
    title: source.title ?? '',
    start_index: startIndex === undefined ? start : start + startIndex,
    end_index: endIndex === undefined ? end : start + endIndex,
  }
}
