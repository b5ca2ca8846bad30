import type {
  LanguageModelV2StreamPart,
  LanguageModelV3StreamPart,
  LanguageModelV4CallOptions,
  LanguageModelV4StreamPart,
} from '@ai-sdk/provider'
import { APICallError } from '@ai-sdk/provider'
import { inspect } from 'node:util'
import { Agent } from 'undici'
import { describe, expect, test } from 'vitest'
import { expectLegalSequence, RecordedCall } from '../response-events.contract.ts'
import type { ResponsesRequest } from '../../agency/model-object.ts'
import { aiSdkTransport } from './ai-sdk-transport.ts'
import type { LanguageModel } from '../../agency/language-model.ts'

type Part = LanguageModelV4StreamPart | LanguageModelV3StreamPart | LanguageModelV2StreamPart
type Options = LanguageModelV4CallOptions

const USAGE = {
  inputTokens: { total: 30, noCache: 10, cacheRead: 15, cacheWrite: 5 },
  outputTokens: { total: 9, text: 5, reasoning: 4 },
}
const finish = (unified = 'stop', { raw = unified }: { raw?: string | null } = {}): Part =>
  ({ type: 'finish', usage: USAGE, finishReason: { unified, raw: raw ?? undefined } }) as Part
const text = (id: string, delta: string): Part => ({ type: 'text-delta', id, delta })
const block = (id: string, words: string): Part[] => [
  { type: 'text-start', id },
  text(id, words),
  { type: 'text-end', id },
]

/** A model object that streams what it is given, and keeps what it is asked. */
function modelOf(
  stream: (options: Options, attempt: number) => readonly Part[] | ReadableStream<Part>,
  version: LanguageModel['specificationVersion'] = 'v4',
): LanguageModel & { readonly asked: Options[] } {
  const asked: Options[] = []
  const doStream = async (options: Options): Promise<{ stream: ReadableStream<Part> }> => {
    asked.push(options)
    const parts = stream(options, asked.length)
    return { stream: parts instanceof ReadableStream ? parts : ReadableStream.from(parts) }
  }
  const model = { specificationVersion: version, provider: 'acme.chat', modelId: 'm-1', supportedUrls: {}, asked }
  return { ...model, doStream }
}

type Asking = { request?: Partial<ResponsesRequest>; call?: RecordedCall; signal?: AbortSignal; isBroken?: boolean }

async function ask(
  model: LanguageModel,
  { request = {}, call = new RecordedCall(), signal = new AbortController().signal }: Asking = {},
): Promise<RecordedCall> {
  const transport = aiSdkTransport(model, { dispatcher: new Agent(), checkUrl: () => {} })
  const body = { model: 'acme/m-1', input: [{ role: 'user', content: 'hi' }], ...request }
  await transport(body, { observer: call, signal, headers: {} })
  expectLegalSequence(call.events)
  return call
}

const answer = (...parts: Part[]): Promise<RecordedCall> => ask(modelOf(() => parts))

