import {
  Agent,
  type AgentInputItem,
  type Model,
  type ModelRequest,
  type ModelResponse,
  OpenAIProvider,
  Runner,
  type StreamEvent,
  tool,
  Usage,
} from '@openai/agents'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  cut,
  type FakeProvider,
  failed,
  incomplete,
  startFakeProvider,
  status,
  text,
  toolCall,
  usage,
} from '../../../../tests/support/fake-provider.ts'
import { expectLegalSequence, RecordedCall } from './response-events.contract.ts'
import { ObservedModel, type ObservedModelOptions } from './sdk-model.ts'

function requestOf(input: string | AgentInputItem[] = 'hi', more: Partial<ModelRequest> = {}): ModelRequest {
  return { input, modelSettings: {}, tools: [], handoffs: [], outputType: 'text', tracing: false, ...more }
}

type Asked = { readonly call: RecordedCall; readonly response: ModelResponse }

async function ask(model: Model, request = requestOf(), options: Partial<ObservedModelOptions> = {}): Promise<Asked> {
  const call = new RecordedCall()
  const response = await new ObservedModel(model, { observe: () => call, name: 'my-model', ...options }).getResponse(
    request,
  )
  return { call, response }
}

const USAGE = {
  inputTokens: 9,
  inputTokensDetails: [{ cached_tokens: 4 }],
  outputTokens: 3,
  outputTokensDetails: [{ reasoning_tokens: 2 }],
  totalTokens: 12,
}

const message = (said: string, id?: string): AgentInputItem => ({
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text: said }],
  ...(id !== undefined && { id }),
})

const callOf = (callId: string): AgentInputItem => ({
  type: 'function_call',
  callId,
  name: 'add',
  arguments: '{"a":1}',
  status: 'completed',
})

/** A user's own class: what it yields is up to the test. */
class OwnModel implements Model {
  readonly requests: ModelRequest[] = []
  readonly #events: (request: ModelRequest) => AsyncIterable<StreamEvent>
  readonly #response: ModelResponse | undefined

  constructor(events: (request: ModelRequest) => AsyncIterable<StreamEvent>, response?: ModelResponse) {
    this.#events = events
    this.#response = response
  }

  async getResponse(request: ModelRequest): Promise<ModelResponse> {
    this.requests.push(request)
    if (!this.#response) throw new Error('not scripted')
    return this.#response
  }

  getStreamedResponse(request: ModelRequest): AsyncIterable<StreamEvent> {
    this.requests.push(request)
    return this.#events(request)
  }
}

const delta = (said: string, itemId?: string): StreamEvent => ({
  type: 'output_text_delta',
  delta: said,
  ...(itemId !== undefined && { itemId }),
})
const raw = (event: object): StreamEvent => ({ type: 'model', event })
const done = (output: AgentInputItem[]): StreamEvent =>
  ({ type: 'response_done', response: { id: 'r1', usage: USAGE, output } }) as StreamEvent

function streaming(...events: StreamEvent[]): OwnModel {
  return new OwnModel(async function* () {
    yield* events
  })
}

describe('a model class of the user', () => {
  test('text and calls become Responses events, with the same ids for the SDK', async () => {
    const { call, response } = await ask(
      streaming(delta('Let me '), delta('add.'), done([message('Let me add.', '0'), callOf('c1')])),
    )

    expectLegalSequence(call.events)
    expect(call.deltas('response.output_text.delta')).toBe('Let me add.')
    expect(call.response).toMatchObject({
      model: 'my-model',
      output: [
        { type: 'message', content: [{ type: 'output_text', text: 'Let me add.' }] },
        { type: 'function_call', call_id: 'c1', name: 'add', arguments: '{"a":1}', status: 'completed' },
      ],
      usage: {
        input_tokens: 9,
        input_tokens_details: { cached_tokens: 4 },
        output_tokens: 3,
        output_tokens_details: { reasoning_tokens: 2 },
        total_tokens: 12,
      },
    })
    expect(response.output.map((item) => item.id)).toEqual(call.response.output.map((item) => item.id))
    expect(response.output.map((item) => item.id)).not.toContain('0')
    expect(response.usage).toMatchObject({ requests: 1, inputTokens: 9, outputTokens: 3 })
    expect(response.responseId).toBe('r1')
  })

  test('what was not streamed is written from the final answer', async () => {
    const items: AgentInputItem[] = [
      {
        type: 'reasoning',
        content: [
          { type: 'input_text', text: 'Hm.' },
          { type: 'input_text', text: 'Yes.' },
        ],
      },
      { ...message('Half, and the rest.') },
      {
        type: 'message',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'refusal', refusal: 'No.' }],
      },
      {
        type: 'hosted_tool_call',
        id: 'ws_1',
        name: 'web_search_call',
        status: 'completed',
        providerData: { type: 'web_search_call' },
      },
    ]
    const { call } = await ask(streaming(delta('Half'), done(items)))

    expectLegalSequence(call.events)
    expect(call.response.output).toMatchObject([
      { type: 'message', content: [{ text: 'Half, and the rest.' }] },
      { type: 'reasoning', summary: [{ text: 'Hm.' }, { text: 'Yes.' }] },
      { type: 'message', content: [{ type: 'refusal', refusal: 'No.' }] },
      { type: 'web_search_call' },
    ])
  })

