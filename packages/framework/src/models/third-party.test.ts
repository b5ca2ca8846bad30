import type { IncomingMessage, ServerResponse } from 'node:http'
import { text as readText } from 'node:stream/consumers'
import { LLMock } from '@copilotkit/aimock'
import type { WireItem } from '@bureau/protocol'
import { Agent as Dispatcher } from 'undici'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { startHttpServer } from '../../../../tests/support/http-server.ts'
import {
  cut,
  type FakeProvider,
  incomplete,
  malformed,
  raw,
  startFakeProvider,
  status,
  text,
  toolCall,
  type Turn,
  usage,
} from '../../../../tests/support/fake-provider.ts'
import { Agency } from '../agency/agency.ts'
import { Agent } from '../agency/agent.ts'
import { askStreamed } from '../ask.ts'
import { tool } from '../agency/tool.ts'
import { expectLegalSequence, RecordedCall } from './response-events.contract.ts'
import { loadOptional } from './third-party-providers.ts'
import { type ThirdPartyOptions, thirdPartyTransport } from './third-party.ts'
import type { ResponsesRequest, ResponsesTransport } from '../agency/model-object.ts'

let dispatcher: Dispatcher

beforeEach(() => {
  dispatcher = new Dispatcher()
})

afterEach(() => dispatcher.destroy())

function open(name: string, baseUrl: string, options: Partial<ThirdPartyOptions> = {}): ResponsesTransport {
  return thirdPartyTransport(name, { ...base(), apiKey: 'key-1', baseUrl, ...options })
}

function base(): ThirdPartyOptions {
  return { headers: {}, readKey: () => undefined, dispatcher, files: { dispatcher, checkUrl: () => {} } }
}

function requestOf(input: string | WireItem[] = 'hi', more: Partial<ResponsesRequest> = {}): ResponsesRequest {
  return { input: typeof input === 'string' ? [{ role: 'user', content: input }] : input, ...more }
}

async function ask(
  transport: ResponsesTransport,
  request = requestOf(),
  { call = new RecordedCall(), signal = new AbortController().signal, headers = {} } = {},
): Promise<RecordedCall> {
  await transport(request, { observer: call, signal, headers })
  expectLegalSequence(call.events)
  return call
}

const ADDRESSES = [
  ['anthropic/claude-x', '/v1'],
  ['google/gemini-x', '/v1beta'],
  ['gemini/gemini-x', '/v1beta'],
  ['mistral/mistral-x', '/v1'],
  ['xai/grok-x', '/v1'],
  ['openrouter/anthropic/claude-x', '/api/v1'],
  ['openai_compatible/local-x', '/v1'],
] as const

describe('every provider', () => {
  let mock: LLMock

  beforeAll(async () => {
    mock = new LLMock({ port: 0, logLevel: 'silent' })
    mock.on({ userMessage: 'say hello' }, { content: 'Hello from the model.' })
    const calls = ['Oslo', 'Rome'].map((city, index) => ({
      name: 'weather',
      arguments: JSON.stringify({ city }),
      id: `call_${index}`,
    }))
    mock.on({ userMessage: 'both cities', hasToolResult: false }, { content: 'Looking.', toolCalls: calls })
    mock.on({ userMessage: 'both cities', hasToolResult: true }, { content: 'Rain and sun.' })
    await mock.start()
  })

  afterAll(() => mock.stop())

  test.each(ADDRESSES)('%s streams text', async (name, path) => {
    const call = await ask(open(`thirdparty/${name}`, mock.url + path), requestOf('say hello'))

    expect(call.deltas('response.output_text.delta')).toBe('Hello from the model.')
    expect(call.response).toMatchObject({ status: 'completed', output: [{ type: 'message', role: 'assistant' }] })
    expect(call.kinds.filter((kind) => kind === 'response.output_text.delta').length).toBeGreaterThan(1)
  })

  test.each(ADDRESSES)('%s carries parallel tool calls through a run', async (name, path) => {
    const asked: string[] = []
    const weather = tool({
      name: 'weather',
      description: 'tells the weather',
      parameters: z.object({ city: z.string() }),
      execute: ({ city }) => `fine in ${asked[asked.push(city) - 1]}`,
    })
    const agent = new Agent({ name: 'A', instructions: 'Help.', model: `litellm/${name}`, tools: [weather] })
    const readKey = (variable: string): string => (variable.endsWith('_BASE_URL') ? mock.url + path : 'key-1')
    const calls: RecordedCall[] = []
    for await (const event of askStreamed(new Agency({ entryPoint: agent }), 'both cities', { readKey })) {
      if (event.type === 'run.ended') expect(event.output).toBe('Rain and sun.')
      if (event.type !== 'model.event') continue
      if (event.kind === 'response.created') calls.push(new RecordedCall())
      calls.at(-1)!.onEvent(event.kind, event.json)
    }

    expect(asked.toSorted()).toEqual(['Oslo', 'Rome'])
    expect(calls).toHaveLength(2)
    for (const call of calls) expectLegalSequence(call.events)
    const ids = calls.flatMap((call) => [call.response.id, ...call.response.output.map((item) => item.id)])
    expect(new Set(ids).size).toBe(ids.length)
  })
})