describe('text', () => {
  test('blocks in a row are one message, with the metadata of each where it belongs', async () => {
    const [first, second] = [{ acme: { a: 1 } }, { acme: { b: 2 } }]
    const parts: Part[] = [
      { type: 'text-start', id: '1', providerMetadata: first },
      text('1', 'One '),
      { type: 'text-end', id: '1', providerMetadata: { acme: { c: 3 } } },
      { type: 'text-start', id: '2' },
      text('2', 'two'),
      { type: 'text-end', id: '2', providerMetadata: second },
    ]
    const model = modelOf(() => [...parts, finish()])
    const { response } = await ask(model)
    await ask(model, { request: { input: [{ role: 'user', content: 'hi' }, ...response.output] } })

    expect(response.output).toMatchObject([{ type: 'message', content: [{ text: 'One two' }] }])
    expect(model.asked[1]!.prompt[1]).toEqual({
      role: 'assistant',
      content: [
        { type: 'text', text: 'One ', providerOptions: { acme: { a: 1, c: 3 } } },
        { type: 'text', text: 'two', providerOptions: second },
      ],
    })
  })

  test('a block that begins before another has ended waits for it', async () => {
    const starts: Part[] = [
      { type: 'text-start', id: 'a' },
      { type: 'text-start', id: 'b' },
    ]
    const call = await answer(...starts, text('a', 'One '), text('b', 'three'), text('a', 'two '), finish())

    expect(call.deltas('response.output_text.delta')).toBe('One two three')
    expect(call.response.output).toHaveLength(1)
  })

  test('citations and sources are annotations, each address once', async () => {
    const source = { type: 'source', sourceType: 'url', id: 's', url: 'https://a.example', title: 'A' } as const
    const end: Part = { type: 'text-end', id: 'b', citations: [{ source, startIndex: 0, endIndex: 2 }] }
    const other = { ...source, url: 'https://b.example' }
    const call = await answer(...block('a', 'See: '), source, other, text('b', 'ok'), end, finish())

    expect(call.response.output[0]).toMatchObject({
      content: [
        {
          text: 'See: ok',
          annotations: [
            { type: 'url_citation', url: 'https://a.example', title: 'A', start_index: 5, end_index: 7 },
            { type: 'url_citation', url: 'https://b.example', start_index: 7, end_index: 7 },
          ],
        },
      ],
    })
  })
})

describe('thoughts', () => {
  test('metadata of the start, of an empty piece and of the end are gathered; a redacted thought has no text', async () => {
    const call = await answer(
      { type: 'reasoning-start', id: '1', providerMetadata: { acme: { a: 1 } } },
      { type: 'reasoning-delta', id: '1', delta: 'Hm.' },
      { type: 'reasoning-delta', id: '1', delta: '', providerMetadata: { acme: { signature: 's' } } },
      { type: 'reasoning-end', id: '1', providerMetadata: { acme: { c: 3 } } },
      { type: 'reasoning-start', id: '2', providerMetadata: { acme: { redactedData: 'r' } } },
      { type: 'reasoning-end', id: '2' },
      { type: 'reasoning-start', id: '3' },
      { type: 'reasoning-end', id: '3' },
      ...block('t', 'ok'),
      finish(),
    )

    expect(call.response.output).toMatchObject([
      { summary: [{ text: 'Hm.' }], provider: { metadata: { acme: { a: 1, signature: 's', c: 3 } } } },
      { summary: [], provider: { metadata: { acme: { redactedData: 'r' } } } },
      { type: 'message' },
    ])
  })

  test('go to no other model', async () => {
    const thought = { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'Hm.' }] }
    const provider = { model: 'acme.chat:m-2', metadata: { acme: { signature: 's' } } }
    const model = modelOf(() => [finish()])
    await ask(model, { request: { input: [{ role: 'user', content: 'hi' }, thought, { ...thought, provider }] } })

    expect(model.asked[0]!.prompt).toEqual([{ role: 'user', content: [{ type: 'text', text: 'hi' }] }])
  })

  test.each([
    { parts: 'all' },
    { parts: [null, 1, { type: 'tool-result', toolCallId: 'x', toolName: 'y' }, { type: 'nonsense' }] },
    { metadata: 'none', blocks: [{ end: 'x' }] },
  ])('what a caller has made of them is read without trust: %j', async (made) => {
    const provider = { model: 'acme.chat:m-1', ...made }
    const items = [
      { type: 'reasoning', provider },
      { type: 'mcp_call', provider },
      { type: 'message', role: 'assistant', content: 'ok', provider },
    ]
    const model = modelOf(() => [finish()])
    const call = await ask(model, { request: { input: [{ role: 'user', content: 'hi' }, ...items] } })

    expect(call.response.status).toBe('completed')
    for (const { content } of model.asked[0]!.prompt) expect(JSON.stringify(content)).not.toMatch(/nonsense|null/)
  })
})