  test('annotations and members for the provider survive', async () => {
    const cited = {
      ...message('See.'),
      content: [{ type: 'output_text', text: 'See.', providerData: { annotations: [{ type: 'url_citation' }] } }],
      providerData: { vendor: { signature: 'abc' } },
    } as AgentInputItem
    const { call } = await ask(streaming(delta('See.'), done([cited])))

    expect(call.response.output[0]).toMatchObject({
      vendor: { signature: 'abc' },
      content: [{ annotations: [{ type: 'url_citation' }] }],
    })
  })

  test('ids that are long enough to be unique are kept, unless the conversation has them', async () => {
    const long = 'msg_0123456789abcdef0123'
    const first = await ask(streaming(delta('a', long), done([message('a', long)])))
    expect(first.response.output[0]?.id).toBe(long)

    const again = await ask(streaming(delta('a', long), done([message('a', long)])), requestOf([message('a', long)]))
    expect(again.response.output[0]?.id).not.toBe(long)
  })

  test('a call id of an earlier turn is replaced', async () => {
    const { call, response } = await ask(streaming(done([callOf('c1')])), requestOf([callOf('c1')]))
    const [item] = response.output

    expect(item).toMatchObject({ type: 'function_call', callId: call.response.output[0]?.call_id })
    expect(call.response.output[0]?.call_id).not.toBe('c1')
  })

  test('the object is only called, never changed', async () => {
    const model = Object.freeze(streaming(done([message('ok')])))
    const request = requestOf()
    await ask(model, request)

    expect(model.requests).toEqual([request])
    expect(model).toBeInstanceOf(OwnModel)
  })

  test('the input can be replaced before it is sent', async () => {
    const model = streaming(done([message('ok')]))
    await ask(model, requestOf('hi'), { beforeRequest: (input) => [...input, { role: 'user', content: 'there' }] })

    expect(model.requests[0]?.input).toEqual([
      { role: 'user', content: 'hi' },
      { role: 'user', content: 'there' },
    ])
  })

  test.each([
    [
      'throws from the method',
      () => {
        throw new Error('Streaming is not implemented')
      },
    ],
    [
      'throws when it is read',
      () => ({
        [Symbol.asyncIterator]: () => ({
          next: () => Promise.reject(new Error('This model does not support streaming')),
        }),
      }),
    ],
    ['yields nothing', async function* () {}],
  ])('a model that cannot stream (%s) is asked for the whole answer', async (_, events) => {
    const model = new OwnModel(events as () => AsyncIterable<StreamEvent>, {
      usage: new Usage(USAGE),
      output: [message('Whole.')],
    })
    const { call, response } = await ask(model)

    expectLegalSequence(call.events)
    expect(call.response.output).toMatchObject([{ content: [{ text: 'Whole.' }] }])
    expect(call.response.usage).toMatchObject({ input_tokens: 9, input_tokens_details: { cached_tokens: 4 } })
    expect(response.output[0]?.id).toBe(call.response.output[0]?.id)
  })

  test('a stream that ends without an answer is upstream_invalid_response', async () => {
    await expect(ask(streaming(delta('Half')))).rejects.toMatchObject({ code: 'upstream_invalid_response' })
  })

  test.each([
    [Object.assign(new Error('no'), { status: 401 }), 'upstream_auth_failed'],
    [Object.assign(new Error('no'), { statusCode: 529 }), 'upstream_unavailable'],
    [Object.assign(new TypeError('fetch failed'), { cause: { code: 'ECONNREFUSED' } }), 'upstream_unavailable'],
    [Object.assign(new TypeError('terminated'), { cause: { code: 'UND_ERR_SOCKET' } }), 'upstream_invalid_response'],
    [Object.assign(new TypeError('fetch failed'), { cause: { code: 'UND_ERR_HEADERS_TIMEOUT' } }), 'upstream_timeout'],
    [Object.assign(new Error('busy'), { type: 'overloaded_error' }), 'upstream_unavailable'],
  ])('%o is %s', async (error, code) => {
    const model = new OwnModel(async function* () {
      yield delta('Half')
      throw error
    })
    await expect(ask(model)).rejects.toMatchObject({ name: 'ModelError', code })
  })

