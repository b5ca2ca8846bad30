import { type ModelSettings, tool } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  completed,
  cut,
  errorEvent,
  failed,
  framing,
  Gate,
  hold,
  htmlPage,
  incomplete,
  malformed,
  raw,
  refusal,
  stall,
  status,
  text,
  textDeltas,
  toolCall,
  type Turn,
  unknownEvent,
  unknownItem,
  usage,
} from '../support/fake-provider.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'

const SECRET = 'sk-leaked-key in org-1234 at /srv/app/index.ts:5'

/** A stream of just these frames. */
const framesOf = (...data: string[]): Turn =>
  status(200, data.map((each) => `data: ${each}\n\n`).join(''), { 'content-type': 'text/event-stream' })
const frames = (...data: unknown[]): Turn => framesOf(...data.map((each) => JSON.stringify(each)))
const response = (more: object): object => ({ type: 'response.completed', response: { id: 'resp_1', ...more } })

const event = (more: object): Turn => raw(`data: ${JSON.stringify(more)}\n\n`)

/** Deeper than anything that JSON is made of can be written. */
const NESTED = '['.repeat(20_000) + ']'.repeat(20_000)
const nestedItem = `{"type":"code_interpreter_call","id":"ci_1","status":"completed","outputs":[${NESTED}]}`

/** What the provider does, the error's code, and how many requests that takes. */
const FAULTS: [string, Turn, string, number][] = [
  ['401', status(401, { error: { message: SECRET } }), 'upstream_auth_failed', 1],
  [
    '429 with a long wait',
    status(429, { error: { message: SECRET } }, { 'retry-after': '3600' }),
    'upstream_rate_limited',
    1,
  ],
  [
    'an account without quota',
    status(429, { error: { message: SECRET, code: 'insufficient_quota' } }),
    'upstream_quota_exhausted',
    1,
  ],
  ['429', status(429, { error: { message: SECRET } }, { 'retry-after': '0' }), 'upstream_rate_limited', 3],
  ['500', status(500, { error: { message: SECRET } }, { 'retry-after': '0' }), 'upstream_unavailable', 3],
  ['400', status(400, { error: { message: SECRET } }), 'upstream_invalid_request', 1],
  ['404', status(404, { error: { message: SECRET, code: 'model_not_found' } }), 'upstream_invalid_request', 1],
  ['an HTML page', htmlPage(), 'upstream_invalid_response', 1],
  ['data that is no JSON', [text('Hi'), malformed()], 'upstream_invalid_response', 1],
  [
    'a reset in the middle',
    [textDeltas(['Ha', 'lf']), cut({ how: 'reset', after: 5 })],
    'upstream_invalid_response',
    1,
  ],
  [
    'a stream that ends too early',
    [textDeltas(['Ha', 'lf']), cut({ how: 'end', after: 5 })],
    'upstream_invalid_response',
    1,
  ],
  ['a failed response', [textDeltas(['Half']), failed('server_error', SECRET)], 'upstream_unavailable', 1],
  ['an error event', [textDeltas(['Half']), errorEvent('rate_limit_exceeded', SECRET)], 'upstream_rate_limited', 1],
  ['a bare error', frames({ error: { message: SECRET } }), 'upstream_invalid_response', 1],
  ['a bare error with a status', frames({ error: { message: SECRET, code: '429' } }), 'upstream_rate_limited', 1],
  ['a bare error that is a text', frames({ error: SECRET }), 'upstream_invalid_response', 1],
  ['a frame of no kind', frames({ detail: SECRET }), 'upstream_invalid_response', 1],
  [
    'an item that is nested too deep',
    framesOf(`{"type":"response.output_item.done","output_index":0,"item":${nestedItem}}`),
    'upstream_invalid_response',
    1,
  ],
  [
    'a response that is nested too deep',
    framesOf(`{"type":"response.completed","response":{"id":"resp_1","output":[${nestedItem}]}}`),
    'upstream_invalid_response',
    1,
  ],
  [
    'a beginning that is nested too deep',
    framesOf(`{"type":"response.created","response":{"id":"resp_1","usage":${NESTED}}}`),
    'upstream_invalid_response',
    1,
  ],
  [
    'a response beside which something is nested too deep',
    framesOf(`{"type":"response.completed","response":{"id":"resp_1","output":[]},"debug":${NESTED}}`),
    'upstream_invalid_response',
    1,
  ],
  [
    'a failure that is nested too deep',
    framesOf(`{"type":"response.failed","response":{"id":"resp_1","error":{"message":${NESTED}}}}`),
    'upstream_invalid_response',
    1,
  ],
  [
    'more items than any model says',
    frames(response({ output: Array.from({ length: 30_000 }, (_, n) => ({ type: 'reasoning', id: `rs_${n}` })) })),
    'upstream_invalid_response',
    1,
  ],
  [
    'more calls than any model makes',
    frames(
      ...Array.from({ length: 2_001 }, (_, n) => ({
        type: 'response.output_item.added',
        output_index: n,
        item: { type: 'function_call', call_id: `call_${n}`, name: 'x', arguments: '' },
      })),
    ),
    'upstream_invalid_response',
    1,
  ],
  ['items that are none', frames(response({ output: [null] })), 'upstream_invalid_response', 1],
  ['items of no kind', frames(response({ output: [{ type: 5 }] })), 'upstream_invalid_response', 1],
  [
    'an item of no kind',
    frames({ type: 'response.output_item.done', output_index: 0, item: { type: 5 } }),
    'upstream_invalid_response',
    1,
  ],
]