describe('providers that speak the APIs of the default vendor', () => {
  let provider: FakeProvider

  beforeEach(async () => {
    provider = await startFakeProvider({ apiKeys: ['key-1'], validate: false })
  })

  afterEach(() => provider.close())

  async function answer(name: string, turn: Turn, request?: ResponsesRequest): Promise<RecordedCall> {
    provider.script([turn])
    return ask(open(name, provider.baseUrl), request)
  }

  const names = ['mistral/m', 'xai/grok', 'openrouter/a/b', 'openai_compatible/local']

  test.each(names.slice(1))('%s reports its token counts', async (name) => {
    const call = await answer(name, [text('ok'), usage({ input: 30, cached: 12, output: 9, reasoning: 4 })])

    expect(call.response.usage).toMatchObject({
      input_tokens: 30,
      input_tokens_details: { cached_tokens: 12 },
      output_tokens: 9,
      output_tokens_details: { reasoning_tokens: 4 },
    })
    expect(provider.modelRequests[0]?.apiKey).toBe('key-1')
  })

  // This vendor sends them without being asked, in the last chunk.
  test('mistral/m reports its token counts', async () => {
    const tokens = { prompt_tokens: 30, completion_tokens: 9, total_tokens: 39 }
    const last = { choices: [{ index: 0, delta: { content: '' }, finish_reason: 'stop' }], usage: tokens }
    const call = await answer('mistral/m', [text('ok'), usage(null), raw(`data: ${JSON.stringify(last)}\n\n`)])

    expect(call.response.usage).toMatchObject({ input_tokens: 30, output_tokens: 9, total_tokens: 39 })
    expect(provider.modelRequests[0]?.apiKey).toBe('key-1')
  })

  test.each(names)('%s: an answer cut off by the limit is incomplete', async (name) => {
    const call = await answer(name, incomplete('max_output_tokens', 'Once upon'))

    expect(call.response).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [{ content: [{ text: 'Once upon' }] }],
    })
  })

  test.each(names)('%s: HTTP 401 is upstream_auth_failed', async (name) => {
    provider.respond(() => status(401))

    await expect(ask(open(name, provider.baseUrl))).rejects.toMatchObject({ code: 'upstream_auth_failed', status: 401 })
    expect(provider.modelRequests).toHaveLength(1)
  })

  test.each(names)('%s: HTTP 429 and 500 are tried again', async (name) => {
    provider.script([status(500, '{}', { 'retry-after': '0' }), status(429, '{}', { 'retry-after': '0' })])
    const call = await answer(name, text('third time lucky'))

    expect(call.deltas('response.output_text.delta')).toBe('third time lucky')
  })

  test.each(names)('%s: HTTP 429 that stays is upstream_rate_limited', async (name) => {
    provider.respond(() => status(429, '{}', { 'retry-after': '0' }))

    await expect(ask(open(name, provider.baseUrl))).rejects.toMatchObject({
      code: 'upstream_rate_limited',
      status: 429,
    })
    expect(provider.modelRequests).toHaveLength(3)
  })

  test.each(names)('%s: garbage in the stream is upstream_invalid_response', async (name) => {
    const answered = answer(name, [text('Half'), malformed('{"choices":[')])

    await expect(answered).rejects.toMatchObject({ code: 'upstream_invalid_response' })
  })

  test.each(names)('%s: a connection that breaks is upstream_invalid_response', async (name) => {
    await expect(answer(name, [text('Half an'), cut()])).rejects.toMatchObject({ code: 'upstream_invalid_response' })
  })

  // The clients take the end of the stream for the end of the answer.
  test.each(names)('%s: a stream that ends early is upstream_invalid_response', async (name) => {
    const answered = answer(name, [text('Half an'), cut({ how: 'end' })])

    await expect(answered).rejects.toMatchObject({ code: 'upstream_invalid_response' })
  })

  test('a call id that the server gives again is replaced', async () => {
    const earlier: WireItem[] = [
      { role: 'user', content: 'hi' },
      { type: 'function_call', call_id: 'call_0', name: 'f', arguments: '{}', status: 'completed' },
      { type: 'function_call_output', call_id: 'call_0', output: 'done' },
    ]
    const call = await answer('openai_compatible/local', toolCall('f', {}, { callId: 'call_0' }), requestOf(earlier))

    expect(call.response.output[0]?.call_id).not.toBe('call_0')
  })

  test('reasoning effort, headers and a schema reach the provider', async () => {
    const schema = { type: 'object', properties: {}, required: [], additionalProperties: false }
    const request = requestOf('hi', {
      reasoning: { effort: 'high' },
      max_output_tokens: 20,
      text: { format: { type: 'json_schema', name: 'out', strict: true, schema } },
    })
    provider.script([text('{}')])
    await ask(open('openai_compatible/local', provider.baseUrl), request, { headers: { 'x-team': 'blue' } })

    expect(provider.modelRequests[0]?.body).toMatchObject({
      reasoning_effort: 'high',
      max_tokens: 20,
      response_format: { type: 'json_schema', json_schema: { name: 'out' } },
    })
    expect(provider.modelRequests[0]?.headers).toMatchObject({ 'x-team': 'blue' })
  })

  // A chat may change its model at any time, and the adapter throws on items that it does not know.
  test('a conversation that other models have worked on is understood', async () => {
    const history: WireItem[] = [
      { role: 'system', content: 'Be kind.' },
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'Look', prompt_cache_breakpoint: {} },
          { type: 'input_image', file_id: 'file-1' },
          { type: 'input_file', file_id: 'file-2', filename: 'a.pdf' },
        ],
      },
      { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'x' },
      { type: 'reasoning', id: 'rs_2', summary: [{ type: 'summary_text', text: 'Hm.' }] },
      { type: 'web_search_call', id: 'ws_1', status: 'completed' },
      { type: 'shiny_new_item' },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Seen.' }] },
      { type: 'function_call', id: 'fc_1', call_id: 'c1', name: 'f', arguments: '{}', status: 'completed' },
      { type: 'function_call_output', call_id: 'c1', output: 'done' },
      { role: 'user', content: 'And now?' },
    ]
    await answer('openai_compatible/local', text('ok'), requestOf(history))

    expect(provider.modelRequests[0]?.body['messages']).toMatchObject([
      { role: 'system', content: 'Be kind.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Look' },
          { type: 'text', text: expect.stringContaining('An image is not shown') },
          { type: 'text', text: expect.stringContaining('a.pdf is not shown') },
        ],
      },
      { role: 'assistant', content: 'Seen.', tool_calls: [{ id: 'c1' }] },
      { role: 'tool', tool_call_id: 'c1', content: 'done' },
      { role: 'user', content: 'And now?' },
    ])
  })

  test('tools that only the default vendor runs are left out', async () => {
    await answer('openai_compatible/local', text('ok'), requestOf('hi', { tools: [{ type: 'web_search' }] }))

    expect(provider.modelRequests[0]?.body).not.toHaveProperty('tools')
  })

  test('an abort ends the request with its reason', async () => {
    const stop = new AbortController()
    provider.script([[text('One')]])
    const call = new RecordedCall()
    call.onFirst = (kind) => kind === 'response.output_text.delta' && stop.abort(new Error('enough'))
    const asked = ask(open('xai/grok', provider.baseUrl), requestOf(), { call, signal: stop.signal })

    await expect(asked).rejects.toThrow('enough')
  })

  test('a server that is not there is upstream_unavailable', async () => {
    await provider.close()

    await expect(ask(open('openai_compatible/local', provider.baseUrl))).rejects.toMatchObject({
      code: 'upstream_unavailable',
    })
  })
})