  test('an error of the model object itself is passed on', async () => {
    const defect = new RangeError('off by one')
    const model = new OwnModel(async function* () {
      yield delta('Half')
      throw defect
    })
    await expect(ask(model)).rejects.toBe(defect)
  })

  test('a model that ignores its signal does not hold up an abort', async () => {
    const stop = new AbortController()
    const model = new OwnModel(async function* () {
      yield delta('One')
      await new Promise(() => {})
    })
    const call = new RecordedCall()
    call.onFirst = (kind) => kind === 'response.output_text.delta' && stop.abort(new Error('enough'))
    const asked = new ObservedModel(model, { observe: () => call }).getResponse(
      requestOf('hi', { signal: stop.signal }),
    )

    await expect(asked).rejects.toThrow('enough')
  })

  test('a slow reader holds the model back', async () => {
    const call = new RecordedCall()
    const reader = Promise.withResolvers<void>()
    call.ready = () => reader.promise
    let taken = 0
    const model = new OwnModel(async function* () {
      taken = 1
      yield delta('One')
      taken = 2
      yield done([message('One')])
    })
    const asked = new ObservedModel(model, { observe: () => call }).getResponse(requestOf())
    await new Promise(setImmediate)
    expect(taken).toBe(1)
    reader.resolve()
    await asked
    expect(taken).toBe(2)
  })

  test('an agent runs on it, tools included', async () => {
    const turns = [[done([callOf('c1')])], [delta('It is '), delta('2.'), done([message('It is 2.')])]]
    const model = new OwnModel(async function* () {
      yield* turns.shift() ?? []
    })
    const calls: RecordedCall[] = []
    const observe = (): RecordedCall => calls[calls.push(new RecordedCall()) - 1]!
    const add = tool({
      name: 'add',
      description: 'adds one',
      parameters: z.object({ a: z.number() }),
      execute: ({ a }) => `${a + 1}`,
    })
    const agent = new Agent({ name: 'A', model: new ObservedModel(model, { observe }), tools: [add] })
    const result = await new Runner({ tracingDisabled: true }).run(agent, 'add one to 1')

    expect(result.finalOutput).toBe('It is 2.')
    for (const call of calls) expectLegalSequence(call.events)
    expect(calls).toHaveLength(2)
  })
})

describe('AI SDK stream parts', () => {
  test('reasoning and arguments are streamed, blocks with nothing but a signature kept', async () => {
    const parts = [
      raw({ type: 'stream-start', warnings: [] }),
      raw({ type: 'reasoning-start', id: '0' }),
      raw({ type: 'reasoning-delta', id: '0', delta: 'Hm.' }),
      raw({ type: 'reasoning-start', id: '1', providerMetadata: { vendor: { redacted: 'x' } } }),
      raw({ type: 'text-start', id: '2' }),
      delta('Look', '2'),
      raw({ type: 'tool-input-start', id: 'c1', toolName: 'add' }),
      raw({ type: 'tool-input-delta', id: 'c1', delta: '{"a"' }),
      raw({ type: 'tool-input-delta', id: 'c1', delta: ':1}' }),
      raw({ type: 'tool-call', toolCallId: 'c1', toolName: 'add', input: '{"a":1}' }),
      delta('Done', '2'),
      raw({ type: 'finish', finishReason: { unified: 'tool-calls', raw: 'tool_use' } }),
    ]
    const output: AgentInputItem[] = [
      { type: 'reasoning', id: '0', content: [{ type: 'input_text', text: 'Hm.' }] },
      {
        type: 'reasoning',
        id: '1',
        content: [{ type: 'input_text', text: '' }],
        providerData: { vendor: { redacted: 'x' } },
      },
      message('Look', '2'),
      callOf('c1'),
      message('Done', '2'),
    ]
    const { call, response } = await ask(streaming(...parts, done(output)))

    expectLegalSequence(call.events)
    expect(call.response.output).toMatchObject([
      { type: 'reasoning', summary: [{ text: 'Hm.' }] },
      { type: 'reasoning', vendor: { redacted: 'x' } },
      { type: 'message', content: [{ text: 'Look' }] },
      { type: 'function_call', arguments: '{"a":1}' },
      { type: 'message', content: [{ text: 'Done' }] },
    ])
    expect(call.kinds.filter((kind) => kind === 'response.function_call_arguments.delta')).toHaveLength(2)
    expect(response.output.map((item) => item.id)).toEqual(call.response.output.map((item) => item.id))
  })

  test('an answer that was cut off is incomplete, and its broken call is not carried out', async () => {
    const parts = [
      delta('I will'),
      raw({ type: 'tool-input-start', id: 'c1', toolName: 'add' }),
      raw({ type: 'tool-input-delta', id: 'c1', delta: '{"a"' }),
      raw({ type: 'finish', finishReason: 'length' }),
    ]
    const broken = { ...callOf('c1'), arguments: '{"a"' } as AgentInputItem
    const { call, response } = await ask(streaming(...parts, done([message('I will'), broken])))

    expectLegalSequence(call.events)
    expect(call.response).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [{ type: 'message' }, { type: 'function_call', status: 'incomplete' }],
    })
    expect(response.output).toMatchObject([{ type: 'message' }])
  })

  test('nothing but reasoning before the limit is no answer', async () => {
    const parts = [
      raw({ type: 'reasoning-delta', id: '0', delta: 'Hm' }),
      raw({ type: 'finish', finishReason: 'length' }),
    ]
    const output: AgentInputItem[] = [{ type: 'reasoning', id: '0', content: [{ type: 'input_text', text: 'Hm' }] }]

    await expect(ask(streaming(...parts, done(output)))).rejects.toMatchObject({ code: 'response_incomplete' })
  })
})

