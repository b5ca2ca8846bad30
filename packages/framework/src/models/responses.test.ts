import { SseParser } from '@bureau/protocol'
import { describe, expect, test } from 'vitest'
import { ResponsesEventCutter } from './responses.ts'

/** Events as a provider writes them, with line breaks of this kind. */
function written(events: readonly object[], newline = '\n'): string {
  const frames = events.map((event) => {
    const { type } = event as { type: string }
    return `event: ${type}${newline}data: ${JSON.stringify(event)}${newline}${newline}`
  })
  return frames.join('')
}

function cutInto(text: string, size: number): string[] {
  return Array.from({ length: Math.ceil(text.length / size) }, (_, n) => text.slice(n * size, (n + 1) * size))
}

function readAll(pieces: readonly string[]): [string, string][] {
  const read: [string, string][] = []
  const observer = {
    onEvent: (kind: string, json: string) => void read.push([kind, json]),
    onBatchEnd: () => undefined,
  }
  const cutter = new ResponsesEventCutter(observer)
  for (const piece of pieces) void cutter.push(piece)
  return read
}

const EVENTS = [
  { type: 'response.created', response: { id: 'r' } },
  { type: 'response.output_text.delta', delta: 'two\nlines', item_id: 'm' },
  { type: 'response.completed', response: { id: 'r', output: [] } },
]

describe.each(['\n', '\r\n', '\r'])('line breaks %j', (newline) => {
  test.each([1, 2, 3, 7, 64, 10_000])('events are the same, whatever the pieces: %d characters', (size) => {
    const read = readAll(cutInto(written(EVENTS, newline), size))

    expect(read).toEqual(EVENTS.map((event) => [event.type, JSON.stringify(event)]))
  })
})

// Searching all of it again with every piece would take minutes, in which the process does nothing else.
describe('an event of 15 MB in pieces of 1 KB is read', () => {
  const large = [{ type: 'response.output_item.done', item: { result: 'A'.repeat(15 * 1_048_576) } }]

  test('from the Responses API', () => {
    expect(readAll(cutInto(written(large), 1_024))).toHaveLength(1)
  })

  test.each(['\n', '\r\n'])('with line breaks %j, from others', (newline) => {
    const parser = new SseParser()
    const frames = cutInto(written(large, newline), 1_024).flatMap((piece) => parser.push(piece))

    expect(frames).toHaveLength(1)
  })
})