describe('providers with an API of their own', () => {
  let url: string
  const requests: { path: string; headers: IncomingMessage['headers']; body: Record<string, unknown> }[] = []
  let reply: (response: ServerResponse) => void

  beforeEach(async () => {
    requests.length = 0
    url = await startHttpServer((request, response) => {
      void readText(request).then((body) => {
        requests.push({ path: request.url ?? '', headers: request.headers, body: JSON.parse(body) })
        reply(response)
      })
    })
  })

  const sse = (events: object[]): string =>
    events
      .map((event) => ('type' in event ? `event: ${String(event.type)}\n` : '') + `data: ${JSON.stringify(event)}\n\n`)
      .join('')

  function replyWith(events: object[], end: 'end' | 'destroy' = 'end'): void {
    reply = (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(sse(events), () => (end === 'end' ? response.end() : response.destroy()))
    }
  }

  const claude = {
    start: {
      type: 'message_start',
      message: {
        id: 'msg_vendor',
        type: 'message',
        role: 'assistant',
        model: 'claude-x',
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: { input_tokens: 10, cache_read_input_tokens: 20, cache_creation_input_tokens: 5, output_tokens: 1 },
      },
    },
    thinking: [
      { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'Let me see.' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 'sig-1' } },
      { type: 'content_block_stop', index: 0 },
    ],
    call: [
      {
        type: 'content_block_start',
        index: 1,
        content_block: { type: 'tool_use', id: 'toolu_1', name: 'f', input: {} },
      },
      { type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: '{"a"' } },
      { type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: ':1}' } },
      { type: 'content_block_stop', index: 1 },
    ],
    text: [
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Half' } },
    ],
    stop: (reason: string) => [
      { type: 'message_delta', delta: { stop_reason: reason, stop_sequence: null }, usage: { output_tokens: 40 } },
      { type: 'message_stop' },
    ],
  }

  test('Anthropic: thinking and arguments are streamed, tokens include the cache', async () => {
    replyWith([claude.start, ...claude.thinking, ...claude.call, ...claude.stop('tool_use')])
    const call = await ask(open('anthropic/claude-x', `${url}/v1`))

    expect(requests[0]).toMatchObject({ path: '/v1/messages', headers: { 'x-api-key': 'key-1' } })
    expect(call.deltas('response.reasoning_summary_text.delta')).toBe('Let me see.')
    expect(call.kinds.filter((kind) => kind === 'response.function_call_arguments.delta').length).toBeGreaterThan(1)
    expect(call.response).toMatchObject({
      output: [
        { type: 'reasoning', provider: { metadata: { anthropic: { signature: 'sig-1' } } } },
        { type: 'function_call', call_id: 'toolu_1', name: 'f', arguments: '{"a":1}' },
      ],
      usage: {
        input_tokens: 35,
        input_tokens_details: { cached_tokens: 20, cache_write_tokens: 5 },
        output_tokens: 40,
      },
    })
  })

  // Without its signature the vendor refuses a thinking block, and without the block the tool's result.
  test('Anthropic: its own thinking goes back with the signature, that of others does not', async () => {
    replyWith([claude.start, ...claude.thinking, ...claude.call, ...claude.stop('tool_use')])
    const model = open('anthropic/claude-x', `${url}/v1`)
    const { output } = (await ask(model, requestOf('hi', { reasoning: { effort: 'low' } }))).response
    const foreign: WireItem = { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'Foreign.' }] }
    const result: WireItem = { type: 'function_call_output', call_id: 'toolu_1', output: '2' }
    await ask(model, requestOf([{ role: 'user', content: 'hi' }, foreign, ...output, result]))

    expect(requests[1]?.body['messages']).toMatchObject([
      { role: 'user' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Let me see.', signature: 'sig-1' },
          { type: 'tool_use', id: 'toolu_1', input: { a: 1 } },
        ],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1' }] },
    ])
  })

  test('Anthropic: an error inside the stream has its code', async () => {
    const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }
    replyWith([claude.start, ...claude.text, overloaded])

    await expect(ask(open('anthropic/claude-x', `${url}/v1`))).rejects.toMatchObject({ code: 'upstream_unavailable' })
  })

  test.each(['end', 'destroy'] as const)(
    'Anthropic: a stream that breaks off (%s) is upstream_invalid_response',
    async (how) => {
      replyWith([claude.start, ...claude.text], how)

      await expect(ask(open('anthropic/claude-x', `${url}/v1`))).rejects.toMatchObject({
        code: 'upstream_invalid_response',
      })
    },
  )

  const gemini = (parts: object[], more: object = {}): object => ({
    candidates: [{ content: { role: 'model', parts }, index: 0 }],
    ...more,
  })

  test('Google: thoughts, signed calls and all token counts', async () => {
    const usageMetadata = {
      promptTokenCount: 30,
      cachedContentTokenCount: 10,
      candidatesTokenCount: 5,
      thoughtsTokenCount: 7,
      totalTokenCount: 42,
    }
    replyWith([
      gemini([{ text: 'Let me see.', thought: true }]),
      gemini([
        { functionCall: { name: 'f', args: { a: 1 } }, thoughtSignature: 'sig-1' },
        { functionCall: { name: 'f', args: { a: 2 } } },
      ]),
      { candidates: [{ content: { parts: [] }, finishReason: 'STOP', index: 0 }], usageMetadata },
    ])
    const call = await ask(open('google/gemini-x', `${url}/v1beta`))

    expect(requests[0]).toMatchObject({ headers: { 'x-goog-api-key': 'key-1' } })
    expect(requests[0]?.path).toContain('gemini-x:streamGenerateContent')
    expect(call.response).toMatchObject({
      output: [
        { type: 'reasoning', summary: [{ text: 'Let me see.' }] },
        {
          type: 'function_call',
          name: 'f',
          arguments: '{"a":1}',
          provider: { metadata: { google: { thoughtSignature: 'sig-1' } } },
        },
        { type: 'function_call', name: 'f', arguments: '{"a":2}' },
      ],
      usage: {
        input_tokens: 30,
        input_tokens_details: { cached_tokens: 10 },
        output_tokens: 12,
        output_tokens_details: { reasoning_tokens: 7 },
      },
    })
  })

  test('Google: a stream that ends early is upstream_invalid_response', async () => {
    replyWith([gemini([{ text: 'Half' }])])

    await expect(ask(open('google/gemini-x', `${url}/v1beta`))).rejects.toMatchObject({
      code: 'upstream_invalid_response',
    })
  })

  test('a redirect is not followed, because key headers would travel with it', async () => {
    let redirected = 0
    const elsewhere = await startHttpServer((_request, response) => {
      redirected += 1
      response.end()
    })
    reply = (response) => response.writeHead(307, { location: `${elsewhere}/` }).end()

    await expect(ask(open('anthropic/claude-x', `${url}/v1`))).rejects.toMatchObject({
      code: 'upstream_unavailable',
    })
    expect(redirected).toBe(0)
    expect(requests).toHaveLength(1)
  })
})

