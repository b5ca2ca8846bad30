import { Agency, Agent, tool } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  codeInterpreter,
  failed,
  fileSearch,
  refusal,
  reasoning,
  text,
  textDeltas,
  toolCall,
  unknownEvent,
  unknownItem,
  usage,
} from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer } from '../support/test-server.ts'
import { aguiAgent, aguiBody, say, startAguiServer } from './agui.test-client.ts'

const STREAM = '/solo/get_response_stream'

const add = tool({
  name: 'add',
  description: 'Adds two numbers.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => String(a + b),
})

describe('routes in AG-UI mode', () => {
  test('404 get_response and cancel_response_stream; get_metadata stays', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })

    expect((await server.post('/solo/get_response', { message: 'hi' })).status).toBe(404)
    expect((await server.post('/solo/cancel_response_stream', { run_id: 'x' })).status).toBe(404)
    expect((await server.get('/solo/get_metadata')).body.metadata.agents).toEqual(['Solo'])
  })

  test('401 without the server token, before the body is read', async () => {
    const server = await startAguiServer({ agencies: soloAgency(), env: { APP_TOKEN: 'secret' } })
    server.provider.script([text('Hello')])

    expect((await server.post(STREAM, '{broken')).status).toBe(401)
    const agent = aguiAgent({ server, headers: { authorization: 'Bearer secret' } })
    expect((await say(agent, 'hi')).types.at(-1)).toBe('RUN_FINISHED')
  })

  test('the stream says what it is and must not be cached', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    server.provider.script([text('Hello')])

    const headers = { origin: 'http://localhost:3000' }
    const { response, text: body } = await (await server.stream(STREAM, aguiBody(), { headers })).all()

    expect(response.headers.get('content-type')).toBe('text/event-stream')
    expect(response.headers.get('cache-control')).toBe('no-cache')
    expect(response.headers.get('x-accel-buffering')).toBe('no')
    expect(response.headers.get('access-control-allow-origin')).toBe('http://localhost:3000')
    expect(body).not.toMatch(/event: (?:meta|messages|end)/)
  })
})

describe('POST /<agency>/agui', () => {
  test('speaks AG-UI beside the native routes of every server', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Hello')])

    const seen = await say(aguiAgent({ server, route: 'agui' }), 'hi')
    server.provider.script([text('Hello again')])
    const native = await server.post('/solo/get_response', { message: 'hi' })

    expect(seen.types).toMatchObject({ 0: 'RUN_STARTED', [seen.types.length - 1]: 'RUN_FINISHED' })
    expect(seen.messages.at(-1)).toMatchObject({ role: 'assistant', content: 'Hello' })
    expect(native.body.response).toBe('Hello again')
  })

  test('is there in AG-UI mode too', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    server.provider.script([text('Hello')])
    expect((await say(aguiAgent({ server, route: 'agui' }), 'hi')).types.at(-1)).toBe('RUN_FINISHED')
  })
})

describe('422 for a request body that is no run input', () => {
  test.each([
    { name: 'threadId', body: aguiBody({ threadId: undefined }), loc: ['body', 'threadId'], type: 'missing' },
    { name: 'run_id', body: aguiBody({ runId: undefined }), loc: ['body', 'runId'], type: 'missing' },
    { name: 'messages', body: aguiBody({ messages: undefined }), loc: ['body', 'messages'], type: 'missing' },
    {
      name: 'thread_id 5',
      body: { ...aguiBody(), threadId: undefined, thread_id: 5 },
      loc: ['body', 'threadId'],
      type: 'string_type',
    },
    { name: 'a list of tools that is none', body: aguiBody({ tools: 'x' }), loc: ['body', 'tools'], type: 'list_type' },
    {
      name: 'a role that does not exist',
      body: aguiBody({ messages: [{ id: '1', role: 'robot', content: 'x' }] }),
      loc: ['body', 'messages', 0, 'role'],
      type: 'union_error',
    },
    {
      name: 'a user message without content',
      body: aguiBody({ messages: [{ id: '1', role: 'user' }] }),
      loc: ['body', 'messages', 0, 'content'],
      type: 'missing',
    },
    {
      name: 'chat_history of strings',
      body: aguiBody({ chat_history: ['x'] }),
      loc: ['body', 'chat_history', 0],
      type: 'dict_type',
    },
  ])('$name', async ({ body, loc, type }) => {
    const server = await startAguiServer({ agencies: soloAgency() })

    const answer = await server.post(STREAM, body)

    expect(answer.status).toBe(422)
    expect(answer.body.detail[0]).toMatchObject({ loc, type })
    expect(answer.body.error).toEqual(expect.any(String))
    expect(server.provider.modelRequests).toHaveLength(0)
  })

  test('a body that is not an object', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    const answer = await server.post(STREAM, '[]')
    expect(answer.status).toBe(422)
    expect(answer.body.detail[0].loc).toEqual(['body'])
  })
})