describe('calls', () => {
  test('come in pieces, alone, or as plain text, and the finished call counts', async () => {
    const call = await answer(
      { type: 'tool-input-start', id: 'a', toolName: 'f' },
      { type: 'tool-input-delta', id: 'a', delta: '{"x"' },
      { type: 'tool-input-delta', id: 'a', delta: ':1}' },
      { type: 'tool-input-end', id: 'a' },
      { type: 'tool-input-start', id: 'b', toolName: 'g', inputEncoding: 'text' },
      { type: 'tool-input-delta', id: 'b', delta: 'plain' },
      { type: 'tool-call', toolCallId: 'a', toolName: 'f', input: '{"x":1}', providerMetadata: { acme: { t: 1 } } },
      { type: 'tool-call', toolCallId: 'b', toolName: 'g', input: '"plain"' },
      { type: 'tool-call', toolCallId: 'c', toolName: 'h', input: '' },
      finish('tool-calls'),
    )

    expect(call.response.output).toMatchObject([
      {
        call_id: 'a',
        name: 'f',
        arguments: '{"x":1}',
        status: 'completed',
        provider: { metadata: { acme: { t: 1 } } },
      },
      { call_id: 'b', name: 'g', arguments: '"plain"' },
      { call_id: 'c', name: 'h', arguments: '{}' },
    ])
  })

  test('an answer that ends within a call has failed, and one that is cut off is incomplete', async () => {
    const begun: Part[] = [
      { type: 'tool-input-start', id: 'a', toolName: 'f' },
      { type: 'tool-input-delta', id: 'a', delta: '{"x"' },
    ]
    const call = await answer(...begun, finish('length'))

    expect(call.response).toMatchObject({ status: 'incomplete', output: [{ status: 'incomplete' }] })
    await expect(answer(...begun, finish('stop'))).rejects.toMatchObject({ code: 'upstream_invalid_response' })
  })

  test('a result goes behind its call, and a call without one is left out', async () => {
    const provider = { model: 'acme.chat:m-1', metadata: { acme: { thoughtSignature: 's' } } }
    const call = (call_id: string) => ({ type: 'function_call', call_id, name: 'f', arguments: '[broken' })
    const output = [
      { type: 'input_text', text: 'See' },
      { type: 'input_image', image_url: 'data:image/png;base64,aGk=' },
    ]
    const input = [
      { role: 'user', content: 'hi' },
      { ...call('a'), provider },
      call('b'),
      { type: 'function_call_output', call_id: 'a', output },
      { role: 'user', content: 'so?' },
    ]
    const model = modelOf(() => [finish()])
    await ask(model, { request: { input } })

    const value = [
      { type: 'text', text: 'See' },
      { type: 'file', mediaType: 'image/png', data: { type: 'data', data: 'aGk=' } },
    ]
    const named = { toolCallId: 'a', toolName: 'f' }
    expect(model.asked[0]!.prompt.slice(1, 3)).toEqual([
      {
        role: 'assistant',
        content: [
          { type: 'tool-call', ...named, input: { not_an_object: '[broken' }, providerOptions: provider.metadata },
        ],
      },
      { role: 'tool', content: [{ type: 'tool-result', ...named, output: { type: 'content', value } }] },
    ])
  })

  test('of calls with one id each has its own result', async () => {
    const pair = (output: string) => [
      { type: 'function_call', call_id: 'call_0', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'call_0', output },
    ]
    const model = modelOf(() => [finish()])
    await ask(model, { request: { input: [...pair('one'), { role: 'user', content: 'again' }, ...pair('two')] } })

    expect(model.asked[0]!.prompt.filter(({ role }) => role === 'tool')).toMatchObject([
      { content: [{ output: { value: 'one' } }] },
      { content: [{ output: { value: 'two' } }] },
    ])
  })

  test('what the provider runs and makes itself is kept whole, and goes back as it was', async () => {
    const run = { toolCallId: 'p', toolName: 'code', providerExecuted: true } as const
    const model = modelOf(() => [
      { type: 'tool-input-start', id: 'p', toolName: 'code', providerExecuted: true },
      { type: 'tool-call', ...run, input: '{"code":"1"}', providerMetadata: { acme: { c: 1 } } },
      { type: 'tool-result', ...run, result: 'soon', preliminary: true },
      { type: 'tool-result', ...run, result: { out: '1' }, isError: false },
      { type: 'custom', kind: 'acme.note', providerMetadata: { acme: { n: 1 } } },
      { type: 'file', mediaType: 'audio/wav', data: { type: 'data', data: new Uint8Array([104, 105]) } },
      ...block('t', 'ok'),
      finish(),
    ])
    const { response } = await ask(model)
    await ask(model, { request: { input: [{ role: 'user', content: 'hi' }, ...response.output] } })

    expect(response.output).toMatchObject([
      { type: 'mcp_call', server_label: 'acme', name: 'code', arguments: '{"code":"1"}', output: '{"out":"1"}' },
      { type: 'reasoning', summary: [] },
      { type: 'reasoning', summary: [] },
      { type: 'message' },
    ])
    const options = { providerOptions: { acme: { c: 1 } } }
    expect(model.asked[1]!.prompt[1]!.content).toEqual([
      { type: 'tool-call', ...run, input: { code: '1' }, ...options },
      { type: 'tool-result', toolCallId: 'p', toolName: 'code', output: { type: 'json', value: { out: '1' } } },
      { type: 'custom', kind: 'acme.note', providerOptions: { acme: { n: 1 } } },
      { type: 'file', mediaType: 'audio/wav', data: { type: 'data', data: 'aGk=' } },
      { type: 'text', text: 'ok' },
    ])
  })

  test('a tool that the provider runs may ask for approval', async () => {
    const run = { toolCallId: 'p', toolName: 'delete', providerExecuted: true } as const
    const model = modelOf(() => [
      { type: 'tool-call', ...run, input: '{}' },
      { type: 'tool-approval-request', approvalId: 'ap_1', toolCallId: 'p' },
      finish(),
    ])
    const { response } = await ask(model)
    const decision = { type: 'mcp_approval_response', approval_request_id: 'ap_1', approve: true }
    await ask(model, { request: { input: [{ role: 'user', content: 'hi' }, ...response.output, decision] } })

    expect(response.output).toMatchObject([{ type: 'mcp_call' }, { type: 'mcp_approval_request', id: 'ap_1' }])
    expect(model.asked[1]!.prompt.slice(1)).toMatchObject([
      { role: 'assistant', content: [{ type: 'tool-call', ...run }] },
      { role: 'tool', content: [{ type: 'tool-approval-response', approvalId: 'ap_1', approved: true }] },
    ])
  })
})

