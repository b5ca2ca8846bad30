import type { EventSource, ModelEvent } from '@bureau/protocol'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeChunk, decodeEvents, encodeChunk, encodeEvents } from './event-text.ts'
import { inParts, type LogEvent } from './run-log.ts'

const source: EventSource = { agent: 'So\tlo\n', callerAgent: null, agent_run_id: 'agent_run_1' }

function modelEvent(json: string): ModelEvent {
  return { type: 'model.event', source, kind: 'response.output_text.delta', json, item_id: 'msg_1' }
}

const anyEvent = fc.oneof(
  fc.string({ unit: 'grapheme' }).map((text): LogEvent => modelEvent(JSON.stringify({ delta: text }))),
  fc.string({ unit: 'grapheme' }).map((text): LogEvent => ({ type: 'custom', source, data: { text } })),
  fc.constant<LogEvent>({ type: 'log.ended' }),
)

describe('events as text', () => {
  test('come back as they were, compressed as a chunk', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyEvent, { minLength: 1 }), fc.nat(), async (events, before) => {
        const chunk = await encodeChunk({ first: before + 1, events })
        expect(chunk).toMatchObject({ firstSeq: before + 1, lastSeq: before + events.length })
        expect(await decodeChunk(chunk)).toEqual({ first: before + 1, events })
      }),
    )
  })

  test('keep the JSON of a model event as the provider sent it, in one line', () => {
    const [event] = decodeEvents(encodeEvents([modelEvent('{"n": 1.0,\t"delta":\r\n"x"}')]))
    expect(event).toMatchObject({ json: '{"n": 1.0,\t"delta":  "x"}' })
  })

  test.each(['{"type":"log.ended"}', '{"type":\n', 'noise\n', '\t{}\n'])('damage is noticed: %j', (text) => {
    expect(() => decodeEvents(text)).toThrow('damaged')
  })

  test('parts of a batch hold about 64 KiB and together everything', () => {
    const events = Array.from({ length: 300 }, () => modelEvent('x'.repeat(800)))
    events.push(modelEvent('y'.repeat(500_000)), modelEvent('z'))
    const parts = [...inParts({ first: 7, events })]
    expect(parts.flatMap((part) => part.events)).toEqual(events)
    expect(parts.map((part) => part.events.length)).toEqual([66, 66, 66, 66, 37, 1])
    expect(parts.map((part) => part.first)).toEqual([7, 73, 139, 205, 271, 308])
  })
})