describe('what the agent is asked', () => {
  const user = (id: string, content: unknown): object => ({ id, role: 'user', content })

  async function inputFor(fields: Record<string, unknown>): Promise<Json[]> {
    const server = await startAguiServer({ agencies: soloAgency() })
    server.provider.script([text('ok')])
    const stream = await (await server.stream(STREAM, aguiBody(fields))).all()
    expect(stream.text).toContain('"type":"RUN_FINISHED"')
    return server.provider.modelRequests[0]!.body['input'] as Json[]
  }

  test('only messages: the last one, once, after the others', async () => {
    const input = await inputFor({
      messages: [user('u1', 'one'), { id: 'a1', role: 'assistant', content: 'two' }, user('u2', 'three')],
    })
    expect(input.map(({ role, content }) => [role, textOf(content)])).toEqual([
      ['user', 'one'],
      ['assistant', 'two'],
      ['user', 'three'],
    ])
  })

  test('only chat_history: its last entry, after the others', async () => {
    const input = await inputFor({
      messages: [],
      chat_history: [
        { role: 'user', content: 'one' },
        { role: 'assistant', content: 'two' },
        { role: 'user', content: 'three' },
      ],
    })
    expect(input.map(({ content }) => textOf(content))).toEqual(['one', 'two', 'three'])
  })

  test('both: chat_history as history, the last message as the question', async () => {
    const input = await inputFor({
      messages: [user('u1', 'not sent'), user('u2', 'now')],
      chat_history: [{ role: 'user', content: 'before' }],
    })
    expect(input.map(({ content }) => textOf(content))).toEqual(['before', 'now'])
  })

  test('snake_case keys mean the same', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    server.provider.script([text('ok')])
    const stream = await (
      await server.stream(STREAM, {
        thread_id: 't',
        run_id: 'r',
        parent_run_id: null,
        state: {},
        messages: [
          user('u1', 'one'),
          {
            id: 'a1',
            role: 'assistant',
            content: null,
            tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'add', arguments: '{}' } }],
          },
          { id: 't1', role: 'tool', tool_call_id: 'call_1', content: '3' },
          user('u2', [{ type: 'image', source: { type: 'data', value: 'QUJD', mime_type: 'image/png' } }]),
        ],
        tools: [],
        context: [],
        forwarded_props: {},
      })
    ).all()

    expect(JSON.parse(stream.frames[0]!.data)).toMatchObject({ type: 'RUN_STARTED', threadId: 't', runId: 'r' })
    const input = server.provider.modelRequests[0]!.body['input'] as Json[]
    expect(input.slice(1)).toMatchObject([
      { type: 'function_call', call_id: 'call_1', name: 'add' },
      { type: 'function_call_output', call_id: 'call_1', output: '3' },
      { role: 'user', content: [{ type: 'input_image', image_url: 'data:image/png;base64,QUJD', detail: 'auto' }] },
    ])
  })

  test('a minimal request of AG-UI 1.0 is one: threadId, runId and messages', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    server.provider.script([text('ok')])
    const stream = await (
      await server.stream(STREAM, { threadId: 't', runId: 'r', messages: [user('u1', 'hi')] })
    ).all()
    expect(stream.text).toContain('RUN_FINISHED')
  })

  test('a run that belongs to another one says so; what only the plain interface knows is not looked at', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    server.provider.script([text('Hello')])
    const more = { parentRunId: 'run-0', recipient_agent: 'Nobody', generate_chat_name: true, resume: [] }

    const stream = await (await server.stream(STREAM, aguiBody(more))).all()

    expect(JSON.parse(stream.frames[0]!.data)).toMatchObject({ type: 'RUN_STARTED', parentRunId: 'run-0' })
    expect(stream.text).not.toContain('chat_name')
    expect(server.provider.modelRequests).toHaveLength(1)
  })

  test('a conversation that ends with a result of a tool is continued from there', async () => {
    const input = await inputFor({
      messages: [
        user('u1', 'add'),
        {
          id: 'a1',
          role: 'assistant',
          toolCalls: [{ id: 'call_1', type: 'function', function: { name: 'add', arguments: '{}' } }],
        },
        { id: 't1', role: 'tool', toolCallId: 'call_1', content: '3' },
      ],
    })
    expect(input.map(({ type, role }) => type ?? role)).toEqual(['message', 'function_call', 'function_call_output'])
  })

  test('a result of a call that nobody has made is refused before any model is asked', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    const messages = [user('1', 'hi'), { id: '2', role: 'tool', toolCallId: 'x', content: 'y' }]

    const { text: body } = await (await server.stream(STREAM, aguiBody({ messages }))).all()

    expect(body).toContain('"code":"invalid_input"')
    expect(body).toContain('toolCallId')
    expect(server.provider.modelRequests).toHaveLength(0)
  })

  test('instructions, user context and client config reach the run', async () => {
    const seen: unknown[] = []
    const peek = tool({
      name: 'peek',
      description: 'Looks at the context.',
      parameters: z.object({}),
      execute: (_, { userContext }) => void seen.push(userContext['plan']),
    })
    const server = await startAguiServer({ agencies: soloAgency({ tools: [peek] }) })
    server.provider.script([toolCall('peek'), text('ok')])

    await (
      await server.stream(
        STREAM,
        aguiBody({
          additional_instructions: 'Answer in French.',
          userContext: { plan: 'gold' },
          client_config: { model: 'gpt-other' },
          state: { secretState: 1 },
        }),
      )
    ).all()

    const { body } = server.provider.modelRequests[0]!
    expect(seen).toEqual(['gold'])
    expect(body['instructions']).toContain('Answer in French.')
    expect(body['model']).toBe('gpt-other')
    expect(JSON.stringify(body)).not.toContain('secretState')
  })

  test.each([
    { name: 'a part without its source', fields: { messages: [user('u1', [{ type: 'image' }])] } },
    { name: 'neither messages nor history', fields: { messages: [] } },
    { name: 'an empty message', fields: { messages: [user('u1', '')] } },
    { name: 'nothing but a part that cannot be used', fields: { messages: [user('u1', [{ type: 'hologram' }])] } },
    {
      name: 'a binary part with nothing in it',
      fields: { messages: [user('u1', [{ type: 'binary', mimeType: 'image/png' }])] },
    },
  ])('$name: RUN_STARTED, RUN_ERROR and nothing after', async ({ fields }) => {
    const server = await startAguiServer({ agencies: soloAgency() })

    const stream = await (await server.stream(STREAM, aguiBody(fields))).all()

    expect(stream.response.status).toBe(200)
    expect(stream.frames.map(({ data }) => JSON.parse(data).type)).toEqual(['RUN_STARTED', 'RUN_ERROR'])
    expect(server.provider.modelRequests).toHaveLength(0)
  })
})