describe('model classes of the SDK', () => {
  let provider: FakeProvider

  beforeEach(async () => {
    provider = await startFakeProvider()
  })

  afterEach(() => provider.close())

  async function vendorModel(useResponses: boolean): Promise<Model> {
    return new OpenAIProvider({ apiKey: 'key-1', baseURL: provider.baseUrl, useResponses }).getModel('m-1')
  }

  test('Responses events pass as they came', async () => {
    provider.script([[text('Hello there.'), toolCall('add', { a: 1 }), usage({ input: 5, cached: 2 })]])
    const { call, response } = await ask(await vendorModel(true))

    expectLegalSequence(call.events)
    expect(call.response).toMatchObject({
      model: 'm-1',
      usage: { input_tokens: 5, input_tokens_details: { cached_tokens: 2 } },
    })
    expect(response.output.map((item) => item.id)).toEqual(call.response.output.map((item) => item.id))
    expect(response.usage).toMatchObject({ inputTokens: 5 })
  })

  // The SDK throws here, and text and usage would be lost with it.
  test('an incomplete answer keeps its text and usage', async () => {
    provider.script([[incomplete('max_output_tokens', 'Once upon'), usage({ output: 2 })]])
    const { call, response } = await ask(await vendorModel(true))

    expect(call.kinds.at(-1)).toBe('response.incomplete')
    expect(response.output).toMatchObject([{ type: 'message', content: [{ text: 'Once upon' }] }])
    expect(response.usage).toMatchObject({ outputTokens: 2 })
  })

  test('a failed response has the code of its error', async () => {
    provider.script([[text('Half'), failed('rate_limit_exceeded')]])

    await expect(ask(await vendorModel(true))).rejects.toMatchObject({ code: 'upstream_rate_limited' })
  })

  test('a chat completions model is watched too', async () => {
    provider.script([[text('Hello there.'), toolCall('add', { a: 1 }), usage({ input: 5, cached: 2 })]])
    const { call, response } = await ask(await vendorModel(false))

    expectLegalSequence(call.events)
    expect(call.deltas('response.output_text.delta')).toBe('Hello there.')
    expect(call.response.usage).toMatchObject({ input_tokens: 5, input_tokens_details: { cached_tokens: 2 } })
    expect(response.output.map((item) => item.type)).toEqual(['message', 'function_call'])
  })

  test('an HTTP error has its code', async () => {
    provider.respond(() => status(401))

    await expect(ask(await vendorModel(true))).rejects.toMatchObject({ code: 'upstream_auth_failed', status: 401 })
  })

  test('a connection that breaks is upstream_invalid_response', async () => {
    provider.script([[text('Half an'), cut()]])

    await expect(ask(await vendorModel(true))).rejects.toMatchObject({ code: 'upstream_invalid_response' })
  })
})