describe('the end', () => {
  test('tokens are counted with those that were cached, written and thought', async () => {
    const { response } = await answer(...block('t', 'ok'), finish())

    expect(response).toMatchObject({
      model: 'acme/m-1',
      status: 'completed',
      usage: {
        input_tokens: 30,
        input_tokens_details: { cached_tokens: 15, cache_write_tokens: 5 },
        output_tokens: 9,
        output_tokens_details: { reasoning_tokens: 4 },
        total_tokens: 39,
      },
    })
  })

  test.each([
    ['length', 'max_output_tokens'],
    ['content-filter', 'content_filter'],
  ])('%s is incomplete', async (reason, expected) => {
    const { response } = await answer(...block('t', 'ok'), finish(reason))

    expect(response).toMatchObject({ status: 'incomplete', incomplete_details: { reason: expected } })
  })

  test.each(['error', 'interrupted', 'other'])('%s is a failure with its tokens', async (reason) => {
    const call = new RecordedCall()
    const failed = ask(
      modelOf(() => [...block('t', 'ok'), finish(reason, { raw: null })]),
      { call },
    )

    await expect(failed).rejects.toMatchObject({ code: 'upstream_invalid_response' })
    expect(call.response).toMatchObject({ status: 'failed', usage: { total_tokens: 39 } })
  })

  test.each([
    [{ type: 'overloaded_error', message: 'Overloaded' }, 'upstream_unavailable'],
    [{ message: 'slow down', statusCode: 429 }, 'upstream_rate_limited'],
    ['broken', 'upstream_invalid_response'],
    [undefined, 'upstream_invalid_response'],
    [new Error('strange'), 'upstream_invalid_response'],
  ])('an error in the middle, %j, is %s', async (error, code) => {
    await expect(answer(text('t', 'Half'), { type: 'error', error }, finish())).rejects.toMatchObject({ code })
    await expect(answer(text('t', 'Half'), { type: 'error', error })).rejects.toMatchObject({ code })
  })

  test('warnings, names, raw chunks, pings and parts to come change nothing', async () => {
    const { response } = await answer(
      { type: 'stream-start', warnings: [{ type: 'other', message: 'x' }] },
      { type: 'response-metadata', id: 'r', modelId: 'm-1-2026' },
      { type: 'text-start', id: 't' },
      { type: 'raw', rawValue: {} },
      text('t', 'o'),
      { type: 'ping' },
      { type: 'from-the-future' } as never,
      text('t', 'k'),
      finish(),
    )

    expect(response.output).toMatchObject([{ content: [{ text: 'ok' }] }])
  })
})