describe('what the official client sees', () => {
  test('a plain answer: text events, a snapshot, the outcome and what was spent', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    server.provider.script([[text('Hello there'), usage({ input: 30, cached: 10, output: 5 })]])

    const { events, types, messages, result, warnings } = await say(aguiAgent({ server }), 'hi')

    expect(types.filter((type) => type !== 'RAW')).toEqual([
      'RUN_STARTED',
      'TEXT_MESSAGE_START',
      'TEXT_MESSAGE_CONTENT',
      'TEXT_MESSAGE_CONTENT',
      'TEXT_MESSAGE_END',
      'MESSAGES_SNAPSHOT',
      'RUN_FINISHED',
    ])
    expect(events[0]).toMatchObject({ threadId: 'thread-1', runId: expect.any(String), protocolVersion: '1.0' })
    expect(messages.map(({ role, content }) => [role, content])).toEqual([
      ['user', 'hi'],
      ['assistant', 'Hello there'],
    ])
    expect(result).toBe('Hello there')
    expect(events.at(-1)).toMatchObject({
      outcome: { type: 'success' },
      usage: [{ model: 'gpt-test', inputTokens: 30, cachedInputTokens: 10, outputTokens: 5 }],
    })
    expect(warnings).toEqual([])
  })

  test('a tool call: start, arguments, end, a snapshot; then its result and a snapshot', async () => {
    const server = await startAguiServer({ agencies: soloAgency({ tools: [add] }) })
    server.provider.script([toolCall('add', { a: 1, b: 2 }, { callId: 'call_7' }), text('It is 3.')])

    const { events, types, messages } = await say(aguiAgent({ server }), 'add')

    expect(types.filter((type) => type !== 'RAW' && !type.startsWith('TEXT'))).toEqual([
      'RUN_STARTED',
      'TOOL_CALL_START',
      ...types.filter((type) => type === 'TOOL_CALL_ARGS'),
      'TOOL_CALL_END',
      'MESSAGES_SNAPSHOT',
      'TOOL_CALL_RESULT',
      'MESSAGES_SNAPSHOT',
      'MESSAGES_SNAPSHOT',
      'RUN_FINISHED',
    ])
    expect(events.find(({ type }) => type === 'TOOL_CALL_START')).toMatchObject({
      toolCallId: 'call_7',
      toolCallName: 'add',
    })
    const args = events.filter(({ type }) => type === 'TOOL_CALL_ARGS').map(({ delta }) => delta)
    expect(args.length).toBeGreaterThan(1)
    expect(JSON.parse(args.join(''))).toEqual({ a: 1, b: 2 })
    const snapshots = events.filter(({ type }) => type === 'MESSAGES_SNAPSHOT').map((event) => event.messages.length)
    expect(snapshots).toEqual([2, 3, 4])
    expect(messages).toMatchObject([
      { role: 'user' },
      { role: 'assistant', toolCalls: [{ id: 'call_7', function: { name: 'add', arguments: '{"a":1,"b":2}' } }] },
      { role: 'tool', id: 'call_7', toolCallId: 'call_7', content: '3' },
      { role: 'assistant', content: 'It is 3.' },
    ])
  })

  test('the next turn goes on from the conversation that the client holds', async () => {
    const server = await startAguiServer({ agencies: soloAgency({ tools: [add] }) })
    const agent = aguiAgent({ server })
    server.provider.script([toolCall('add', { a: 1, b: 2 }), text('It is 3.'), text('You are welcome.')])

    await say(agent, 'add')
    const { messages } = await say(agent, 'thanks')

    expect(server.provider.rejected).toEqual([])
    const input = server.provider.modelRequests[2]!.body['input'] as Json[]
    expect(input.map(({ type, role }) => role ?? type)).toEqual([
      'user',
      'function_call',
      'function_call_output',
      'assistant',
      'user',
    ])
    expect(messages).toHaveLength(6)
  })

  test('reasoning: a span with one message per part of the summary', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    const agent = aguiAgent({ server })
    server.provider.script([[reasoning({ summary: ['First.', 'Second.'] }), text('Done.')], text('Again.')])

    const { types, messages } = await say(agent, 'think')

    expect(types.filter((type) => /REASONING_(?:START|END|MESSAGE_START|MESSAGE_END)/.test(type))).toEqual([
      'REASONING_START',
      'REASONING_MESSAGE_START',
      'REASONING_MESSAGE_END',
      'REASONING_MESSAGE_START',
      'REASONING_MESSAGE_END',
      'REASONING_END',
    ])
    expect(messages.filter(({ role }) => role === 'reasoning').map(({ content }) => content)).toEqual([
      'First.',
      'Second.',
    ])
    await say(agent, 'again')
    expect(server.provider.rejected).toEqual([])
  })

  test('a refusal is the text of the message', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    server.provider.script([refusal('I cannot do that.')])
    const { messages } = await say(aguiAgent({ server }), 'bad idea')
    expect(messages.at(-1)).toMatchObject({ role: 'assistant', content: 'I cannot do that.' })
  })

  test('hosted tools: calls with the names that clients know, answered by the provider', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    const agent = aguiAgent({ server })
    const found = [{ file_id: 'file-1', filename: 'a.txt', score: 1, text: 'x' }]
    server.provider.script([
      [
        reasoning({ summary: ['Looking.'] }),
        fileSearch(['needle'], found),
        codeInterpreter('print(1)', [{ type: 'logs', logs: '1' }]),
        text('Done.'),
      ],
      text('And more.'),
    ])

    const { events, messages } = await say(agent, 'search')

    expect(events.filter(({ type }) => type === 'TOOL_CALL_START').map((event) => event.toolCallName)).toEqual([
      'FileSearchTool',
      'CodeInterpreterTool',
    ])
    expect(events.filter(({ type }) => type === 'TOOL_CALL_ARGS').map(({ delta }) => delta)).toEqual(['print(1)'])
    const calls = messages.flatMap((message) => (message.role === 'assistant' ? (message.toolCalls ?? []) : []))
    expect(JSON.parse(calls[0]!.function.arguments)).toMatchObject({ queries: ['needle'] })
    expect(JSON.parse(calls[1]!.function.arguments)).toMatchObject({ code: 'print(1)', container_id: 'cntr_1' })
    expect(messages.filter(({ role }) => role === 'tool').at(-1)).toMatchObject({ content: '1' })

    await say(agent, 'more')
    expect(server.provider.rejected).toEqual([])
    const input = server.provider.modelRequests[1]!.body['input'] as Json[]
    expect(input.map(({ type, role }) => role ?? type)).toEqual([
      'user',
      'file_search_call',
      'code_interpreter_call',
      'assistant',
      'user',
    ])
  })

  test.each([
    ['entries that are no outputs', [null, 'x', { logs: 1 }, { type: 'logs', logs: '1' }], '1'],
    ['something else than a list', {}, ''],
  ])('hosted tools: a provider that sends %s ends no run', async (_what, outputs, result) => {
    const server = await startAguiServer({ agencies: soloAgency() })
    server.provider.script([[codeInterpreter('print(1)', outputs as []), text('Done.')]])

    const { messages } = await say(aguiAgent({ server }), 'search')

    expect(messages.filter(({ role }) => role === 'tool').at(-1)).toMatchObject({ content: result })
    expect(messages.at(-1)).toMatchObject({ role: 'assistant', content: 'Done.' })
  })

  test('hosted tools: a call whose arguments are nested too deep is left out of the history', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    server.provider.script([text('Done.')])
    const nested = `{"container_id":"c","outputs":[${'['.repeat(100_000)}${']'.repeat(100_000)}]}`
    const call = { id: 'c1', type: 'function', function: { name: 'CodeInterpreterTool', arguments: nested } }
    const messages = [
      { id: '1', role: 'assistant', toolCalls: [call] },
      { id: '2', role: 'tool', toolCallId: 'c1', content: 'x' },
      { id: '3', role: 'user', content: 'Go on.' },
    ]

    const { frames } = await (await server.stream(STREAM, aguiBody({ messages }))).all()

    expect(JSON.parse(frames.at(-1)!.data)).toMatchObject({ type: 'RUN_FINISHED', result: 'Done.' })
    expect(server.provider.modelRequests[0]!.items).toMatchObject([{ role: 'user' }])
  })

  test('parts and deltas that are none are left out of texts', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    server.provider.script([
      [
        unknownItem({ type: 'reasoning', summary: [null, { type: 'summary_text', text: 'Hm.' }] }),
        unknownEvent({ type: 'response.output_text.delta', item_id: 'msg_1', delta: ['x'] }),
        unknownItem({ type: 'message', role: 'assistant', content: [null, { type: 'output_text', text: 'Hi.' }] }),
      ],
    ])

    const { messages } = await say(aguiAgent({ server }), 'Hello')

    expect(messages.slice(1)).toMatchObject([
      { role: 'reasoning', content: 'Hm.' },
      { role: 'assistant', content: 'Hi.' },
    ])
  })

  test('annotations come as a custom event before the snapshot', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    const annotation = { type: 'file_citation', file_id: 'file-1', filename: 'a.txt', index: 3 }
    server.provider.script([text('See a.txt', { annotations: [annotation] })])

    const { events, types } = await say(aguiAgent({ server }), 'cite')

    const at = types.indexOf('CUSTOM')
    expect(types[at + 1]).toBe('MESSAGES_SNAPSHOT')
    expect(events[at]).toMatchObject({
      name: 'annotated_output',
      value: { role: 'assistant', content: 'See a.txt', annotations: [annotation] },
    })
  })

  test('everything else comes as RAW, without prompts, schemas or settings', async () => {
    const server = await startAguiServer({ agencies: soloAgency({ tools: [add] }) })
    server.provider.script([toolCall('add', { a: 1, b: 2 }), text('3')])

    const { events } = await say(aguiAgent({ server }), 'add')

    const raw = events.filter(({ type }) => type === 'RAW').map(({ event }) => event)
    const kinds = new Set(raw.map((event) => event.data?.type ?? event.name ?? event.type))
    expect(kinds).toEqual(
      new Set([
        'agent_updated_stream_event',
        'response.created',
        'response.in_progress',
        'response.function_call_arguments.done',
        'response.completed',
        'tool_called',
        'response.content_part.added',
        'response.output_text.done',
        'response.content_part.done',
      ]),
    )
    expect(raw[0]).toMatchObject({ new_agent: { name: 'Solo' }, agent: 'Solo', callerAgent: null })
    expect(JSON.stringify(raw)).not.toMatch(/secret instructions|sk-server|"parameters"|"instructions"/)
  })

  test('empty deltas of a provider are left out', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    server.provider.script([textDeltas(['', 'Hi', '', '!'])])

    const { events } = await say(aguiAgent({ server }), 'hi')

    expect(events.filter(({ type }) => type === 'TEXT_MESSAGE_CONTENT').map(({ delta }) => delta)).toEqual(['Hi', '!'])
  })

  test('a handoff: the transfer call is answered, and the next agent speaks', async () => {
    const billing = new Agent({ name: 'Billing', instructions: 'Bills.', model: 'gpt-test' })
    const desk = new Agent({ name: 'Desk', instructions: 'Desk.', model: 'gpt-test' })
    const agency = new Agency({ entryPoint: desk, flows: [[desk, billing, 'handoff']] })
    const server = await startAguiServer({ agencies: { solo: agency } })
    server.provider.script([toolCall('transfer_to_Billing'), text('Billing here.'), text('Yes?')])
    const agent = aguiAgent({ server })

    const { events, messages } = await say(agent, 'bill')

    expect(events.filter(({ type }) => type === 'TOOL_CALL_RESULT')).toMatchObject([
      { content: '{"assistant":"Billing"}' },
    ])
    expect(events.filter(({ event }) => event?.name === 'handoff_occured')).toHaveLength(1)
    expect(messages.at(-1)).toMatchObject({ role: 'assistant', content: 'Billing here.' })
    await say(agent, 'hello?')
    expect(server.provider.rejected).toEqual([])
  })

  test('after a handoff, the agent who has answered goes on with the next message, until it hands over itself', async () => {
    const agents = ['Desk', 'Billing', 'Refunds'].map(
      (name) => new Agent({ name, instructions: name, model: 'gpt-test' }),
    )
    const [desk, billing, refunds] = agents as [Agent, Agent, Agent]
    const flows = [[desk, billing, 'handoff'] as const, [billing, refunds, 'handoff'] as const]
    const server = await startAguiServer({ agencies: { solo: new Agency({ entryPoint: desk, flows }) } })
    server.provider.script([text('Hello.'), toolCall('transfer_to_Billing'), text('Hello.'), text('Hello.')])
    server.provider.script([toolCall('transfer_to_Refunds'), text('Hello.'), text('Hello.')])
    const agent = aguiAgent({ server })

    for (const message of ['hi', 'my bill', 'hi', 'a refund', 'hi']) await say(agent, message)

    const asked = server.provider.modelRequests.map(({ body }) => body['instructions'])
    expect(asked).toEqual(['Desk', 'Desk', 'Billing', 'Billing', 'Billing', 'Refunds', 'Refunds'])
    expect(server.provider.rejected).toEqual([])
  })

  test('an agent that another one asks is a subagent with messages of its own', async () => {
    const worker = new Agent({ name: 'Worker', instructions: 'Work.', model: 'gpt-test' })
    const boss = new Agent({ name: 'Boss', instructions: 'Lead.', model: 'gpt-test' })
    const server = await startAguiServer({
      agencies: { solo: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) },
    })
    const ask = { recipient_agent: 'Worker', message: 'Do it.', additional_instructions: '' }
    server.provider.script([
      toolCall('send_message', ask, { callId: 'call_ask' }),
      text('Worked.'),
      text('All done.'),
      text('Fine.'),
    ])
    const agent = aguiAgent({ server })

    const { events, types, messages } = await say(agent, 'go')

    const started = events.find(({ type }) => type === 'SUBAGENT_STARTED')
    expect(started).toMatchObject({ name: 'Worker', parentToolCallId: 'call_ask' })
    expect(types.indexOf('SUBAGENT_FINISHED')).toBeLessThan(types.indexOf('TOOL_CALL_RESULT'))
    expect(messages.filter(({ role }) => role === 'assistant' || role === 'tool')).toMatchObject([
      { toolCalls: [{ id: 'call_ask' }] },
      { role: 'tool', content: 'Worked.' },
      { role: 'assistant', content: 'Worked.', subagentRunId: started.subagentRunId },
      { content: 'All done.' },
    ])
    await say(agent, 'thanks')
    expect(server.provider.rejected).toEqual([])
    const input = server.provider.modelRequests[3]!.body['input'] as Json[]
    expect(input.filter(({ role }) => role === 'assistant').map(({ content }) => textOf(content))).toEqual([
      'All done.',
    ])
  })

  test('a failing subagent is an error of its own; the run goes on', async () => {
    const worker = new Agent({ name: 'Worker', instructions: 'Work.', model: 'gpt-test' })
    const boss = new Agent({ name: 'Boss', instructions: 'Lead.', model: 'gpt-test' })
    const server = await startAguiServer({
      agencies: { solo: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) },
    })
    const ask = { recipient_agent: 'Worker', message: 'Do it.', additional_instructions: '' }
    server.provider.script([
      toolCall('send_message', ask),
      [text('Half a'), failed('server_error', 'sk-secret broke')],
      text('Sorry.'),
    ])

    const { events, types, messages } = await say(aguiAgent({ server }), 'go')

    expect(types).toContain('SUBAGENT_ERROR')
    expect(types).not.toContain('SUBAGENT_FINISHED')
    expect(types.at(-1)).toBe('RUN_FINISHED')
    expect(JSON.stringify(events)).not.toContain('sk-secret')
    expect(messages.at(-1)).toMatchObject({ content: 'Sorry.' })
  })

  test('clients from before 1.0 get no events that they cannot read', async () => {
    const worker = new Agent({ name: 'Worker', instructions: 'Work.', model: 'gpt-test' })
    const boss = new Agent({ name: 'Boss', instructions: 'Lead.', model: 'gpt-test' })
    const server = await startAguiServer({
      agencies: { solo: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) },
    })
    const ask = { recipient_agent: 'Worker', message: 'Do it.', additional_instructions: '' }
    server.provider.script([toolCall('send_message', ask), text('Worked.'), text('All done.')])

    const stream = await (await server.stream(STREAM, aguiBody())).all()

    expect(stream.text).not.toContain('"SUBAGENT_')
    expect(stream.text).toContain('"delta":"Worked."')
  })

  test('an input guardrail that answers is a message like any other', async () => {
    const guardrail = {
      name: 'polite',
      execute: async () => ({ tripwireTriggered: true, outputInfo: 'Please be polite.' }),
    }
    const server = await startAguiServer({ agencies: soloAgency({ inputGuardrails: [guardrail] }) })

    const { types, messages } = await say(aguiAgent({ server }), 'grr')

    expect(types.filter((type) => type !== 'RAW')).toEqual([
      'RUN_STARTED',
      'TEXT_MESSAGE_START',
      'TEXT_MESSAGE_CONTENT',
      'TEXT_MESSAGE_END',
      'MESSAGES_SNAPSHOT',
      'RUN_FINISHED',
    ])
    expect(messages.at(-1)).toMatchObject({ content: 'Please be polite.' })
    expect(server.provider.modelRequests).toHaveLength(0)
  })

  test('ids that a model server uses again name different messages', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    const agent = aguiAgent({ server, messages: [{ id: 'call_1', role: 'user', content: 'earlier' }] })
    server.provider.script([[toolCall('nothing', {}, { callId: 'call_1' })], text('Well.')])

    const { events, messages } = await say(agent, 'go')

    expect(events.find(({ type }) => type === 'TOOL_CALL_START')).toMatchObject({ toolCallId: 'call_1_2' })
    expect(new Set(messages.map(({ id }) => id)).size).toBe(messages.length)
    expect(messages[0]).toMatchObject({ content: 'earlier' })
  })

  test('a snapshot that would be very long is left out, and the client has everything all the same', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    server.provider.script([text('Seen.')])
    const data = Buffer.alloc(900_000, 7).toString('base64')
    const image = { type: 'image', source: { type: 'data', value: data, mimeType: 'image/png' } } as const
    const agent = aguiAgent({ server, messages: [{ id: 'u1', role: 'user', content: [image] }] })

    const { types, messages } = await say(agent, null)

    expect(types).not.toContain('MESSAGES_SNAPSHOT')
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant'])
  })
})