describe.each(FAULTS)('a provider that answers with %s', (_, turn, code, requests) => {
  test('the stream has a clear error, then messages and end, and leaks nothing', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => turn)

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    expect(stream.response.status).toBe(200)
    expect(stream.outline.slice(-3)).toEqual(['error', 'messages', 'end'])
    expect(stream.events.at(-1)).toMatchObject({ type: 'error', code, agent: 'Solo', callerAgent: null })
    expect(stream.events.at(-1).content).toMatch(/^The model|^The conversation/)
    expect(stream.result.new_messages[0].role).toBe('user')
    for (const item of stream.result.new_messages.slice(1)) expect(item.status).toBe('completed')
    expect(stream.result.usage).toMatchObject({ total_cost: expect.any(Number) })
    for (const part of SECRET.split(' ')) if (part.length > 3) expect(stream.text).not.toContain(part)
    expect(server.provider.modelRequests).toHaveLength(requests)
  })

  test('get_response is 500 with the same sentence', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => turn)

    const answer = await server.post('/solo/get_response', { message: 'hi' })

    expect(answer.status).toBe(500)
    expect(answer.body.error).toMatch(/^The model|^The conversation/)
    expect(answer.text).not.toContain('sk-leaked')
  })
})

test('a 404 says that the model or the address is wrong', async () => {
  const server = await startTestServer({ agencies: soloAgency() })
  server.provider.respond(() => status(404, { error: { message: SECRET, code: 'model_not_found' } }))

  const { body } = await server.post('/solo/get_response', { message: 'hi' })

  expect(body.error).toBe('The model provider does not know the model, or its address is wrong (HTTP 404).')
})

describe('modelSettings.retry', () => {
  const serve = (retry: ModelSettings['retry']) =>
    startTestServer({ agencies: soloAgency({ modelSettings: { retry } }) })
  const unavailable = status(500, {}, { 'retry-after': '0' })

  test('tries again after failures that may pass, and waits no longer than it may', async () => {
    const server = await serve({ maxRetries: 2, backoff: { initialDelayMs: 3_600_000, maxDelayMs: 1 } })
    const failures = Array.from({ length: 6 }, () => unavailable)
    server.provider.script([...failures, text('At last.'), ...failures, ...failures])

    const answered = await server.post('/solo/get_response', { message: 'hi' })
    const failed = await server.post('/solo/get_response', { message: 'hi' })

    expect(answered.body).toMatchObject({ response: 'At last.', usage: { request_count: 1 } })
    expect(failed.status).toBe(500)
    expect(server.provider.modelRequests).toHaveLength(7 + 9)
  })

  test.each<[string, Turn]>([
    ['that will not pass', status(400, {})],
    ['after a part of the answer was shown', [textDeltas(['Half']), errorEvent('rate_limit_exceeded', 'x')]],
  ])('does not try again after a failure %s', async (_, turn) => {
    const server = await serve({ maxRetries: 2, backoff: { initialDelayMs: 1 } })
    server.provider.respond(() => turn)

    await server.post('/solo/get_response', { message: 'hi' })

    expect(server.provider.modelRequests).toHaveLength(1)
  })

  test('a run that is cancelled while it waits ends', async () => {
    const server = await serve({ maxRetries: 1, backoff: { initialDelayMs: 3_600_000, maxDelayMs: 3_600_000 } })
    server.provider.respond(() => unavailable)
    const stream = await server.stream('/solo/get_response_stream', { message: 'hi' })
    await stream.until(({ event }) => event === 'meta')
    await expect.poll(() => server.provider.modelRequests.length).toBe(3)

    const { status: code } = await server.post('/solo/cancel_response_stream', { run_id: stream.runId })
    await stream.all()

    expect(code).toBe(200)
    expect(stream.result).toMatchObject({ cancelled: true })
    expect(server.provider.modelRequests).toHaveLength(3)
  })
})

