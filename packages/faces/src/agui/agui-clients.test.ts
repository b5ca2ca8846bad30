import { Agency, Agent, tool } from '@bureau/framework'
import type { EventSource, RunEvent, WireItem } from '@bureau/protocol'
import fastify from 'fastify'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type Client, CLIENTS, result, run } from '../../../../tests/agui/client-versions.ts'
import { TEST_REDIS_URL, testRedisReachable } from '../../../../tests/support/test-redis.ts'
import {
  codeInterpreter,
  failed,
  fileSearch,
  hold,
  reasoning,
  text,
  textDeltas,
  toolCall,
} from '../../../../tests/support/fake-provider.ts'
import { temporaryFolder } from '../../../../tests/support/temporary-folder.ts'
import {
  closeAfterTest,
  type Json,
  soloAgency,
  startTestServer,
  type TestServer,
} from '../../../../tests/support/test-server.ts'
import { AguiRequest, readAguiRequest } from './read-request.ts'
import { startAguiServer } from '../../../../tests/agui/agui.test-client.ts'
import { aguiEncoder } from './encode.ts'

const add = tool({
  name: 'add',
  description: 'Adds.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => a + b,
})

const paint = { name: 'paint', description: 'Paints the page.', parameters: { type: 'object', properties: {} } }

const SOLO: EventSource = { agent: 'Solo', callerAgent: null, agent_run_id: 'run_solo' }
const ENDED = {
  type: 'run.ended',
  run_id: 'x',
  new_messages: [],
  usage: null,
  usage_by_model: [],
  output: null,
  error: null,
} as const

function created(name: 'tool_called' | 'tool_output', item: WireItem): RunEvent {
  return { type: 'item.created', source: SOLO, name, item: { type: name, agent: { name: 'Solo' }, raw_item: item } }
}

/** Serves a run that consists of these events to whoever asks. Returns the address. */
async function serveEvents(events: readonly RunEvent[]): Promise<string> {
  const app = fastify()
  app.post('/', async (request, reply) => {
    const encode = aguiEncoder(readAguiRequest(request.body, (body) => AguiRequest.parse(body)))
    return reply.type('text/event-stream').send(events.map((event, index) => encode(event, index + 1)).join(''))
  })
  closeAfterTest(() => app.close())
  return app.listen({ host: '127.0.0.1', port: 0 })
}

