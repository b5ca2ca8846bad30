import type { JsonObject } from './json-object.ts'
import type { Delta, FunctionCallPart, Hold, ItemPart, OutputPart, ReasoningPart } from './turn.ts'
import { newId } from './wire.ts'

/** One output item of the Responses API: how it is announced, how it grows, and what it ends as. */
type OutputItem = {
  readonly added: JsonObject
  readonly progress: readonly (Progress | Hold)[]
  readonly done: JsonObject
}

type Progress = { readonly part: 'progress'; readonly type: string; readonly fields: JsonObject }

type ItemOptions = {
  readonly status: 'completed' | 'incomplete'
  /** The request's `include` list. */
  readonly include: readonly unknown[]
}

export function outputItem(part: OutputPart, options: ItemOptions): OutputItem {
  switch (part.part) {
    case 'message':
      return messageItem(part.deltas, part.annotations, options)
    case 'refusal':
      return refusalItem(part.deltas, options)
    case 'reasoning':
      return reasoningItem(part, options)
    case 'function_call':
      return functionCallItem(part, options)
    case 'item':
      return otherItem(part, options)
  }
}

function messageItem(
  deltas: readonly Delta[],
  annotations: readonly JsonObject[],
  { status }: ItemOptions,
): OutputItem {
  const text = joined(deltas)
  const content = { type: 'output_text', annotations, logprobs: [], text }
  const cited = annotations.map((annotation, index) =>
    progress('response.output_text.annotation.added', { content_index: 0, annotation_index: index, annotation }),
  )
  return {
    ...messageShell(content, status),
    progress: [
      progress('response.content_part.added', { content_index: 0, part: { ...content, annotations: [], text: '' } }),
      ...deltaEvents('response.output_text.delta', deltas, (delta) => ({ content_index: 0, delta, logprobs: [] })),
      ...cited,
      progress('response.output_text.done', { content_index: 0, text, logprobs: [] }),
      progress('response.content_part.done', { content_index: 0, part: content }),
    ],
  }
}

function refusalItem(deltas: readonly Delta[], { status }: ItemOptions): OutputItem {
  const content = { type: 'refusal', refusal: joined(deltas) }
  return {
    ...messageShell(content, status),
    progress: [
      progress('response.content_part.added', { content_index: 0, part: { type: 'refusal', refusal: '' } }),
      ...deltaEvents('response.refusal.delta', deltas, (delta) => ({ content_index: 0, delta })),
      progress('response.refusal.done', { content_index: 0, refusal: content.refusal }),
      progress('response.content_part.done', { content_index: 0, part: content }),
    ],
  }
}

function messageShell(content: JsonObject, status: string): Pick<OutputItem, 'added' | 'done'> {
  const item = { id: newId('msg'), type: 'message', status: 'in_progress', content: [], role: 'assistant' }
  return { added: item, done: { ...item, status, content: [content] } }
}

function reasoningItem(part: ReasoningPart, { include }: ItemOptions): OutputItem {
  const item = { id: newId('rs'), type: 'reasoning', summary: [] }
  const sealed = include.includes('reasoning.encrypted_content') ? { encrypted_content: part.encrypted } : {}
  const opened = part.content === null ? {} : { content: [{ type: 'reasoning_text', text: part.content }] }
  const summary = part.summary.map((text) => ({ type: 'summary_text', text }))
  return {
    added: { ...item, ...sealed },
    progress: [...part.summary.flatMap(summaryEvents), ...(part.content === null ? [] : contentEvents(part.content))],
    done: { ...item, ...opened, ...sealed, summary },
  }
}

function summaryEvents(text: string, index: number): readonly Progress[] {
  const at = { summary_index: index }
  return [
    progress('response.reasoning_summary_part.added', { ...at, part: { type: 'summary_text', text: '' } }),
    progress('response.reasoning_summary_text.delta', { ...at, delta: text }),
    progress('response.reasoning_summary_text.done', { ...at, text }),
    progress('response.reasoning_summary_part.done', { ...at, part: { type: 'summary_text', text } }),
  ]
}

function contentEvents(text: string): readonly Progress[] {
  const at = { content_index: 0 }
  return [
    progress('response.content_part.added', { ...at, part: { type: 'reasoning_text', text: '' } }),
    progress('response.reasoning_text.delta', { ...at, delta: text }),
    progress('response.reasoning_text.done', { ...at, text }),
    progress('response.content_part.done', { ...at, part: { type: 'reasoning_text', text } }),
  ]
}

function functionCallItem({ name, deltas, callId }: FunctionCallPart, { status }: ItemOptions): OutputItem {
  const shape = { id: newId('fc'), type: 'function_call', status: 'in_progress', arguments: '' }
  const item = { ...shape, call_id: callId ?? newId('call').slice(0, 29), name }
  const args = joined(deltas)
  return {
    added: item,
    progress: [
      ...deltaEvents('response.function_call_arguments.delta', deltas, (delta) => ({ delta })),
      progress('response.function_call_arguments.done', { arguments: args }),
    ],
    done: { ...item, status, arguments: args },
  }
}

function otherItem(part: ItemPart, { status, include }: ItemOptions): OutputItem {
  const id = newId(part.idPrefix)
  const cut = status === 'incomplete' && 'status' in part.done ? { status } : {}
  const hidden = 'results' in part.done && !include.includes('file_search_call.results') ? { results: null } : {}
  return {
    added: { id, ...part.added },
    progress: part.progress.map(({ type, ...fields }) => progress(String(type), fields)),
    done: { id, ...part.done, ...cut, ...hidden },
  }
}

const progress = (type: string, fields: JsonObject): Progress => ({ part: 'progress', type, fields })

const deltaEvents = (
  type: string,
  deltas: readonly Delta[],
  fields: (delta: string) => JsonObject,
): readonly (Progress | Hold)[] =>
  deltas.map((delta) => (typeof delta === 'string' ? progress(type, fields(delta)) : delta))

export const joined = (deltas: readonly Delta[]): string => deltas.filter((delta) => typeof delta === 'string').join('')

export const includeOf = (body: JsonObject): readonly unknown[] =>
  Array.isArray(body['include']) ? body['include'] : []