test.each<[string, Turn]>([
  ['before it is answered', [hold(new Gate(), { before: 'headers' }), text('Late.')]],
  ['in the middle of its answer', [text('Half'), stall()]],
])('a request that takes longer than modelSettings.timeoutMs is given up %s, and counts', async (_, turn) => {
  const server = await startTestServer({ agencies: soloAgency({ modelSettings: { timeoutMs: 500 } }) })
  server.provider.respond(() => turn)

  const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

  expect(stream.events.at(-1)).toMatchObject({ type: 'error', code: 'upstream_timeout' })
  expect(stream.result).toMatchObject({ usage: { request_count: 1, estimated: true } })
})

test('a model that answers with a structure that is nested too deep fails the run, and says so', async () => {
  const outputType = { type: 'json_schema' as const, name: 'any', schema: { type: 'object' }, strict: false }
  const server = await startTestServer({ agencies: soloAgency({ outputType }) })
  server.provider.respond(() => text(`{"answer":${NESTED}}`))

  const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

  expect(stream.events.at(-1)).toMatchObject({ type: 'error', code: 'upstream_invalid_response' })
  expect(stream.outline.at(-1)).toBe('end')
})

test('a model that refuses the structure that it was asked for fails the run, and says so', async () => {
  const server = await startTestServer({ agencies: soloAgency({ outputType: z.object({ city: z.string() }) }) })
  server.provider.respond(() => refusal('I will not say.'))

  const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

  expect(stream.events.at(-1)).toMatchObject({ type: 'error', code: 'content_refused' })
})

