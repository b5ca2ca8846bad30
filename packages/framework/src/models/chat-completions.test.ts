import { Agent as Dispatcher } from 'undici'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { WireItem } from '@bureau/protocol'
import {
  cut,
  failed,
  type FakeProvider,
  framing,
  Gate,
  hold,
  htmlPage,
  incomplete,
  malformed,
  raw,
  reasoning,
  refusal,
  startFakeProvider,
  status,
  text,
  textDeltas,
  toolCall,
  type Turn,
  usage,
} from '../../../../tests/support/fake-provider.ts'
import { chatCompletionsTransport } from './chat-completions.ts'
import { expectLegalSequence, RecordedCall } from './response-events.contract.ts'
import type { ResponsesRequest } from '../agency/model-object.ts'

let provider: FakeProvider
let dispatcher: Dispatcher

beforeEach(async () => {
  provider = await startFakeProvider({ apiKeys: ['key-1'] })
  dispatcher = new Dispatcher()
})

afterEach(async () => {
  await dispatcher.destroy()
  await provider.close()
})

type AskOptions = { request?: Partial<ResponsesRequest>; call?: RecordedCall; signal?: AbortSignal; apiKey?: string }

async function ask(turn: Turn, options: AskOptions = {}): Promise<RecordedCall> {
  const { request = {}, call = new RecordedCall(), signal = new AbortController().signal, apiKey = 'key-1' } = options
  provider.script([turn])
  const transport = chatCompletionsTransport({ baseUrl: provider.baseUrl, apiKey, headers: {}, dispatcher })
  const input = [{ role: 'user', content: 'hi' }]
  await transport({ model: 'm-1', input, ...request }, { observer: call, signal, headers: {} })
  return call
}

