import type { WireItem } from '@bureau/protocol'
import { randomHex } from '../random-hex.ts'

/** What the events of one item need from the response they belong to. */
export type ItemPlace = {
  readonly outputIndex: number
  send(event: { readonly type: string; readonly [key: string]: unknown }): void
  /** `head` is the event's JSON text up to the value of its last member, the sequence number. */
  sendDelta(kind: string, head: string, delta: string): void
  /** The item is finished and will not change any more. */
  close(item: WireItem): void
}

/** How an item ends. `fields` of another form of the same item win over what was streamed, except its id and status. */
export type ItemEnd = { readonly status?: 'completed' | 'incomplete'; readonly fields?: WireItem }

export type MessageEvents = {
  readonly id: string
  text(delta: string): void
  refusal(delta: string): void
  /** Adds a citation to the text so far, such as a `url_citation`. */
  annotate(annotation: Annotation): void
  done(end?: ItemEnd): void
}

export type Annotation = { readonly type: string; readonly [key: string]: unknown }

/** An item that is given whole, when it is finished. */
export type WholeItemEvents = { readonly id: string; done(end?: ItemEnd): void }

export type ReasoningEvents = {
  readonly id: string
  summary(delta: string): void
  /** The next delta begins another part of the summary. */
  endPart(): void
  done(end?: ItemEnd): void
}

export type FunctionCallEvents = {
  readonly id: string
  readonly callId: string
  /** The arguments so far. */
  readonly streamed: string
  arguments(delta: string): void
  done(end?: ItemEnd): void
}

/** A new id that no provider has given to anything; `isOwnId` knows it again. */
export function newWireId(prefix: 'resp' | 'msg' | 'fc' | 'rs' | 'call' | 'item'): string {
  return `${prefix}_bureau_${randomHex()}`
}

/** Whether an id was made here, for a model that does not speak the Responses API itself. */
export function isOwnId(id: unknown): boolean {
  return typeof id === 'string' && /^[a-z]+_bureau_/.test(id)
}

type Content = { type: 'output_text'; text: string } | { type: 'refusal'; refusal: string }

export function openMessage(place: ItemPlace, id = newWireId('msg')): MessageEvents {
  const { outputIndex } = place
  const item = { id, type: 'message', status: 'in_progress', role: 'assistant', content: [] as Content[] }
  place.send({ type: 'response.output_item.added', output_index: outputIndex, item })
  const content: Content[] = []
  let part: ContentEvents | undefined

  function partOf(type: Content['type']): ContentEvents {
    if (part?.type === type) return part
    if (part) content.push(part.done())
    return (part = openContent(place, { type, itemId: id, contentIndex: content.length }))
  }
  return {
    id,
    text: (delta) => partOf('output_text').delta(delta),
    refusal: (delta) => partOf('refusal').delta(delta),
    annotate: (annotation) => partOf('output_text').annotate(annotation),
    done({ status = 'completed', fields } = {}) {
      if (part) content.push(part.done())
      const finished = { ...item, content, ...fields, id, status }
      place.send({ type: 'response.output_item.done', output_index: outputIndex, item: finished })
      place.close(finished)
    },
  }
}

type ContentEvents = {
  readonly type: Content['type']
  delta(text: string): void
  annotate(annotation: Annotation): void
  done(): Content
}

type ContentPlace = { readonly type: Content['type']; readonly itemId: string; readonly contentIndex: number }

function openContent(place: ItemPlace, { type, itemId, contentIndex }: ContentPlace): ContentEvents {
  const at = { item_id: itemId, output_index: place.outputIndex, content_index: contentIndex }
  const noLogprobs = type === 'output_text' ? { logprobs: [] } : {}
  const kind = type === 'output_text' ? 'response.output_text' : 'response.refusal'
  const member = type === 'output_text' ? 'text' : 'refusal'
  const head = deltaHead(`${kind}.delta`, { ...at, ...noLogprobs })
  const annotations: Annotation[] = []
  let text = ''
  place.send({ type: 'response.content_part.added', ...at, part: contentOf(type, '') })
  return {
    type,
    delta(more) {
      if (more === '') return
      text += more
      place.sendDelta(`${kind}.delta`, head, more)
    },
    annotate(annotation) {
      const annotationIndex = annotations.push(annotation) - 1
      place.send({ type: `${kind}.annotation.added`, ...at, annotation_index: annotationIndex, annotation })
    },
    done() {
      const part = contentOf(type, text, annotations)
      place.send({ type: `${kind}.done`, ...at, [member]: text, ...noLogprobs })
      place.send({ type: 'response.content_part.done', ...at, part })
      return part
    },
  }
}

