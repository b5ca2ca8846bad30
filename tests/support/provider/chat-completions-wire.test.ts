import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { errorEvent, hold, incomplete, reasoning, refusal, startFakeProvider, text } from '../fake-provider.ts'
import { textDeltas, toolCall, usage, webSearch, type FakeProvider } from '../fake-provider.ts'
import { askChat, framesOf, pick, type Frame } from './ask-provider.ts'
import type { JsonObject } from './json-object.ts'

let provider: FakeProvider
beforeEach(async () => {
  provider = await startFakeProvider()
})
afterEach(() => provider.close())

const stream = async (fields: JsonObject = {}): Promise<readonly Frame[]> => framesOf(await askChat(provider, fields))

const whole = async (): Promise<unknown> => (await askChat(provider, { stream: false })).json()

const deltas = (frames: readonly Frame[]): readonly unknown[] => frames.map(({ json }) => pick(json, 'choices.0.delta'))

describe('streamed', () => {
  test('a text answer is a role, its pieces, a reason and [DONE]', async () => {
    provider.script([textDeltas(['Hel', 'lo'])])

    const frames = await stream()

    expect(deltas(frames).slice(0, 4)).toEqual([
      { role: 'assistant', content: '', refusal: null },
      { content: 'Hel' },
      { content: 'lo' },
      {},
    ])
    expect(pick(frames[3]?.json, 'choices.0.finish_reason')).toBe('stop')
    expect(frames.at(-1)?.data).toBe('[DONE]')
    expect(frames).toHaveLength(5)
    expect(new Set(frames.slice(0, 4).map(({ json }) => json['id'])).size).toBe(1)
  })

  test('usage comes in a chunk of its own when it is asked for', async () => {
    provider.script([[text('hi'), usage({ input: 9, cached: 4, output: 3, reasoning: 1 })]])

    const frames = await stream({ stream_options: { include_usage: true } })

    expect(frames.at(-2)?.json).toMatchObject({
      choices: [],
      usage: {
        prompt_tokens: 9,
        completion_tokens: 3,
        total_tokens: 12,
        prompt_tokens_details: { cached_tokens: 4 },
        completion_tokens_details: { reasoning_tokens: 1 },
      },
    })
    expect(frames[0]?.json['usage']).toBeNull()
  })

  test('parallel tool calls come with their index, id once, arguments in pieces', async () => {
    provider.script([[toolCall('add', '{"a":1}', { deltas: ['{"a"', ':1}'], callId: 'call_1' }), toolCall('now', '')]])

    const frames = await stream()

    const calls = deltas(frames).flatMap((delta) => pick(delta, 'tool_calls.0') ?? [])
    expect(calls).toEqual([
      { index: 0, id: 'call_1', type: 'function', function: { name: 'add', arguments: '' } },
      { index: 0, function: { arguments: '{"a"' } },
      { index: 0, function: { arguments: ':1}' } },
      { index: 1, id: expect.any(String), type: 'function', function: { name: 'now', arguments: '' } },
    ])
    expect(pick(frames.at(-2)?.json, 'choices.0.finish_reason')).toBe('tool_calls')
  })

  test.each([
    { reason: 'max_output_tokens', finish: 'length' },
    { reason: 'content_filter', finish: 'content_filter' },
  ])('incomplete for $reason ends with $finish', async ({ reason, finish }) => {
    provider.script([incomplete(reason, 'half')])

    expect(pick((await stream()).at(-2)?.json, 'choices.0.finish_reason')).toBe(finish)
  })

  test('an error in the stream is its last frame', async () => {
    provider.script([[text('so far'), errorEvent('server_error', 'It broke.')]])

    expect((await stream()).at(-1)?.json['error']).toMatchObject({ code: 'server_error', message: 'It broke.' })
  })

  test('reasoning comes in the field that the server is known for, a refusal in its own', async () => {
    provider.script([[reasoning({ content: 'Hm.', chatField: 'reasoning' }), refusal('No.')]])

    expect(deltas(await stream()).slice(1, 3)).toEqual([{ reasoning: 'Hm.' }, { refusal: 'No.' }])
  })

  test('a stop may stand before [DONE]', async () => {
    const gate = provider.gate()
    provider.script([[text('hi'), hold(gate, { before: '[DONE]' })]])

    const response = await askChat(provider)
    await gate.reached()
    gate.release()

    expect((await framesOf(response)).at(-1)?.data).toBe('[DONE]')
  })
})

describe('as one object', () => {
  test('a text answer', async () => {
    provider.script([text('Hello there')])

    expect(await whole()).toMatchObject({
      object: 'chat.completion',
      choices: [{ message: { role: 'assistant', content: 'Hello there', refusal: null }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 20, completion_tokens: 10 },
    })
  })

  test('tool calls', async () => {
    provider.script([toolCall('add', { a: 1 })])

    const message = pick(await whole(), 'choices.0.message')

    expect(message).toMatchObject({ content: null, tool_calls: [{ function: { name: 'add', arguments: '{"a":1}' } }] })
  })
})

test('an item that this API has no form for is refused, not left out', async () => {
  provider.script([webSearch('x')])

  const response = await askChat(provider)

  expect(response.status).toBe(400)
  expect(await response.text()).toContain('web_search_call')
})