const chunk = (delta: object, more: object = {}): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }], ...more })}\n\n`

describe('answers', () => {
  test('text arrives as Responses events with usage', async () => {
    const tokens = { input: 30, cached: 10, cacheWrite: 4, output: 9, reasoning: 5 }
    const call = await ask([text('The sky is blue.'), usage(tokens)])

    expectLegalSequence(call.events)
    expect(call.deltas('response.output_text.delta')).toBe('The sky is blue.')
    expect(call.response).toMatchObject({
      status: 'completed',
      model: 'm-1',
      usage: {
        input_tokens: 30,
        input_tokens_details: { cached_tokens: 10, cache_write_tokens: 4 },
        output_tokens: 9,
        output_tokens_details: { reasoning_tokens: 5 },
        total_tokens: 39,
      },
    })
  })

  test('each delta is handed on when it arrives', async () => {
    const gate = new Gate()
    const call = new RecordedCall()
    const done = ask(textDeltas(['One', hold(gate), ' two']), { call })
    await gate.reached()
    await new Promise<void>((resolve) => {
      call.onFirst = (kind) => kind === 'response.output_text.delta' && resolve()
      if (call.kinds.includes('response.output_text.delta')) resolve()
    })

    expect(call.deltas('response.output_text.delta')).toBe('One')
    gate.release()
    await done
    expect(call.deltas('response.output_text.delta')).toBe('One two')
  })

  test('parallel calls keep their ids and arguments', async () => {
    const turn = [
      text('Let me look.'),
      toolCall('get_weather', { city: 'Oslo' }, { callId: 'call_1' }),
      toolCall('get_weather', { city: 'Zürich' }, { callId: 'call_2' }),
    ]
    const call = await ask(turn)

    expectLegalSequence(call.events)
    expect(call.response.output).toMatchObject([
      { type: 'message', content: [{ text: 'Let me look.' }] },
      { type: 'function_call', call_id: 'call_1', name: 'get_weather', arguments: '{"city":"Oslo"}' },
      { type: 'function_call', call_id: 'call_2', name: 'get_weather', arguments: '{"city":"Zürich"}' },
    ])
  })

  const stop = `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}\n\n`

  test.each<[string, Turn]>([
    ['[DONE] without a finish_reason', raw('data: [DONE]\n\n')],
    ['a finish_reason without [DONE]', [raw(stop), cut({ how: 'end' })]],
    ['a finish_reason of its own', [raw(stop.replace('stop', 'constructor')), cut({ how: 'end' })]],
  ])('%s is the end of a whole answer', async (_, end) => {
    const call = await ask([text('Whole.'), end])

    expectLegalSequence(call.events)
    expect(call.response).toMatchObject({ status: 'completed', output: [{ content: [{ text: 'Whole.' }] }] })
  })

  test.each(['reasoning_content', 'reasoning'] as const)('%s becomes a reasoning item', async (chatField) => {
    const call = await ask([reasoning({ summary: ['Hm, ', 'easy.'], chatField }), text('4')])

    expectLegalSequence(call.events)
    expect(call.response.output).toMatchObject([
      { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hm, easy.' }] },
      { type: 'message' },
    ])
  })

  test('a refusal is a refusal', async () => {
    const call = await ask(refusal('I cannot do that.'))

    expectLegalSequence(call.events)
    expect(call.response.output[0]?.['content']).toEqual([{ type: 'refusal', refusal: 'I cannot do that.' }])
  })

  test.each(['max_output_tokens', 'content_filter'])('an answer cut off by %s is incomplete', async (reason) => {
    const call = await ask([text('Once upon'), usage({ output: 2 }), incomplete(reason)])

    expectLegalSequence(call.events)
    expect(call.response).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason },
      usage: { output_tokens: 2 },
      output: [{ status: 'incomplete' }],
    })
  })

  // Half a call must never be carried out.
  test('a call that is cut off is incomplete', async () => {
    const call = await ask([toolCall('f', '{"a":', { callId: 'call_1' }), incomplete('max_output_tokens')])

    expect(call.response.output).toMatchObject([{ type: 'function_call', status: 'incomplete', arguments: '{"a":' }])
  })

  // Without a message the agents SDK would ask again and again.
  test('an empty answer is an empty message', async () => {
    const call = await ask([usage(null)])

    expectLegalSequence(call.events)
    expect(call.response).toMatchObject({ usage: null, output: [{ type: 'message', content: [{ text: '' }] }] })
  })

  test.each([{ newline: '\r\n' as const }, { writes: { bytes: 3 } }, { writes: 'joined' as const }])(
    'however the bytes are cut: %o',
    async (how) => {
      const call = await ask([text('Grüße 👋 an alle'), framing(how)])

      expectLegalSequence(call.events)
      expect(call.deltas('response.output_text.delta')).toBe('Grüße 👋 an alle')
    },
  )

  test('while the reader is behind nothing more is handed on', async () => {
    const gate = new Gate()
    const reader = Promise.withResolvers<void>()
    const behind = Promise.withResolvers<void>()
    const call = new RecordedCall()
    call.ready = () => {
      if (call.deltas('response.output_text.delta') === '') return undefined
      behind.resolve()
      return reader.promise
    }
    const done = ask(textDeltas(['One', hold(gate), ' two']), { call })
    await behind.promise
    gate.release()
    await ask(text('Meanwhile.'))

    expect(call.deltas('response.output_text.delta')).toBe('One')
    reader.resolve()
    await done
    expect(call.deltas('response.output_text.delta')).toBe('One two')
  })
})

describe('what compatible servers do differently', () => {
  test('calls without an index are told apart by their ids', async () => {
    const piece = (id: string): string =>
      chunk({ tool_calls: [{ id, type: 'function', function: { name: 'f', arguments: `{"id":"${id}"}` } }] })
    const call = await ask([raw(piece('a')), raw(piece('b'))])

    expectLegalSequence(call.events)
    expect(call.response.output).toMatchObject([
      { call_id: 'a', arguments: '{"id":"a"}' },
      { call_id: 'b', arguments: '{"id":"b"}' },
    ])
  })

  test('calls that share an index are told apart by their ids', async () => {
    const piece = (id: string): string =>
      chunk({ tool_calls: [{ index: 0, id, function: { name: 'f', arguments: '{}' } }] })
    const call = await ask([raw(piece('a')), raw(piece('b'))])

    expect(call.response.output).toMatchObject([{ call_id: 'a' }, { call_id: 'b' }])
  })

  test('calls without any id get one each', async () => {
    const piece = chunk({ tool_calls: [{ function: { name: 'f', arguments: { a: 1 } } }] })
    const call = await ask([raw(piece), raw(piece)])

    expectLegalSequence(call.events)
    const [first, second] = call.response.output
    expect([first?.['arguments'], second?.['arguments']]).toEqual(['{"a":1}', '{"a":1}'])
    expect(first?.call_id).toMatch(/^call_/)
    expect(second?.call_id).not.toBe(first?.call_id)
  })

  test('the id and the name may come late, and arguments may be absent', async () => {
    const call = await ask([
      raw(chunk({ tool_calls: [{ index: 0, function: { arguments: '' } }] })),
      raw(chunk({ tool_calls: [{ index: 0, id: 'late', function: { name: 'f' } }] })),
    ])

    expectLegalSequence(call.events)
    expect(call.response.output).toMatchObject([{ call_id: 'late', name: 'f', arguments: '{}' }])
  })

  // Histories are keyed by call ids, so a server that counts from zero in every answer must not repeat one.
  test('a call id of an earlier turn is replaced', async () => {
    const input: WireItem[] = [
      { role: 'user', content: 'hi' },
      { type: 'function_call', call_id: 'call_0', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'call_0', output: 'done' },
    ]
    const call = await ask(toolCall('f', {}, { callId: 'call_0' }), { request: { input } })

    expect(call.response.output[0]?.call_id).not.toBe('call_0')
  })

  test('cached tokens in the place of other vendors', async () => {
    const tokens = { prompt_tokens: 8, completion_tokens: 2, prompt_cache_hit_tokens: 6 }
    const call = await ask([
      text('ok'),
      usage(null),
      raw(`data: ${JSON.stringify({ choices: [], usage: tokens })}\n\n`),
    ])

    expect(call.response.usage).toMatchObject({
      input_tokens: 8,
      input_tokens_details: { cached_tokens: 6 },
      total_tokens: 10,
    })
  })

  test.each([
    ['stays open', hold(new Gate())],
    ['breaks', cut({ how: 'reset' })],
  ] satisfies [string, Turn][])(
    'an answer with a reason for its end is whole when its connection %s behind it',
    async (_, end) => {
      const last = chunk({}, { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })
      const tokens = { prompt_tokens: 8, completion_tokens: 2, total_tokens: 10 }
      const used = `data: ${JSON.stringify({ choices: [], usage: tokens })}\n\n`

      const call = await ask([raw(chunk({ content: 'ok' })), raw(last), raw(used), end])

      expect(call.response).toMatchObject({ status: 'completed', usage: { total_tokens: 10 } })
    },
  )

  test('a null is nothing', async () => {
    const choices = [{ index: null, delta: { content: 'ok', tool_calls: null, refusal: null }, finish_reason: null }]

    const call = await ask([
      raw(chunk({}, { choices, usage: null })),
      raw(chunk({}, { choices: [{ index: null, delta: null, finish_reason: 'stop' }] })),
    ])

    expect(call.deltas('response.output_text.delta')).toBe('ok')
  })

  test('content in parts is text and reasoning', async () => {
    const thinking = (text: string) => ({ type: 'thinking', thinking: [{ type: 'text', text }] })
    const parts = [
      thinking('Well, '),
      thinking('yes.'),
      { type: 'text', text: 'Cer' },
      { type: 'reference', reference_ids: [1] },
    ]

    const call = await ask([raw(chunk({ content: parts })), raw(chunk({ content: 'tainly.' }))])

    expectLegalSequence(call.events)
    expect(call.response.output).toMatchObject([
      { type: 'reasoning', summary: [{ text: 'Well, yes.' }] },
      { type: 'message', content: [{ text: 'Certainly.' }] },
    ])
  })

  test('comments between the chunks are ignored', async () => {
    const call = await ask([raw(': PROCESSING\n\n'), text('ok')])

    expect(call.deltas('response.output_text.delta')).toBe('ok')
  })
})

describe('failures', () => {
  test.each([
    [401, 'upstream_auth_failed'],
    [400, 'upstream_invalid_request'],
  ])('HTTP %i is %s', async (code, expected) => {
    await expect(ask(status(code))).rejects.toMatchObject({ name: 'ModelError', code: expected, status: code })
  })

  test('HTTP 429 and 500 are tried again', async () => {
    provider.script([status(500), status(429, '{}', { 'retry-after': '0' })])
    const call = await ask(text('third time lucky'))

    expect(call.response.status).toBe('completed')
    expectLegalSequence(call.events)
    expect(provider.modelRequests).toHaveLength(3)
  })

  test.each([
    ['a chunk that is not JSON', malformed('{"choices":[')],
    ['a chunk that is no object', malformed('7')],
    ['a chunk without choices', raw('data: {"id":"x"}\n\n')],
    ['content that is not text', raw(chunk({ content: 7 }))],
    ['a call without a name', raw(chunk({ tool_calls: [{ index: 0, id: 'a', function: { arguments: '{}' } }] }))],
    ['a connection that breaks', [text('Half an'), cut({ how: 'reset' })]],
    ['an end without [DONE]', [text('Half an'), cut({ how: 'end' })]],
    [
      'an end with an empty reason',
      [raw(chunk({}, { choices: [{ index: 0, finish_reason: '' }] })), cut({ how: 'end' })],
    ],
    ['[DONE] alone', status(200, 'data: [DONE]\n\n', { 'content-type': 'text/event-stream' })],
    ['a page of a proxy', htmlPage()],
  ] satisfies [string, Turn][])('%s is upstream_invalid_response', async (_, turn) => {
    await expect(ask(turn)).rejects.toMatchObject({ name: 'ModelError', code: 'upstream_invalid_response' })
  })

  test('an error inside the stream ends the response as failed', async () => {
    const call = new RecordedCall()
    await ask([text('Half'), failed('rate_limit_exceeded', 'slow down')], { call })

    expectLegalSequence(call.events)
    expect(call.response).toMatchObject({
      status: 'failed',
      error: { code: 'rate_limit_exceeded', message: 'slow down' },
    })
  })

  test.each([
    [{ code: 502, message: 'bad gateway' }, 'server_error'],
    [{ code: '429', message: 'slow down' }, 'rate_limit_exceeded'],
    [{ code: null, type: 'overloaded' }, 'overloaded'],
    ['out of memory', 'server_error'],
  ])('the error %o inside the stream has the code %s', async (error, code) => {
    const call = await ask(raw(`data: ${JSON.stringify({ error })}\n\n`))

    expectLegalSequence(call.events)
    expect(call.response.error?.code).toBe(code)
  })

  test('an abort ends the request with its reason', async () => {
    const gate = new Gate()
    const stop = new AbortController()
    const asked = ask(textDeltas(['One', hold(gate), ' two']), { signal: stop.signal })
    await gate.reached()
    stop.abort(new Error('enough'))

    await expect(asked).rejects.toThrow('enough')
    await provider.waitForAborts(1)
  })
})

describe('requests', () => {
  async function bodyOf(request: Partial<ResponsesRequest>): Promise<Record<string, unknown>> {
    await ask(text('ok'), { request })
    return provider.modelRequests.at(-1)!.body
  }

  const tool = { type: 'function', name: 'f', description: 'does f', parameters: { type: 'object' }, strict: false }

  test('settings have their Chat Completions names, and foreign ones are passed on', async () => {
    const body = await bodyOf({
      instructions: 'Be brief.',
      temperature: 0.2,
      top_p: 0.9,
      max_output_tokens: 50,
      reasoning: { effort: 'low', summary: 'auto' },
      text: {
        verbosity: 'low',
        format: { type: 'json_schema', name: 'answer', schema: { type: 'object' }, strict: false },
      },
      store: false,
      include: ['reasoning.encrypted_content'],
      truncation: 'auto',
      previous_response_id: null,
      seed: 7,
    })

    expect(body).toEqual({
      model: 'm-1',
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'hi' },
      ],
      stream: true,
      stream_options: { include_usage: true },
      temperature: 0.2,
      top_p: 0.9,
      max_tokens: 50,
      reasoning_effort: 'low',
      verbosity: 'low',
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'answer', schema: { type: 'object' }, strict: false },
      },
      seed: 7,
    })
    expect(provider.modelRequests.at(-1)?.apiKey).toBe('key-1')
  })

  test('function tools and the choice among them', async () => {
    const body = await bodyOf({
      tools: [tool, { type: 'web_search' }],
      tool_choice: { type: 'function', name: 'f' },
      parallel_tool_calls: false,
    })

    expect(body).toMatchObject({
      tools: [{ type: 'function', function: { name: 'f', description: 'does f', parameters: { type: 'object' } } }],
      tool_choice: { type: 'function', function: { name: 'f' } },
      parallel_tool_calls: false,
    })
  })

  test('a list of allowed tools leaves the others out', async () => {
    const choice = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'g' }] }
    const body = await bodyOf({ tools: [tool, { ...tool, name: 'g' }], tool_choice: choice })

    expect(body).toMatchObject({ tools: [{ function: { name: 'g' } }], tool_choice: 'required' })
  })

  test('without function tools nothing is said about tools', async () => {
    const body = await bodyOf({ tools: [{ type: 'web_search' }], tool_choice: 'auto', parallel_tool_calls: true })

    expect(Object.keys(body).toSorted()).toEqual(['messages', 'model', 'stream', 'stream_options'])
  })

  test('a hosted tool that is demanded is refused', async () => {
    const request = { tools: [{ type: 'web_search' }], tool_choice: { type: 'web_search' } }

    await expect(ask(text('ok'), { request })).rejects.toMatchObject({ code: 'upstream_invalid_request' })
    expect(provider.modelRequests).toHaveLength(0)
  })

  test('items of all kinds become messages', async () => {
    const { messages } = await bodyOf({
      input: [
        { role: 'developer', content: 'Rules.' },
        {
          type: 'message',
          role: 'user',
          content: [
            { type: 'input_text', text: 'What is this?' },
            { type: 'input_image', image_url: 'data:image/png;base64,AAAA', detail: 'low' },
            { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' },
            { type: 'input_file', file_id: 'file-1' },
            { type: 'input_file', file_url: 'https://example.com/b.pdf' },
          ],
        },
        { type: 'reasoning', id: 'rs_1', summary: [] },
        { type: 'message', role: 'assistant', id: 'msg_1', content: [{ type: 'output_text', text: 'Looking.' }] },
        { type: 'function_call', id: 'fc_1', call_id: 'c1', name: 'f', arguments: '{"a":1}' },
        { type: 'reasoning', id: 'rs_2', summary: [] },
        { type: 'function_call', id: 'fc_2', call_id: 'c2', name: 'g', arguments: '' },
        {
          type: 'function_call_output',
          call_id: 'c2',
          output: [{ type: 'input_image', image_url: 'https://example.com/i.png' }],
        },
        { type: 'function_call_output', call_id: 'c1', output: 'one' },
        { type: 'web_search_call', id: 'ws_1', status: 'completed' },
        { type: 'somebody_elses_item', id: 'x' },
        { type: 'message', role: 'assistant', content: [{ type: 'refusal', refusal: 'No.' }] },
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'Why?' },
            { type: 'input_text', text: 'Please.' },
          ],
        },
      ],
    })

    expect(messages).toEqual([
      { role: 'system', content: 'Rules.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is this?' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'low' } },
          { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' } },
          { type: 'file', file: { file_id: 'file-1' } },
          {
            type: 'text',
            text: '[The file https://example.com/b.pdf is not shown: this model cannot open addresses.]',
          },
        ],
      },
      {
        role: 'assistant',
        content: 'Looking.',
        tool_calls: [
          { id: 'c1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } },
          { id: 'c2', type: 'function', function: { name: 'g', arguments: '{}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'one' },
      { role: 'tool', tool_call_id: 'c2', content: '' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Files returned by g (c2):' },
          { type: 'image_url', image_url: { url: 'https://example.com/i.png' } },
        ],
      },
      { role: 'assistant', content: 'No.' },
      { role: 'user', content: 'Why?\nPlease.' },
    ])
  })

  test('outputs are moved behind their calls, and halves of a pair are left out', async () => {
    const { messages } = await bodyOf({
      input: [
        { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' },
        { role: 'system', content: 'A note.' },
        { type: 'function_call_output', call_id: 'c1', output: 'one' },
        { type: 'function_call', call_id: 'lost', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: 'unasked', output: 'x' },
        { role: 'user', content: 'go on' },
      ],
    })

    expect((messages as { role: string }[]).map((message) => message.role)).toEqual([
      'assistant',
      'tool',
      'system',
      'user',
    ])
  })

  test('of calls with one id each has its own output', async () => {
    const pair = (output: string) => [
      { type: 'function_call', call_id: 'call_0', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'call_0', output },
    ]
    const { messages } = await bodyOf({ input: [...pair('one'), { role: 'user', content: 'again' }, ...pair('two')] })

    expect(
      (messages as { role: string; content: unknown }[])
        .filter(({ role }) => role === 'tool')
        .map(({ content }) => content),
    ).toEqual(['one', 'two'])
  })
})