function contentOf(
  type: Content['type'],
  text: string,
  annotations: readonly Annotation[] = [],
): Content & { [key: string]: unknown } {
  return type === 'refusal' ? { type, refusal: text } : { type, annotations, logprobs: [], text }
}

/** An item of any type without events of its own. `end.fields` says what has been added to it. */
export function openWholeItem(place: ItemPlace, begun: WireItem): WholeItemEvents {
  const { outputIndex } = place
  const id = begun.id ?? newWireId('item')
  const item = { ...begun, id }
  place.send({ type: 'response.output_item.added', output_index: outputIndex, item })
  return {
    id,
    done({ fields } = {}) {
      const finished = { ...item, ...fields, id }
      place.send({ type: 'response.output_item.done', output_index: outputIndex, item: finished })
      place.close(finished)
    },
  }
}

export function openReasoning(place: ItemPlace, id = newWireId('rs')): ReasoningEvents {
  const { outputIndex } = place
  const summary: { type: 'summary_text'; text: string }[] = []
  place.send({
    type: 'response.output_item.added',
    output_index: outputIndex,
    item: { id, type: 'reasoning', summary },
  })
  const kind = 'response.reasoning_summary_text'
  let part: { readonly head: string; readonly at: object; text: string } | undefined

  function openPart(): { readonly head: string; readonly at: object; text: string } {
    const at = { item_id: id, output_index: outputIndex, summary_index: summary.length }
    place.send({ type: 'response.reasoning_summary_part.added', ...at, part: { type: 'summary_text', text: '' } })
    return { head: deltaHead(`${kind}.delta`, at), at, text: '' }
  }
  function endPart(): void {
    if (!part) return
    const finished = { type: 'summary_text' as const, text: part.text }
    place.send({ type: `${kind}.done`, ...part.at, text: part.text })
    place.send({ type: 'response.reasoning_summary_part.done', ...part.at, part: finished })
    summary.push(finished)
    part = undefined
  }
  return {
    id,
    summary(delta) {
      part ??= openPart()
      if (delta === '') return
      part.text += delta
      place.sendDelta(`${kind}.delta`, part.head, delta)
    },
    endPart,
    // Reasoning items carry no status: the Responses API does not take one back.
    done({ fields } = {}) {
      endPart()
      const finished = { type: 'reasoning', summary, ...fields, id }
      place.send({ type: 'response.output_item.done', output_index: outputIndex, item: finished })
      place.close(finished)
    },
  }
}

type NewFunctionCall = { readonly callId: string; readonly name: string; readonly id?: string }

export function openFunctionCall(place: ItemPlace, call: NewFunctionCall): FunctionCallEvents {
  const { outputIndex } = place
  const { callId, name, id = newWireId('fc') } = call
  const item = { id, type: 'function_call', status: 'in_progress', call_id: callId, name, arguments: '' }
  const at = { item_id: id, output_index: outputIndex }
  const kind = 'response.function_call_arguments'
  const head = deltaHead(`${kind}.delta`, at)
  let text = ''
  place.send({ type: 'response.output_item.added', output_index: outputIndex, item })
  return {
    id,
    callId,
    get streamed() {
      return text
    },
    arguments(delta) {
      if (delta === '') return
      text += delta
      place.sendDelta(`${kind}.delta`, head, delta)
    },
    done({ status = 'completed', fields } = {}) {
      const finished = { ...item, arguments: text, ...fields, id, status }
      place.send({ type: `${kind}.done`, ...at, name, arguments: finished.arguments })
      place.send({ type: 'response.output_item.done', output_index: outputIndex, item: finished })
      place.close(finished)
    },
  }
}

/** The text of a delta event up to its sequence number, made once per part so that a token costs one concatenation. */
function deltaHead(type: string, fields: object): string {
  return `${JSON.stringify({ type, ...fields }).slice(0, -1)},"sequence_number":`
}