describe('requests', () => {
  const refused = (statusCode: number, headers: Record<string, string> = {}): APICallError =>
    new APICallError({
      message: `status ${statusCode}`,
      url: 'https://acme.example',
      requestBodyValues: { messages: ['the secret prompt'] },
      statusCode,
      responseHeaders: { 'retry-after': '0', ...headers },
    })

  test('that fail in passing are made again before the answer has begun, as often as any other', async () => {
    const model = modelOf((_options, attempt) => {
      if (attempt < 3) throw refused(attempt === 1 ? 503 : 429)
      return [...block('t', 'third time lucky'), finish()]
    })
    const call = await ask(model)
    const stubborn = modelOf(() => {
      throw refused(429)
    })

    expect(call.deltas('response.output_text.delta')).toBe('third time lucky')
    await expect(ask(stubborn)).rejects.toMatchObject({ code: 'upstream_rate_limited', status: 429 })
    expect(stubborn.asked).toHaveLength(3)
  })

  test.each([
    [refused(400), 'upstream_invalid_request'],
    [refused(503, { 'retry-after': '60' }), 'upstream_unavailable'],
  ])('are not made again in vain: %s', async (error, code) => {
    const model = modelOf(() => {
      throw error
    })

    await expect(ask(model)).rejects.toMatchObject({ code })
    expect(model.asked).toHaveLength(1)
  })

  test('end also when their error is its own cause', async () => {
    const error = refused(400)
    Reflect.set(error, 'cause', error)
    const model = modelOf(() => {
      throw error
    })

    await expect(ask(model)).rejects.toMatchObject({ code: 'upstream_invalid_request' })
  })

  test('are not made again once anything has arrived', async () => {
    const model = modelOf(() =>
      ReadableStream.from(
        (async function* () {
          yield text('t', 'Half')
          throw refused(503)
        })(),
      ),
    )

    await expect(ask(model)).rejects.toMatchObject({ code: 'upstream_unavailable' })
    expect(model.asked).toHaveLength(1)
  })

  test.each([
    ['throws an error of its own', () => Promise.reject(new Error('no key like sk-abcdefgh')), 'no key like [key]'],
    ['answers nothing', () => Promise.resolve(undefined), 'TypeError'],
    ['streams nothing', () => Promise.resolve({}), 'TypeError'],
    ['streams no parts', () => Promise.resolve({ stream: ReadableStream.from([null]) }), 'TypeError'],
    ['ends as nobody may', () => Promise.resolve({ stream: ReadableStream.from([{ type: 'finish' }]) }), 'TypeError'],
  ])('fail with the name of the model and a reason for the log when its client %s', async (_, doStream, reason) => {
    const error = await ask({ ...modelOf(() => []), doStream }).catch((thrown: unknown) => thrown)

    const message = 'The client of the model acme/m-1 has failed.'
    expect(error).toMatchObject({ name: 'ModelError', code: 'upstream_invalid_response', message })
    expect(error).toHaveProperty('detail', expect.stringContaining(reason))
  })

  test('fail as they are when the reader fails', async () => {
    const call = new RecordedCall()
    const lost = new Error('the log is lost')
    call.ready = () => Promise.reject(lost)

    await expect(
      ask(
        modelOf(() => [...block('t', 'ok'), finish()]),
        { call },
      ),
    ).rejects.toBe(lost)
  })

  test('leave nothing of the conversation in the errors that they end with', async () => {
    const model = modelOf(() => {
      throw refused(400)
    })
    const error = await ask(model).catch((thrown: unknown) => thrown)

    expect(inspect(error, { depth: 20, showHidden: true })).not.toContain('the secret prompt')
    expect(error).toHaveProperty('cause.statusCode', 400)
  })

  test('end with the reason of their signal, even when the model does not listen', async () => {
    const stop = new AbortController()
    const deaf = { ...modelOf(() => []), doStream: () => new Promise(() => {}) } as unknown as LanguageModel
    const asking = ask(deaf, { signal: stop.signal })
    stop.abort(new Error('enough'))
    await expect(asking).rejects.toThrow('enough')

    const later = new AbortController()
    const call = new RecordedCall()
    call.onFirst = (kind) => kind === 'response.output_text.delta' && later.abort(new Error('enough'))
    let cancelled = false
    const endless = new ReadableStream<Part>({
      start: (controller) => controller.enqueue(text('t', 'One')),
      cancel: () => void (cancelled = true),
    })
    await expect(
      ask(
        modelOf(() => endless),
        { call, signal: later.signal },
      ),
    ).rejects.toThrow('enough')
    expect(cancelled).toBe(true)
  })

  test('read nothing more while the reader is behind', async () => {
    let pulled = 0
    const stream = new ReadableStream<Part>(
      {
        pull: (controller) => {
          pulled += 1
          if (pulled < 50) return controller.enqueue(text('t', '.'))
          controller.enqueue(finish())
          controller.close()
        },
      },
      { highWaterMark: 0 },
    )
    const gate = Promise.withResolvers<void>()
    const waiting = Promise.withResolvers<void>()
    const call = new RecordedCall()
    call.ready = () => (call.batches === 5 ? (waiting.resolve(), gate.promise) : undefined)
    const asking = ask(
      modelOf(() => stream),
      { call },
    )
    await waiting.promise
    await new Promise(setImmediate)
    expect(pulled).toBe(5)
    gate.resolve()

    expect((await asking).deltas('response.output_text.delta')).toBe('.'.repeat(49))
  })

  test('carry settings, tools and formats in the words of the AI SDK', async () => {
    const schema = { type: 'object', properties: {} }
    const functionTool = (name: string) => ({
      type: 'function',
      name,
      description: 'd',
      parameters: schema,
      strict: true,
    })
    const model = modelOf(() => [finish()])
    const request = {
      instructions: 'Be kind.',
      temperature: 0.5,
      top_p: 0.9,
      max_output_tokens: 20,
      stop: 'END',
      seed: 7,
      reasoning: { effort: 'high' },
      text: { format: { type: 'json_schema', name: 'out', schema, strict: true } },
      tools: [functionTool('f'), functionTool('g'), { type: 'web_search' }],
      tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'g' }] },
      providerOptions: { acme: { own: 1 } },
    }
    await ask(model, { request })

    const { abortSignal: _signal, ...asked } = model.asked[0]!
    expect(asked).toEqual({
      prompt: [
        { role: 'system', content: 'Be kind.' },
        { role: 'user', content: [{ type: 'text', text: 'hi' }] },
      ],
      headers: {},
      temperature: 0.5,
      topP: 0.9,
      maxOutputTokens: 20,
      stopSequences: ['END'],
      seed: 7,
      reasoning: 'high',
      responseFormat: { type: 'json', name: 'out', schema },
      tools: [{ type: 'function', name: 'g', description: 'd', inputSchema: schema, strict: true }],
      toolChoice: { type: 'required' },
      providerOptions: { acme: { own: 1 } },
    })
    const demanding = { ...request, tool_choice: { type: 'web_search' } }
    await expect(ask(model, { request: demanding })).rejects.toMatchObject({ code: 'upstream_invalid_request' })
  })

  test.each([
    ['anthropic.messages', { anthropic: { disableParallelToolUse: true } }],
    ['mistral.chat', { mistral: { parallelToolCalls: false } }],
    ['openrouter', { openrouter: { parallel_tool_calls: false } }],
    ['azure.responses', { openai: { parallelToolCalls: false } }],
    ['acme.chat', undefined],
  ])('%s is told in its own words to call one tool at a time', async (provider, providerOptions) => {
    const model = modelOf(() => [finish()])
    await ask({ ...model, provider }, { request: { parallel_tool_calls: false } })

    expect(model.asked[0]!.providerOptions).toEqual(providerOptions)
  })
})