describe.each(CLIENTS)('@ag-ui/client $version', ({ knowsAll, version, Agent: ClientOfVersion }) => {
  const clientOf = (server: TestServer): Client =>
    new ClientOfVersion({ url: `${server.url}/solo/get_response_stream`, threadId: 'thread-1' })

  test('answers, in a conversation of two turns', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    const agent = clientOf(server)
    server.provider.script([text('Hello.'), text('Again.')])

    await run(agent, 'hi')
    const { types, messages } = await run(agent, 'and?')

    expect(types.at(-1)).toBe('RUN_FINISHED')
    expect(messages.map(({ role, content }) => [role, content])).toEqual([
      ['user', 'hi'],
      ['assistant', 'Hello.'],
      ['user', 'and?'],
      ['assistant', 'Again.'],
    ])
    expect(server.provider.rejected).toEqual([])
  })

  test('tools, also those of the provider, whose results go into the next turn', async () => {
    const server = await startAguiServer({ agencies: soloAgency({ tools: [add] }) })
    const agent = clientOf(server)
    server.provider.script([
      [
        fileSearch(['needle']),
        codeInterpreter('print(1)', [{ type: 'logs', logs: '1' }]),
        toolCall('add', { a: 1, b: 2 }),
      ],
      text('It is 3.'),
      text('Again.'),
    ])

    const { types, messages } = await run(agent, 'add')
    await run(agent, 'again')

    expect(types.at(-1)).toBe('RUN_FINISHED')
    expect(messages.filter(({ role }) => role === 'tool').map(({ content }) => content)).toEqual(['', '1', '3'])
    expect(server.provider.rejected).toEqual([])
  })

  test('results with pictures: as parts, or as text for clients that do not know parts', async () => {
    const picture = 'QUJD'
    const url = await serveEvents([
      { type: 'run.started', run_id: 'x', agent: 'Solo' },
      created('tool_called', { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'draw', arguments: '{}' }),
      created('tool_output', {
        type: 'function_call_output',
        call_id: 'call_1',
        output: [
          { type: 'input_text', text: 'Two dots:' },
          { type: 'input_image', image_url: `data:image/png;base64,${picture}` },
          { type: 'input_image', image_url: 'https://example.com/dot.png' },
        ],
      }),
      { ...ENDED, status: 'completed' },
    ])

    const { types, messages } = await run(new ClientOfVersion({ url, threadId: 'thread-1' }), 'draw')

    expect(types.at(-1)).toBe('RUN_FINISHED')
    const { content } = messages.find(({ role }) => role === 'tool')
    const sources = [
      { type: 'data', mimeType: 'image/png', value: picture },
      { type: 'url', value: 'https://example.com/dot.png' },
    ]
    const parts = [{ type: 'text', text: 'Two dots:' }, ...sources.map((source) => ({ type: 'image', source }))]
    expect(content).toEqual(knowsAll ? parts : 'Two dots:')
  })

  test('agents that another agent asks', async () => {
    const worker = new Agent({ name: 'Worker', instructions: 'Work.', model: 'gpt-test' })
    const boss = new Agent({ name: 'Boss', instructions: 'Lead.', model: 'gpt-test' })
    const agency = new Agency({ entryPoint: boss, flows: [[boss, worker]] })
    const server = await startAguiServer({ agencies: { solo: agency } })
    const ask = { recipient_agent: 'Worker', message: 'Do it.', additional_instructions: '' }
    server.provider.script([toolCall('send_message', ask), text('Worked.'), text('All done.')])

    const { types, messages } = await run(clientOf(server), 'go')

    expect(types.at(-1)).toBe('RUN_FINISHED')
    expect(types.includes('SUBAGENT_STARTED')).toBe(knowsAll)
    expect(messages.at(-1).content).toBe('All done.')
  })

  test('a tool of the page, whose result the next run goes on with', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    const agent = clientOf(server)
    server.provider.script([toolCall('paint', {}, { callId: 'call_p' }), text('It is red.')])

    const first = await run(agent, 'Paint it.', { tools: [paint] })
    agent.addMessage(result('call_p', 'red'))
    const second = await run(agent, null, { tools: [paint] })

    const pending = knowsAll ? { pendingToolCallIds: ['call_p'] } : {}
    expect(first.events.at(-1)).toMatchObject({ type: 'RUN_FINISHED' })
    expect(first.types).not.toContain('TOOL_CALL_RESULT')
    expect(first.events.at(-1).outcome).toEqual({ type: 'success', ...pending })
    expect(second.messages.map(({ role, content }) => [role, content || undefined])).toEqual([
      ['user', 'Paint it.'],
      ['assistant', undefined],
      ['tool', 'red'],
      ['assistant', 'It is red.'],
    ])
    expect(server.provider.rejected).toEqual([])
  })

  test('tools of the agent and of the page in one turn', async () => {
    const server = await startAguiServer({ agencies: soloAgency({ tools: [add] }) })
    const agent = clientOf(server)
    const calls = [
      toolCall('add', { a: 1, b: 2 }, { callId: 'c_own' }),
      toolCall('add', { a: 2, b: 2 }, { callId: 'c_too' }),
    ]
    server.provider.script([[...calls, toolCall('paint', {}, { callId: 'c_page' })], text('Done.')])

    const first = await run(agent, 'Go.', { tools: [paint] })
    agent.addMessage(result('c_page', 'red'))
    const { messages } = await run(agent, null, { tools: [paint] })

    const results = first.events.filter(({ type }) => type === 'TOOL_CALL_RESULT')
    expect(Object.fromEntries(results.map(({ toolCallId, content }) => [toolCallId, content]))).toEqual({
      c_own: '3',
      c_too: '4',
    })
    expect(messages.at(-1)).toMatchObject({ content: 'Done.' })
    expect(server.provider.rejected).toEqual([])
  })

  test('a handoff, after which the next agent goes on', async () => {
    const [desk, billing] = ['Desk', 'Billing'].map(
      (name) => new Agent({ name, instructions: name, model: 'gpt-test' }),
    ) as [Agent, Agent]
    const agency = new Agency({ entryPoint: desk, flows: [[desk, billing, 'handoff']] })
    const server = await startAguiServer({ agencies: { solo: agency } })
    const agent = clientOf(server)
    server.provider.script([toolCall('transfer_to_Billing'), text('Billing here.'), text('Yes?')])

    await run(agent, 'My bill.')
    const { types, messages } = await run(agent, 'Hello?')

    expect(types.at(-1)).toBe('RUN_FINISHED')
    expect(messages.at(-1)).toMatchObject({ content: 'Yes?' })
    expect(server.provider.modelRequests.at(-1)!.body['instructions']).toBe('Billing')
    expect(server.provider.rejected).toEqual([])
  })

  test('a shared state, by patches and as a whole', async () => {
    const count = tool({
      name: 'count',
      description: 'Counts.',
      parameters: z.object({}),
      execute: (_, { run }) => {
        const { sharedState } = run!
        const state = sharedState.value as { count: number }
        sharedState.set({ ...state, count: state.count + 1 })
        if (state.count > 0) sharedState.set({ count: 0 })
      },
    })
    const server = await startAguiServer({ agencies: soloAgency({ tools: [count] }) })
    const agent = clientOf(server)
    agent.state = { count: 0, note: 'a note that makes the whole longer than what has changed of it' }
    server.provider.script([toolCall('count'), text('Done.'), toolCall('count'), text('Done.')])

    const first = await run(agent, 'Count.')
    const between = agent.state
    const second = await run(agent, 'Count.')

    const kinds = [first, second].map(({ types }) => types.filter((type) => type.startsWith('STATE_')))
    expect(kinds).toEqual([['STATE_DELTA'], ['STATE_DELTA', 'STATE_SNAPSHOT']])
    expect(between.count).toBe(1)
    expect(agent.state).toEqual({ count: 0 })
  })

  test('a call that waits for a person: answered by resume, or by none where the client has no such thing', async () => {
    const made: number[] = []
    const pay = tool({
      name: 'pay',
      description: 'Pays.',
      parameters: z.object({}),
      needsApproval: true,
      execute: () => void made.push(1),
    })
    const env = {
      BUREAU_SECRET: 'a secret of this test that is long enough',
      BUREAU_APPROVALS_PATH: await temporaryFolder(),
    }
    const server = await startAguiServer({ agencies: soloAgency({ tools: [pay] }), env })
    const agent = clientOf(server)
    server.provider.script([toolCall('pay', {}, { callId: 'call_r' }), text('Done.')])

    const first = await run(agent, 'Pay.')
    expect(first.types.slice(-2)).toEqual(['STATE_SNAPSHOT', 'RUN_FINISHED'])
    expect(first.messages.at(-1).toolCalls).toMatchObject([{ id: 'call_r' }])
    const { interrupts } = first.events.at(-1).outcome
    const resume = interrupts.map(({ id }: Json) => ({
      interruptId: id,
      status: 'resolved',
      payload: { approved: true },
    }))
    const resumes = version !== '0.0.44'
    const { messages } = resumes ? await run(agent, null, { resume }) : await run(agent, 'And?')

    expect(made).toHaveLength(resumes ? 1 : 0)
    expect(messages.at(-1)).toMatchObject({ content: 'Done.' })
    expect(server.provider.rejected).toEqual([])
  })

  test('reasoning, which the oldest must not get', async () => {
    const aguiReasoning = version !== '0.0.44'
    const server = await startAguiServer({ agencies: soloAgency(), aguiReasoning })
    const agent = clientOf(server)
    server.provider.script([[reasoning({ summary: ['First.', 'Second.'] }), text('Done.')], text('Again.')])

    const { types, messages } = await run(agent, 'think')
    await run(agent, 'again')

    expect(types.at(-1)).toBe('RUN_FINISHED')
    expect(types.includes('REASONING_MESSAGE_CONTENT')).toBe(aguiReasoning)
    expect(messages.map(({ role }) => role).includes('reasoning')).toBe(aguiReasoning)
    expect(server.provider.rejected).toEqual([])
  })

  test('a run that fails', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    server.provider.script([[textDeltas(['Half']), failed('server_error')]])
    const { events } = await run(clientOf(server), 'hi')
    expect(events.at(-1)).toMatchObject({ type: 'RUN_ERROR', code: 'upstream_unavailable' })
  })

  test('a run that somebody cancels is not a success, and what was not finished is gone', async ({ skip }) => {
    if (!(await testRedisReachable())) skip('needs Redis')
    const env = { REDIS_URL: TEST_REDIS_URL }
    const started = Promise.withResolvers<string>()
    const tell = tool({
      name: 'tell',
      description: 'Tells the run.',
      parameters: z.object({}),
      execute: (_, { run: told }) => {
        started.resolve(told!.runId)
        return 'told'
      },
    })
    const server = await startAguiServer({ agencies: soloAgency({ tools: [tell] }), env })
    // With AG-UI there is no route to cancel, but a plain server of the same installation has one.
    const plain = await startTestServer({ agencies: soloAgency(), env })
    const gate = server.provider.gate()
    server.provider.script([toolCall('tell'), textDeltas(['Half', hold(gate)])])
    const running = run(clientOf(server), 'go')
    const runId = await started.promise
    await gate.reached()

    const { body } = await plain.post('/solo/cancel_response_stream', { run_id: runId })
    const { events, messages } = await running

    expect(body.cancelled).toBe(true)
    expect(events.at(-1)).not.toHaveProperty('result')
    if (knowsAll) expect(events.at(-1)).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'cancelled' } })
    else
      expect(events.at(-1)).toMatchObject({ type: 'RUN_ERROR', code: 'cancelled', message: 'The run was cancelled.' })
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool'])
  })
})
