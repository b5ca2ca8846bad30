import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { completed, errorEvent, failed, fileSearch, imageGeneration, incomplete, mcpCall } from '../fake-provider.ts'
import { raw, reasoning, refusal, responseFields, startFakeProvider, text, textDeltas } from '../fake-provider.ts'
import { toolCall, unknownEvent, unknownItem, usage, webSearch, type FakeProvider } from '../fake-provider.ts'
import { askResponses, framesOf, MODEL, pick, typesOf, type Frame } from './ask-provider.ts'
import type { JsonObject } from './json-object.ts'

let provider: FakeProvider
beforeEach(async () => {
  provider = await startFakeProvider()
})
afterEach(() => provider.close())

const stream = async (fields: JsonObject = {}): Promise<readonly Frame[]> =>
  framesOf(await askResponses(provider, fields))

const last = (frames: readonly Frame[]): JsonObject => frames.at(-1)!.json

describe('a text answer', () => {
  test('has the events of the service, numbered from 0 without a gap', async () => {
    provider.script([textDeltas(['Hel', 'lo'])])

    const frames = await stream()

    expect(typesOf(frames)).toEqual([
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
    expect(frames.map(({ json }) => json['sequence_number'])).toEqual(frames.map((_, index) => index))
    expect(frames.map(({ event }) => event)).toEqual(typesOf(frames))
  })

  test('carries the ids and indexes that a client joins deltas by', async () => {
    provider.script([textDeltas(['Hel', 'lo'])])

    const frames = await stream()

    const id = pick(frames[2]?.json, 'item.id')
    const place = { item_id: id, output_index: 0, content_index: 0 }
    expect(frames[4]?.json).toMatchObject({ ...place, delta: 'Hel', logprobs: [], obfuscation: expect.any(String) })
    expect(frames[6]?.json).toMatchObject({ ...place, text: 'Hello' })
    expect(pick(last(frames), 'response.output')).toEqual([pick(frames[8]?.json, 'item')])
  })

  test('echoes the request and reports usage', async () => {
    const tools = [{ type: 'function', name: 'add', parameters: {}, strict: false }]
    provider.script([[text('hi'), usage({ input: 100, cached: 20, output: 30, reasoning: 5 })]])

    const frames = await stream({ instructions: 'Be kind.', tools, temperature: 0.5, metadata: { a: 'b' } })

    const echoed = { instructions: 'Be kind.', tools, temperature: 0.5, metadata: { a: 'b' }, model: MODEL }
    expect(frames[0]?.json['response']).toMatchObject({ ...echoed, status: 'in_progress', output: [], usage: null })
    expect(last(frames)['response']).toMatchObject({ ...echoed, status: 'completed' })
    expect(pick(last(frames), 'response.usage')).toEqual({
      input_tokens: 100,
      input_tokens_details: { cached_tokens: 20, cache_write_tokens: 0 },
      output_tokens: 30,
      output_tokens_details: { reasoning_tokens: 5 },
      total_tokens: 130,
    })
  })

  test('as one object equals what the stream ends with, but for the ids', async () => {
    provider.script([text('hi'), text('hi')])

    const whole: unknown = await (await askResponses(provider, { stream: false })).json()
    const streamed = last(await stream())['response']

    expect(pick(whole, 'output.0.content')).toEqual(pick(streamed, 'output.0.content'))
    expect(pick(whole, 'status')).toBe('completed')
    expect(pick(whole, 'id')).not.toBe(pick(streamed, 'id'))
    expect(pick(whole, 'output.0.id')).not.toBe(pick(streamed, 'output.0.id'))
  })

  test('carries annotations as events and in the finished part', async () => {
    const annotation = { type: 'file_citation', file_id: 'file-1', filename: 'a.pdf', index: 2 }
    provider.script([text('cited', { annotations: [annotation] })])

    const frames = await stream()

    const added = frames.find(({ event }) => event === 'response.output_text.annotation.added')
    expect(added?.json).toMatchObject({ annotation_index: 0, annotation })
    expect(pick(last(frames), 'response.output.0.content.0.annotations')).toEqual([annotation])
  })

  test('has no padding when the request turns it off', async () => {
    provider.script([text('hi')])

    const frames = await stream({ stream_options: { include_obfuscation: false } })

    expect(frames.some(({ json }) => 'obfuscation' in json)).toBe(false)
  })
})

describe('function calls', () => {
  test('stream their arguments in pieces', async () => {
    provider.script([toolCall('add', '{"a":1}', { callId: 'call_1', deltas: ['{"a"', ':1}'] })])

    const frames = await stream()

    expect(typesOf(frames).slice(2, -1)).toEqual([
      'response.output_item.added',
      'response.function_call_arguments.delta',
      'response.function_call_arguments.delta',
      'response.function_call_arguments.done',
      'response.output_item.done',
    ])
    expect(frames[2]?.json['item']).toMatchObject({
      call_id: 'call_1',
      name: 'add',
      arguments: '',
      status: 'in_progress',
    })
    expect(frames[6]?.json['item']).toMatchObject({ arguments: '{"a":1}', status: 'completed' })
  })

  test('several in one turn are items of one answer, each with its own ids', async () => {
    provider.script([[toolCall('add', { a: 1 }), toolCall('add', { a: 2 })]])

    const frames = await stream()

    const calls = pick(last(frames), 'response.output') as JsonObject[]
    expect(calls.map((call) => call['arguments'])).toEqual(['{"a":1}', '{"a":2}'])
    expect(new Set(calls.flatMap((call) => [call['id'], call['call_id']])).size).toBe(4)
  })
})

describe('other items', () => {
  test('reasoning has summary events, and its sealed content only on request', async () => {
    const turn = [reasoning({ summary: ['First.', 'Then.'], encrypted: 'sealed' }), text('ok')]
    provider.script([turn, turn])

    const frames = await stream({ include: ['reasoning.encrypted_content'] })
    const without = await stream()

    expect(typesOf(frames).slice(3, 7)).toEqual([
      'response.reasoning_summary_part.added',
      'response.reasoning_summary_text.delta',
      'response.reasoning_summary_text.done',
      'response.reasoning_summary_part.done',
    ])
    expect(pick(last(frames), 'response.output.0')).toMatchObject({
      type: 'reasoning',
      summary: [
        { type: 'summary_text', text: 'First.' },
        { type: 'summary_text', text: 'Then.' },
      ],
      encrypted_content: 'sealed',
    })
    expect(pick(last(without), 'response.output.0')).not.toHaveProperty('encrypted_content')
  })

  test('a refusal is streamed as one', async () => {
    provider.script([refusal('I cannot.')])

    const frames = await stream()

    expect(typesOf(frames)).toContain('response.refusal.delta')
    expect(pick(last(frames), 'response.output.0.content')).toEqual([{ type: 'refusal', refusal: 'I cannot.' }])
  })

  test('hosted tools report their progress', async () => {
    provider.script([
      [
        webSearch('x'),
        imageGeneration('aGk=', ['eA==']),
        mcpCall({ server: 's', name: 'n', error: 'down' }),
        text('ok'),
      ],
    ])

    const types = typesOf(await stream())

    expect(types).toEqual(
      expect.arrayContaining([
        'response.web_search_call.searching',
        'response.image_generation_call.partial_image',
        'response.mcp_call_arguments.done',
        'response.mcp_call.failed',
      ]),
    )
  })

  test('file search shows its results only on request', async () => {
    provider.script([fileSearch(['q'], [{ file_id: 'file-1' }]), fileSearch(['q'], [{ file_id: 'file-1' }])])

    const shown = last(await stream({ include: ['file_search_call.results'] }))
    const hidden = last(await stream())

    expect(pick(shown, 'response.output.0.results')).toEqual([{ file_id: 'file-1' }])
    expect(pick(hidden, 'response.output.0.results')).toBeNull()
  })

  test('unknown items and events pass like known ones, and may be sent back', async () => {
    provider.script([
      [
        unknownEvent({ type: 'response.dream.delta', dream: 1 }),
        unknownItem({ type: 'dream_call', depth: 3 }),
        text('a'),
      ],
      text('b'),
    ])

    const frames = await stream()
    const output = pick(last(frames), 'response.output') as JsonObject[]
    const next = await askResponses(provider, { input: [{ role: 'user', content: 'hi' }, ...output] })

    expect(frames[2]?.json).toEqual({ type: 'response.dream.delta', sequence_number: 2, dream: 1 })
    expect(output[0]).toMatchObject({ type: 'dream_call', depth: 3 })
    expect(next.status).toBe(200)
    await next.text()
  })
})

describe('ends', () => {
  test('incomplete keeps the partial text and the usage', async () => {
    provider.script([incomplete('max_output_tokens', 'half')])

    const end = last(await stream())

    expect(end['type']).toBe('response.incomplete')
    expect(end['response']).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [{ status: 'incomplete', content: [{ text: 'half' }] }],
      usage: { total_tokens: 30 },
    })
  })

  test('failed names its code', async () => {
    provider.script([[text('so far'), failed('server_error', 'It broke.')]])

    const end = last(await stream())

    expect(end['type']).toBe('response.failed')
    expect(end['response']).toMatchObject({ status: 'failed', error: { code: 'server_error', message: 'It broke.' } })
  })

  test('an error event has its fields at the top or under one key; one object is a 500', async () => {
    provider.script([errorEvent('rate_limit_exceeded'), errorEvent('x', 'y', { nested: true }), errorEvent('x')])

    const flat = last(await stream())
    const nested = last(await stream())
    const whole = await askResponses(provider, { stream: false })

    expect(flat).toMatchObject({ type: 'error', code: 'rate_limit_exceeded', param: null })
    expect(nested).toMatchObject({ type: 'error', error: { code: 'x', message: 'y' } })
    expect(whole.status).toBe(500)
  })

  test('something may follow the end, and fields of the response may differ', async () => {
    provider.script([
      [text('a'), completed(), raw('data: [DONE]\n\n'), responseFields({ model: 'other' }), usage(null)],
    ])

    const frames = await stream()

    expect(frames.at(-1)?.data).toBe('[DONE]')
    expect(frames.at(-2)?.json['response']).toMatchObject({ model: 'other', usage: null })
  })
})