describe('how a run ends', () => {
  test('a model that fails: RUN_ERROR with a public sentence, nothing after, half a message taken back', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    server.provider.script([[text('Half a'), failed('server_error', 'sk-secret in /srv/app.js:10')]])

    const stream = await (await server.stream(STREAM, aguiBody())).all()
    const events = stream.frames.map(({ data }) => JSON.parse(data))
    const types = events.map(({ type }) => type)

    expect(types.at(-1)).toBe('RUN_ERROR')
    expect(types).not.toContain('RUN_FINISHED')
    expect(events.at(-1)).toMatchObject({ code: 'upstream_unavailable', message: expect.stringContaining('provider') })
    expect(stream.text).not.toMatch(/sk-secret|app\.js/)
    expect(events.filter(({ type }) => type === 'RAW').map(({ event }) => event.type)).toContain('error')
  })

  test('the official client reports the error, and the conversation is as before the run', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    server.provider.script([[textDeltas(['Half a']), failed('server_error')]])
    const agent = aguiAgent({ server })

    const { types, messages } = await say(agent, 'hi')

    expect(types.at(-1)).toBe('RUN_ERROR')
    expect(messages.map(({ role }) => role)).not.toContain('tool')
  })

  test('a failing tool is a result that the model sees', async () => {
    const broken = tool({
      name: 'broken',
      description: 'Fails.',
      parameters: z.object({}),
      execute: () => {
        throw new Error('secret path /etc')
      },
    })
    const server = await startAguiServer({ agencies: soloAgency({ tools: [broken] }) })
    server.provider.script([toolCall('broken'), text('It failed.')])
    const { types } = await say(aguiAgent({ server }), 'go')
    expect(types).toContain('TOOL_CALL_RESULT')
    expect(types.at(-1)).toBe('RUN_FINISHED')
  })

  test('a client that hangs up cancels the run at once', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['One', { part: 'hold', gate, before: null }, ' two'])])
    const agent = aguiAgent({ server, messages: [{ id: 'u1', role: 'user', content: 'hi' }] })

    const running = agent.runAgent({}, { onTextMessageContentEvent: () => agent.abortRun() })
    await server.provider.waitForAborts(1)
    await running
    gate.release()
    expect(server.provider.aborted).toBe(1)
  })
})

function textOf(content: Json): string {
  return typeof content === 'string' ? content : content.map((part: Json) => part.text).join('')
}
