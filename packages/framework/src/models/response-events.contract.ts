import { expect } from 'vitest'
import type { WireItem } from '@bureau/protocol'
import type { ModelCallObserver, ResponsesResponse } from '../agency/model-object.ts'

type Event = { readonly type: string; readonly [key: string]: unknown }

/** Keeps the events of one model call, for tests. */
export class RecordedCall implements ModelCallObserver {
  readonly events: Event[] = []
  readonly jsons: string[] = []
  batches = 0
  /** Resolved values make the transport wait, as a slow reader does. */
  ready: () => Promise<void> | undefined = () => undefined
  onFirst: (kind: string) => void = () => undefined

  onEvent(kind: string, json: string): void {
    const event = JSON.parse(json) as Event
    expect(event.type).toBe(kind)
    this.events.push(event)
    this.jsons.push(json)
    this.onFirst(kind)
  }

  onBatchEnd(): Promise<void> | undefined {
    this.batches += 1
    return this.ready()
  }

  get kinds(): string[] {
    return this.events.map((event) => event.type)
  }

  /** The response of the last event. */
  get response(): ResponsesResponse {
    return responseOf(this.events.at(-1)!)
  }

  /** All text that was streamed, message by message. */
  deltas(kind: string): string {
    return this.events
      .filter((event) => event.type === kind)
      .map((event) => event['delta'])
      .join('')
  }
}

function responseOf(event: Event): ResponsesResponse {
  return event['response'] as ResponsesResponse
}

const TERMINAL = ['response.completed', 'response.incomplete', 'response.failed']

/** What a client may rely on, whatever model is behind the events. */
export function expectLegalSequence(events: readonly Event[]): void {
  expect(events.map((event) => event['sequence_number'])).toEqual(events.map((_, index) => index))
  expect(events.slice(0, 2).map((event) => event.type)).toEqual(['response.created', 'response.in_progress'])
  expect(events.filter((event) => TERMINAL.includes(event.type))).toEqual([events.at(-1)])
  const items = new Map<number, OpenItem>()
  for (const event of events.slice(2, -1)) applyToItem(items, event)
  const { output, id } = responseOf(events.at(-1)!)
  expect(responseOf(events[0]!).id).toBe(id)
  expect([...items.values()].map((item) => item.done)).toEqual(output)
  const ids = [id, ...output.map((item) => item.id)]
  expect(new Set(ids).size).toBe(ids.length)
  for (const [index, item] of output.entries()) expectStreamed(items.get(index)!, item)
}

type OpenItem = {
  readonly id: string
  readonly parts: { text: string; open: boolean }[]
  arguments: string
  done?: WireItem
}

function applyToItem(items: Map<number, OpenItem>, event: Event): void {
  const index = event['output_index'] as number
  const item = items.get(index)
  if (event.type === 'response.output_item.added') {
    expect(index).toBe(items.size)
    items.set(index, { id: (event['item'] as WireItem).id!, parts: [], arguments: '' })
    return
  }
  expect(item, `an item is open for ${event.type}`).toBeDefined()
  expect(item!.done, `the item is not done before ${event.type}`).toBeUndefined()
  if (event.type === 'response.output_item.done') {
    item!.done = event['item'] as WireItem
    expect(item!.done.id).toBe(item!.id)
    return expect(item!.parts.every((part) => !part.open)).toBe(true)
  }
  expect(event['item_id']).toBe(item!.id)
  if (event.type === 'response.function_call_arguments.delta') item!.arguments += String(event['delta'])
  else if (event.type === 'response.function_call_arguments.done') expect(event['arguments']).toBe(item!.arguments)
  else applyToPart(item!, event)
}

function applyToPart(item: OpenItem, event: Event): void {
  if (event.type.endsWith('.annotation.added')) return
  const index = (event['content_index'] ?? event['summary_index']) as number
  if (event.type.endsWith('_part.added')) {
    expect(index).toBe(item.parts.length)
    expect(item.parts.every((part) => !part.open)).toBe(true)
    return void item.parts.push({ text: '', open: true })
  }
  const part = item.parts[index]
  expect(part?.open, `a part is open for ${event.type}`).toBe(true)
  if (event.type.endsWith('.delta')) part!.text += String(event['delta'])
  else if (event.type.endsWith('_part.done')) part!.open = false
  else expect(event['text'] ?? event['refusal']).toBe(part!.text)
}

function expectStreamed(streamed: OpenItem, item: WireItem): void {
  const parts = (item['content'] ?? item['summary'] ?? []) as { text?: string; refusal?: string }[]
  if (item.type === 'function_call') expect(item['arguments']).toBe(streamed.arguments)
  else if (item.type === 'message') expect(parts.map(textOf)).toEqual(streamed.parts.map((part) => part.text))
  else if (item.type === 'reasoning') {
    expect((item['summary'] as typeof parts).map(textOf)).toEqual(streamed.parts.map((part) => part.text))
  }
}

function textOf(part: { text?: string; refusal?: string }): string | undefined {
  return part.text ?? part.refusal
}