describe('odd but valid answers', () => {
  test.each([
    ['CRLF line ends', framing({ newline: '\r\n' })],
    ['no event lines', framing({ eventLines: false })],
    ['no space after the colon', framing({ spaceAfterColon: false })],
    ['one write for everything', framing({ writes: 'joined' })],
    ['seven bytes a write', framing({ writes: { bytes: 7 } })],
  ])('are read: %s', async (_, how) => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([[how, text('Grüße, 世界 👋 — done')]])

    const answer = await server.post('/solo/get_response', { message: 'hi' })

    expect(answer.body.response).toBe('Grüße, 世界 👋 — done')
  })

  test('unknown events and items pass through', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const event = unknownEvent({ type: 'response.from_the_future', data: { a: 1 } })
    server.provider.script([[event, unknownItem({ type: 'future_item', value: 7 }), text('Hi')]])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    expect(stream.outline).toContain('from_the_future')
    expect(stream.result.new_messages[1]).toMatchObject({ type: 'future_item', value: 7 })
    expect(stream.outline.at(-1)).toBe('end')
  })

  test('more calls than any model makes, at chat_completions: the answer is not valid', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { OPENAI_API: 'chat_completions' } })
    const calls = Array.from({ length: 30_000 }, (_, n) => ({ index: n, id: `call_${n}`, function: { name: 'x' } }))
    server.provider.script([frames({ choices: [{ index: 0, delta: { tool_calls: calls } }] })])

    const { status: code, body } = await server.post('/solo/get_response', { message: 'hi' })

    expect([code, body.code]).toEqual([500, 'upstream_invalid_response'])
  })

  test.each([
    ['the name of a model that is none', { model: 5, usage: { input_tokens: 7, output_tokens: 2 } }],
    ['counts that are none', { usage: { input_tokens: 7, output_tokens: 'many', input_tokens_details: null } }],
  ])('%s: what can be counted is', async (_, more) => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([frames(response({ output: [], ...more }))])

    const { status: code, body } = await server.post('/solo/get_response', { message: 'hi' })

    expect([code, body.usage.request_count, body.usage.input_tokens]).toEqual([200, 1, 7])
  })

  describe.each(['responses', 'chat_completions'])('what follows on the last event changes nothing, at %s', (api) => {
    test.each<[string, Turn]>([
      ['a reset', cut({ how: 'reset' })],
      ['silence', stall()],
      ['another answer', event(response({ status: 'completed', output: [], usage: { input_tokens: 7_000 } }))],
      ['more of the answer', event({ type: 'response.output_text.delta', item_id: 'msg_1', delta: 'late' })],
      ['an error', event({ type: 'error', code: 'server_error', message: SECRET })],
      ['data that is no JSON', malformed()],
    ])('%s', async (_, turn) => {
      const server = await startTestServer({ agencies: soloAgency(), env: { OPENAI_API: api } })
      server.provider.script([[text('Hello.'), completed(), turn]])

      const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

      expect(stream.outline.slice(-4)).toEqual(['completed', 'message_output_created', 'messages', 'end'])
      expect(stream.result.new_messages.at(-1).content[0].text).toBe('Hello.')
      expect(stream.result.usage).toMatchObject({ request_count: 1, input_tokens: 20, output_tokens: 10 })
    })
  })

  test('a tool that does not exist is answered by an error text, and the run goes on', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([toolCall('no_such_tool', {}, { callId: 'call_x' }), text('Sorry')])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    expect(stream.result.new_messages.at(-1).content[0].text).toBe('Sorry')
    expect(
      stream.result.new_messages.some(
        (item: { call_id?: string; type: string }) => item.type === 'function_call_output',
      ),
    ).toBe(true)
  })

  test('a tool that throws is answered by an error text, and the run goes on', async () => {
    const broken = tool({
      name: 'broken',
      description: 'Fails.',
      parameters: z.object({}),
      execute: () => {
        throw new Error('boom')
      },
    })
    const server = await startTestServer({ agencies: soloAgency({ tools: [broken] }) })
    server.provider.script([toolCall('broken'), text('It failed')])

    const answer = await server.post('/solo/get_response', { message: 'hi' })

    expect(answer.body.response).toBe('It failed')
    expect(answer.body.new_messages[2].output).toMatch(/error.*boom/is)
  })

  test('arguments that come as an object are those of the call, as text to everybody', async () => {
    const echo = tool({
      name: 'echo',
      description: 'x',
      parameters: z.object({ x: z.string() }),
      needsApproval: true,
      execute: ({ x }) => x,
    })
    const server = await startTestServer({ agencies: soloAgency({ tools: [echo] }), provider: { validate: false } })
    const call = { type: 'function_call', id: 'fc_1', call_id: 'c', name: 'echo', arguments: { x: 'said' } }
    const asking = frames(
      { type: 'response.output_item.done', output_index: 0, item: call },
      response({ output: [call] }),
    )
    server.provider.script([asking, text('ok')])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()
    const { new_messages: chat_history, approvals } = stream.result
    const answer = await server.post('/solo/get_response', {
      chat_history,
      approvals: [{ call_id: 'c', token: approvals[0].token, approve: true }],
    })

    expect(stream.events.flatMap(({ data }) => data?.item?.arguments ?? [])).toEqual(['{"x":"said"}'])
    expect(chat_history[1].arguments).toBe('{"x":"said"}')
    expect(answer.body.new_messages[0].output).toBe('said')
  })

  test('a structured answer that was cut at the token limit says so', async () => {
    const agencies = soloAgency({ outputType: z.object({ city: z.string() }) })
    const server = await startTestServer({ agencies })
    server.provider.script([[incomplete('max_output_tokens', '{"city":"Par'), usage({ input: 7, output: 3 })]])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    expect(stream.events.at(-1)).toMatchObject({ type: 'error', code: 'response_incomplete' })
    expect(stream.result.usage).toMatchObject({ input_tokens: 7, output_tokens: 3 })
  })

  test('tokens that were spent before a failure are reported', async () => {
    const echo = tool({ name: 'echo', description: 'Echoes.', parameters: z.object({}), execute: () => 'x' })
    const server = await startTestServer({ agencies: soloAgency({ tools: [echo] }) })
    server.provider.script([[toolCall('echo'), usage({ input: 11, output: 5 })], status(401)])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    expect(stream.result.usage).toMatchObject({ request_count: 1, input_tokens: 11, output_tokens: 5 })
    expect(stream.result.new_messages).toHaveLength(3)
  })

  test('an agent that calls tools for ever is stopped with a clear error', async () => {
    const echo = tool({ name: 'echo', description: 'Echoes.', parameters: z.object({}), execute: () => 'x' })
    const server = await startTestServer({ agencies: soloAgency({ tools: [echo] }) })
    server.provider.respond(() => toolCall('echo'))

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    expect(stream.events.at(-1)).toMatchObject({ type: 'error', code: 'max_turns_exceeded' })
    expect(server.provider.modelRequests).toHaveLength(50)
  })
})

