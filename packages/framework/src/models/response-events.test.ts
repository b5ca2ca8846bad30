import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { expectLegalSequence, RecordedCall } from './response-events.contract.ts'
import { ResponseEventWriter } from './response-events.ts'
import type { FunctionCallEvents } from './response-items.ts'

const USAGE = {
  input_tokens: 7,
  input_tokens_details: { cached_tokens: 2 },
  output_tokens: 3,
  output_tokens_details: { reasoning_tokens: 1 },
  total_tokens: 10,
}

function openWriter(request = { model: 'm-1' }): { writer: ResponseEventWriter; call: RecordedCall } {
  const call = new RecordedCall()
  return { writer: new ResponseEventWriter(call, request), call }
}

describe('the event sequence of a response', () => {
  test('a plain answer has the events of the Responses API in their order', () => {
    const { writer, call } = openWriter()

    writer.text('Hel')
    writer.text('lo "you"\n')
    writer.complete(USAGE)

    expect(call.kinds).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ])
    const [item] = call.response.output
    expect(call.events[5]).toEqual({
      type: 'response.output_text.delta',
      item_id: item?.id,
      output_index: 0,
      content_index: 0,
      logprobs: [],
      sequence_number: 5,
      delta: 'lo "you"\n',
    })
    expect(item).toMatchObject({
      type: 'message',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'Hello "you"\n', annotations: [] }],
    })
    expect(call.response).toMatchObject({ status: 'completed', model: 'm-1', usage: USAGE, error: null })
    expectLegalSequence(call.events)
  })

  test('reasoning, text and calls become items in the order in which they begin', () => {
    const { writer, call } = openWriter()

    writer.reasoning('Think')
    writer.reasoning('ing.')
    writer.text('Looking.')
    const first = writer.functionCall({ name: 'find', callId: 'call_a' })
    const second = writer.functionCall({ name: 'find' })
    second.arguments('{"q":')
    first.arguments('{}')
    second.arguments('1}')
    second.done()
    writer.complete(null)

    expect(call.response.output).toMatchObject([
      { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Thinking.' }] },
      { type: 'message' },
      { type: 'function_call', call_id: 'call_a', name: 'find', arguments: '{}', status: 'completed' },
      { type: 'function_call', call_id: second.callId, arguments: '{"q":1}', status: 'completed' },
    ])
    expectLegalSequence(call.events)
  })

  test('what is open when the answer is cut off is marked as incomplete', () => {
    const { writer, call } = openWriter()

    writer.text('Half')
    writer.incomplete('max_output_tokens', USAGE)

    expect(call.kinds.at(-1)).toBe('response.incomplete')
    expect(call.response).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [{ status: 'incomplete', content: [{ text: 'Half' }] }],
    })
    expectLegalSequence(call.events)
  })

  test('a failure carries its code and what was said so far', () => {
    const { writer, call } = openWriter()

    writer.text('Half')
    writer.fail({ code: 'server_error', message: 'boom' })

    expect(call.response).toMatchObject({ status: 'failed', error: { code: 'server_error', message: 'boom' } })
    expectLegalSequence(call.events)
  })

  test('a refusal is a content part of its own kind', () => {
    const { writer, call } = openWriter()

    writer.text('Well, ')
    writer.refusal('no.')
    writer.complete(null)

    expect(call.response.output[0]?.['content']).toEqual([
      { type: 'output_text', text: 'Well, ', annotations: [], logprobs: [] },
      { type: 'refusal', refusal: 'no.' },
    ])
    expectLegalSequence(call.events)
  })

  test('items of other kinds pass as they are', () => {
    const { writer, call } = openWriter()

    writer.text('See:')
    writer.item({ type: 'image_generation_call', id: 'ig_1', result: 'AAAA' })
    writer.complete(null)

    expect(call.response.output[1]).toEqual({ type: 'image_generation_call', id: 'ig_1', result: 'AAAA' })
    expectLegalSequence(call.events)
  })

  test('settings of the request are repeated, its instructions and tools are not', () => {
    const request = { model: 'm', instructions: 'secret', tools: [{ type: 'function' }], input: [], temperature: 0.3 }
    const { writer, call } = openWriter(request)

    writer.complete(null)

    expect(call.response).toMatchObject({ instructions: null, tools: [], temperature: 0.3, top_p: null })
  })

  test('nothing can be written after the end', () => {
    const { writer } = openWriter()
    writer.complete(null)

    expect(() => writer.text('more')).toThrow('the response has ended')
  })
})

type Step =
  | { readonly do: 'text' | 'refusal' | 'reasoning'; readonly delta: string }
  | { readonly do: 'call' }
  | { readonly do: 'arguments'; readonly nth: number; readonly delta: string }
  | { readonly do: 'done'; readonly nth: number }
  | { readonly do: 'item' }

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constantFrom('text' as const, 'refusal' as const, 'reasoning' as const), delta: fc.string() }),
  fc.record({ do: fc.constant('call' as const) }),
  fc.record({ do: fc.constant('arguments' as const), nth: fc.nat(9), delta: fc.string({ unit: 'grapheme' }) }),
  fc.record({ do: fc.constant('done' as const), nth: fc.nat(9) }),
  fc.record({ do: fc.constant('item' as const) }),
)

// Clients route and assemble by ids and indexes, and the run stores what the last event holds: both must always agree.
test('for any course of an answer ids are unique, indexes legal, and the final output is what was streamed', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), fc.constantFrom('complete', 'incomplete', 'fail'), (steps, end) => {
      const { writer, call } = openWriter()
      const calls: FunctionCallEvents[] = []
      for (const one of steps) take(writer, calls, one)
      if (end === 'complete') writer.complete(USAGE)
      else if (end === 'incomplete') writer.incomplete('content_filter', USAGE)
      else writer.fail({ code: 'server_error', message: '' })
      expectLegalSequence(call.events)
    }),
    { numRuns: 200 },
  )
})

function take(writer: ResponseEventWriter, calls: FunctionCallEvents[], one: Step): void {
  switch (one.do) {
    case 'text':
    case 'refusal':
    case 'reasoning':
      return writer[one.do](one.delta)
    case 'call':
      return void calls.push(writer.functionCall({ name: 'tool' }))
    case 'arguments':
      return calls[one.nth]?.arguments(one.delta)
    case 'done':
      return calls.splice(one.nth, 1)[0]?.done()
    case 'item':
      return void writer.item({ type: 'web_search_call', status: 'completed' })
  }
}