describe('keys, addresses and packages', () => {
  test('the operator key is used at the usual address only', () => {
    const readKey = (name: string): string | undefined => (name.endsWith('_API_KEY') ? 'operator' : undefined)

    expect(() => thirdPartyTransport('anthropic/claude-x', { ...base(), readKey })).not.toThrow()
    expect(() =>
      thirdPartyTransport('anthropic/claude-x', { ...base(), readKey, baseUrl: 'https://example.com' }),
    ).toThrow(expect.objectContaining({ code: 'upstream_auth_failed' }))
  })

  test.each([
    ['anthropic/claude-x', 'ANTHROPIC_API_KEY'],
    ['google/gemini-x', 'GEMINI_API_KEY'],
    ['gemini/gemini-x', 'GOOGLE_API_KEY'],
    ['mistral/m', 'MISTRAL_API_KEY'],
    ['xai/grok', 'XAI_API_KEY'],
    ['openrouter/a/b', 'OPENROUTER_API_KEY'],
  ])('%s takes its key from %s', (name, variable) => {
    const readKey = (asked: string): string | undefined => (asked === variable ? 'operator' : undefined)

    expect(() => thirdPartyTransport(name, { ...base(), readKey })).not.toThrow()
    expect(() => thirdPartyTransport(name, base())).toThrow(expect.objectContaining({ code: 'upstream_auth_failed' }))
  })

  test('a compatible server needs an address but no key', async () => {
    const provider = await startFakeProvider({ validate: false })
    provider.script([text('ok')])
    const readKey = (name: string): string | undefined =>
      name === 'OPENAI_COMPATIBLE_BASE_URL' ? provider.baseUrl : undefined
    await ask(thirdPartyTransport('openai_compatible/local', { ...base(), readKey }))
    await provider.close()

    expect(provider.modelRequests[0]?.apiKey).toBeNull()
    expect(() => thirdPartyTransport('openai_compatible/local', base())).toThrow('has no address')
  })

  test('an unknown provider or an empty model name is said clearly', () => {
    expect(() => thirdPartyTransport('thirdparty/nobody/x', base())).toThrow('There is no model provider "nobody"')
    expect(() => thirdPartyTransport('anthropic', base())).toThrow('names no model')
  })

  test('a package that is not installed is named', async () => {
    const absent = '@bureau/not-installed'

    const loaded = loadOptional(['@ai-sdk/anthropic'], () => import(absent))
    await expect(loaded).rejects.toThrow(/npm install @ai-sdk\/anthropic@\^?\d+\.\d+\.\d+$/)
  })
})
