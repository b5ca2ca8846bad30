import { HttpAgent as Client1_0_0 } from '@ag-ui/client'
import { Agency, Agent, tool } from '@bureau/framework'
import type { EventSource, RunEvent, WireItem } from '@bureau/protocol'
import { HttpAgent as Client0_0_44 } from 'ag-ui-client-0.0.44'
import { HttpAgent as Client0_0_59 } from 'ag-ui-client-0.0.59'
import fastify from 'fastify'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { TEST_REDIS_URL, testRedisReachable } from '../../../../../tests/oauth/support/test-redis.ts'
import {
  codeInterpreter,
  failed,
  fileSearch,
  hold,
  reasoning,
  text,
  textDeltas,
  toolCall,
} from '../../../../../tests/support/fake-provider.ts'
import {
  closeAfterTest,
  type Json,
  soloAgency,
  startTestServer,
  type TestServer,
} from '../../../../../tests/support/test-server.ts'
import { readAguiRequest } from './read-request.ts'
import { startAguiServer } from './agui.test-client.ts'
import { aguiEncoder } from './encode.ts'

/** What the clients of all versions have in common. */
type Client = {
  messages: Json[]
  addMessage(message: Json): void
  runAgent(input: object, subscriber: { onEvent: (seen: { event: Json }) => void }): Promise<unknown>
}

type ClientClass = new (options: { url: string; threadId: string }) => Client

/** CopilotKit up to 1.75 comes with 0.0.59. */
const CLIENTS = [
  { version: '0.0.44', knowsAll: false, Agent: Client0_0_44 as unknown as ClientClass },
  { version: '0.0.59', knowsAll: false, Agent: Client0_0_59 as unknown as ClientClass },
  { version: '1.0.0', knowsAll: true, Agent: Client1_0_0 as unknown as ClientClass },
]

const add = tool({
  name: 'add',
  description: 'Adds.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => a + b,
})

/** One run of a client: every event that it took, and the conversation that it ended with. */
async function run(agent: Client, content: string): Promise<{ events: Json[]; types: string[]; messages: Json[] }> {
  const events: Json[] = []
  agent.addMessage({ id: crypto.randomUUID(), role: 'user', content })
  await agent.runAgent({}, { onEvent: ({ event }) => void events.push(event) })
  return { events, types: events.map(({ type }) => type), messages: agent.messages }
}

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
    const encode = aguiEncoder(readAguiRequest(request.body))
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
    expect(content).toEqual(knowsAll ? parts : 'Two dots:\n[image]\n[image: https://example.com/dot.png]')
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
    if (knowsAll) expect(events.at(-1)).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'cancelled' } })
    else
      expect(events.at(-1)).toMatchObject({ type: 'RUN_ERROR', code: 'cancelled', message: 'The run was cancelled.' })
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool'])
  })
})