describe('older versions of the interface', () => {
  const image = { type: 'input_image', image_url: 'data:image/png;base64,aGk=' }
  const request = {
    input: [
      { role: 'user', content: [image] },
      { type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'a', output: [image] },
    ],
    reasoning: { effort: 'low' },
    tools: [{ aiSdkProviderTool: { id: 'acme.search', name: 'search', args: {} } }],
  }
  const picture = { type: 'file', mediaType: 'image/png', data: 'aGk=' } as const

  test('v3', async () => {
    const model = modelOf(() => [...block('t', 'ok'), picture, finish()] as Part[], 'v3')
    const { response } = await ask(model, { request })

    expect(response.output).toMatchObject([{ content: [{ text: 'ok' }] }, { result: 'aGk=' }])
    expect(model.asked[0]).toMatchObject({
      prompt: [
        { content: [{ type: 'file', mediaType: 'image/png', data: 'aGk=' }] },
        {},
        { content: [{ output: { value: [{ type: 'file-data', data: 'aGk=', mediaType: 'image/png' }] } }] },
      ],
      tools: [{ type: 'provider', id: 'acme.search' }],
      providerOptions: { acme: { reasoningEffort: 'low' } },
    })
    expect(model.asked[0]).not.toHaveProperty('reasoning')
  })

  test('v2', async () => {
    const usage = { inputTokens: 30, outputTokens: 9, totalTokens: 39, cachedInputTokens: 15, reasoningTokens: 4 }
    const end = (finishReason: 'other' | 'unknown') => ({ type: 'finish', finishReason, usage }) as const
    const model = modelOf(() => [...block('t', 'ok'), picture, end('other')] as Part[], 'v2')
    const { response } = await ask(model, { request })

    expect(response).toMatchObject({
      status: 'completed',
      output: [{ content: [{ text: 'ok' }] }, { result: 'aGk=' }],
      usage: { input_tokens: 30, input_tokens_details: { cached_tokens: 15 }, total_tokens: 39 },
    })
    expect(model.asked[0]).toMatchObject({
      prompt: [{}, {}, { content: [{ output: { value: [{ type: 'media', data: 'aGk=' }] } }] }],
      tools: [{ type: 'provider-defined', id: 'acme.search' }],
    })
    const broken = modelOf(() => [end('unknown')] as Part[], 'v2')
    await expect(ask(broken)).rejects.toMatchObject({ code: 'upstream_invalid_response' })
  })
})