describe('an answer is there once, whatever ids its provider gives', () => {
  const call = { type: 'function_call', name: 'echo', arguments: '{}', status: 'completed' }
  const said = {
    type: 'message',
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text: 'Hi' }],
  }
  const thought = { type: 'reasoning', summary: [] }
  const done = (item: object, place: object): object => ({ type: 'response.output_item.done', ...place, item })
  const TWIN = { id: 'a', call_id: 'c' }

  /** The items as they are streamed, and as they stand in the finished response. */
  test.each<[string, (n: number) => object, (n: number) => object]>([
    ['other ids in the response', (n) => ({ id: `a${n}` }), (n) => ({ id: `b${n}` })],
    ['no ids at all', () => ({}), () => ({})],
    ['ids in the response only', () => ({}), (n) => ({ id: `b${n}` })],
    ['empty ids', () => ({ id: '' }), () => ({ id: '' })],
    ['the same ids', (n) => ({ id: `a${n}` }), (n) => ({ id: `a${n}` })],
    ['one id for all calls', (n) => ({ id: n < 2 ? 'a' : `b${n}` }), (n) => ({ id: n < 2 ? 'a' : `b${n}` })],
    ['one id and one call id', (n) => (n < 2 ? TWIN : { id: `b${n}` }), (n) => (n < 2 ? TWIN : { id: `b${n}` })],
  ])('%s', async (_, streamed, whole) => {
    const echo = tool({ name: 'echo', description: 'Echoes.', parameters: z.object({}), execute: () => 'x' })
    for (const hasPlaces of [true, false]) {
      const server = await startTestServer({ agencies: soloAgency({ tools: [echo] }), provider: { validate: false } })
      const place = (n: number): object => (hasPlaces ? { output_index: n } : {})
      const calls = [
        { ...call, call_id: 'call_a' },
        { ...call, call_id: 'call_b' },
      ]
      server.provider.script([
        frames(
          ...calls.map((item, n) => done({ ...item, ...streamed(n) }, place(n))),
          response({ output: calls.map((item, n) => ({ ...item, ...whole(n) })) }),
        ),
        frames(
          done({ ...thought, ...streamed(2) }, place(0)),
          done({ ...said, ...streamed(3) }, place(1)),
          // Some leave out what was thought.
          response({ output: [{ ...said, ...whole(3) }] }),
        ),
      ])

      const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

      const kinds = stream.result.new_messages.map(({ type, role }: { type: string; role: string }) => type ?? role)
      const outputs = ['function_call_output', 'function_call_output']
      expect(kinds.slice(1)).toEqual(['function_call', 'function_call', ...outputs, 'reasoning', 'message'])
      const events = stream.events.filter(({ name }) => name === 'tool_called' || name === 'message_output_created')
      expect(events).toHaveLength(3)
      expect(stream.result.usage).toMatchObject({ request_count: 2, estimated: true })
    }
  })
})

test.each(['responses', 'chat_completions'])('an event without an end is given up at 16 MiB, at %s', async (api) => {
  const server = await startTestServer({ agencies: soloAgency(), env: { OPENAI_API: api } })
  server.provider.script([raw(`data: {"delta":"${'x'.repeat(17 * 1_048_576)}`)])

  const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

  expect(stream.events.at(-1)).toMatchObject({ type: 'error', code: 'upstream_event_too_large' })
  expect(stream.text.length).toBeLessThan(10_000)
})

describe.each(['responses', 'chat_completions'])('half an answer at %s', (api) => {
  const half = { type: 'message', id: 'm', role: 'assistant', status: 'incomplete', content: [] }
  const reported = frames(
    { type: 'response.output_text.delta', item_id: 'm', output_index: 0, content_index: 0, delta: 'Half' },
    { type: 'response.failed', response: { id: 'resp_1', output: [half], error: { code: 'server_error' } } },
  )

  test.each<[string, Turn]>([
    ['a failure that is reported', api === 'responses' ? reported : [textDeltas(['Ha', 'lf']), failed('server_error')]],
    ['a connection that breaks', [textDeltas(['Ha', 'lf']), cut({ how: 'reset', after: 3 })]],
  ])('is seen but not kept: %s', async (_, turn) => {
    const server = await startTestServer({ agencies: soloAgency(), env: { OPENAI_API: api } })
    server.provider.script([turn])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    expect(stream.outline.slice(-3)).toEqual(['error', 'messages', 'end'])
    expect(stream.result.new_messages).toMatchObject([{ role: 'user' }])
    expect(stream.result.usage).toMatchObject({ request_count: 1, estimated: true })
    expect(stream.text).not.toContain('message_output_created')
  })
})
