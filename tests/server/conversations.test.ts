import { Agency, Agent, tool } from '@bureau/framework'
import { fileSearchTool } from '@openai/agents'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  codeInterpreter,
  fileSearch,
  imageGeneration,
  mcpCall,
  mcpListTools,
  reasoning,
  text,
  toolCall,
  webSearch,
} from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer } from '../support/test-server.ts'

const agent = (name: string, more: Partial<ConstructorParameters<typeof Agent>[0]> = {}): Agent =>
  new Agent({ name, instructions: `I am ${name}.`, model: 'gpt-test', ...more })

const message = (recipient: string, said = 'Do it') => ({
  recipient_agent: recipient,
  message: said,
  additional_instructions: '',
})

const saidBy = (items: readonly Json[]): string[] =>
  items.map(({ type, role, content, name }) => {
    if (typeof content === 'string') return `${role}: ${content}`
    return role ? `${role}: ${content[0].text}` : (name ?? type)
  })

describe('what an agent remembers', () => {
  test('the conversation with the user is one, whichever agent is addressed; what agents said to each other is not in it', async () => {
    const [boss, worker] = [agent('Boss'), agent('Worker')]
    const server = await startTestServer({
      agencies: { two: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) },
    })
    server.provider.script([
      toolCall('send_message', message('Worker')),
      text('done by worker'),
      text('done by boss'),
      text('hello again'),
    ])
    const first = await server.post('/two/get_response', { message: 'first' })

    await server.post('/two/get_response', {
      message: 'second',
      recipient_agent: 'Worker',
      chat_history: first.body.new_messages,
    })

    const { instructions, items } = server.provider.modelRequests[3]!
    expect(instructions).toBe('I am Worker.')
    expect(saidBy(items)).toEqual([
      'user: first',
      'send_message',
      'function_call_output',
      'assistant: done by boss',
      'user: second',
    ])
  })

  test('two agents remember what they said to each other, in this run and from the history, whoever asked', async () => {
    const [boss, worker] = [agent('Boss'), agent('Worker')]
    const flows = [
      [boss, worker],
      [worker, boss],
    ] as const
    const server = await startTestServer({ agencies: { two: new Agency({ entryPoint: [boss, worker], flows }) } })
    server.provider.script([
      toolCall('send_message', message('Worker', 'one')),
      text('first'),
      toolCall('send_message', message('Worker', 'two')),
      text('second'),
      text('done'),
    ])
    const first = await server.post('/two/get_response', { message: 'go' })
    server.provider.script([toolCall('send_message', message('Boss', 'three')), text('third'), text('done')])

    await server.post('/two/get_response', {
      message: 'go on',
      recipient_agent: 'Worker',
      chat_history: first.body.new_messages,
    })

    const [, one, , two, , , three] = server.provider.modelRequests
    expect(saidBy(one!.items)).toEqual(['user: one'])
    expect(saidBy(two!.items)).toEqual(['user: one', 'assistant: first', 'user: two'])
    expect(three!.instructions).toBe('I am Boss.')
    expect(saidBy(three!.items)).toEqual([
      'user: one',
      'assistant: first',
      'user: two',
      'assistant: second',
      'user: three',
    ])
    expect(server.provider.rejected).toEqual([])
  })

  test('one trace holds a conversation: the latest valid one of the history, for nested agents too', async () => {
    const [boss, worker] = [agent('Boss'), agent('Worker')]
    const server = await startTestServer({
      agencies: { two: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) },
    })
    server.provider.script([toolCall('send_message', message('Worker')), text('yes'), text('done')])
    const [old, latest] = ['a', 'b'].map((digit) => `trace_${digit.repeat(32)}`)
    const chat_history = [old, latest, 'trace_no', 'no-op'].map((run_trace_id) => ({
      role: 'user',
      content: 'x',
      run_trace_id,
    }))

    const { body } = await server.post('/two/get_response', { message: 'go', chat_history })

    expect(new Set(body.new_messages.map((item: Json) => item.run_trace_id))).toEqual(new Set([latest]))
  })

  test('a stay in control has an id of its own: before and after a handoff, and for every nested conversation', async () => {
    const sales = agent('Sales')
    const [boss, worker] = [agent('Boss', { handoffs: [sales] }), agent('Worker')]
    const server = await startTestServer({
      agencies: { two: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) },
    })
    server.provider.script([
      toolCall('send_message', message('Worker')),
      text('one'),
      toolCall('send_message', message('Worker')),
      text('two'),
      toolCall('transfer_to_Sales'),
      text('welcome'),
    ])

    const stream = await (await server.stream('/two/get_response_stream', { message: 'go' })).all()

    const stays = new Map<string, Set<string>>()
    for (const { agent: name, agent_run_id: id } of stream.result.new_messages) {
      stays.set(name, (stays.get(name) ?? new Set()).add(id))
    }
    expect([...stays].map(([name, ids]) => [name, ids.size])).toEqual([
      ['Boss', 1],
      ['Worker', 2],
      ['Sales', 1],
    ])
    const updates = stream.events.filter(({ type }) => type === 'agent_updated_stream_event')
    expect(updates.map(({ new_agent: { name }, callerAgent }) => [name, callerAgent])).toEqual([
      ['Boss', null],
      ['Worker', 'Boss'],
      ['Worker', 'Boss'],
      ['Sales', null],
    ])
    expect(new Set(updates.map(({ agent_run_id: id }) => id)).size).toBe(4)
  })
})

describe('reminders', () => {
  test('the agent to which the user turns after a handoff is told so, once', async () => {
    const sales = agent('Sales', { description: 'Sells.' })
    const front = agent('Front', { description: 'Greets.', handoffs: [sales] })
    const server = await startTestServer({ agencies: { shop: new Agency({ entryPoint: front }) } })
    server.provider.script([
      toolCall('transfer_to_Sales'),
      text('Welcome to sales.'),
      text('Front again.'),
      text('Yes.'),
    ])
    const history: Json[] = []
    const say = async (said: string, recipient_agent?: string): Promise<Json[]> => {
      const body = { message: said, chat_history: history, recipient_agent }
      const { body: answer } = await server.post('/shop/get_response', body)
      history.push(...answer.new_messages)
      return answer.new_messages
    }
    await say('I want to buy')

    const turned = await say('Where is the door?', 'Front')
    const goingOn = await say('And the bell?', 'Front')

    expect(turned.map(({ message_origin: origin, role }) => origin ?? role)).toEqual([
      'recipient_reminder',
      'user',
      'assistant',
    ])
    expect(turned[0]).toMatchObject({ role: 'system', type: 'message', agent: 'Front', callerAgent: null })
    expect(turned[0].content).toMatch(/Front\. Your role: Greets\./)
    expect(server.provider.modelRequests[2]!.items.at(-2)).toEqual({
      role: 'system',
      type: 'message',
      content: turned[0].content,
    })
    expect(goingOn.map(({ role }) => role)).toEqual(['user', 'assistant'])
    expect(server.provider.rejected).toEqual([])
  })

  test('the words for a handoff can be the agency’s own', async () => {
    const sales = agent('Sales')
    const front = agent('Front', { handoffs: [sales], handoffReminder: 'You sell now.' })
    const server = await startTestServer({ agencies: { shop: new Agency({ entryPoint: front }) } })
    server.provider.script([toolCall('transfer_to_Sales'), text('Welcome.')])

    const { body } = await server.post('/shop/get_response', { message: 'buy' })

    const reminder = { role: 'system', content: 'You sell now.' }
    expect(body.new_messages[3]).toMatchObject({ ...reminder, message_origin: 'handoff_reminder' })
    expect(server.provider.modelRequests[1]!.items.at(-1)).toMatchObject(reminder)
  })
})

describe('instructions and context', () => {
  test('instructions may be made for each run; they are composed like others', async () => {
    const solo = agent('Solo', {
      instructions: async ({ context }) => `Serve ${String(context.userContext['name'])}.`,
    })
    const agency = new Agency({ entryPoint: solo, sharedInstructions: 'Be kind.', userContext: { name: 'everybody' } })
    const server = await startTestServer({ agencies: { solo: agency } })
    server.provider.respond(() => text('ok'))

    await server.post('/solo/get_response', { message: 'a' })
    await server.post('/solo/get_response', {
      message: 'a',
      user_context: { name: 'Ada' },
      additional_instructions: 'In French.',
    })

    expect(server.provider.modelRequests.map(({ instructions }) => instructions)).toEqual([
      'Be kind.\n\nServe everybody.',
      'Be kind.\n\nServe Ada.\n\n---\n\nIn French.',
    ])
  })

  test('user_context wins key by key over the agency’s own, is never sent to the model, and changes nobody else’s', async () => {
    const seen: unknown[] = []
    const look = tool({
      name: 'look',
      description: 'Looks.',
      parameters: z.object({}),
      execute: (_, { userContext, run }) => {
        seen.push({ ...userContext })
        userContext['base'] = userContext['added'] = 'changed'
        return `seen by ${run!.agent}`
      },
    })
    const solo = agent('Solo', { tools: [look] })
    const userContext = { base: 'of the agency', kept: 'the secret base' }
    const server = await startTestServer({ agencies: { solo: new Agency({ entryPoint: solo, userContext }) } })
    server.provider.script([toolCall('look'), text('a'), toolCall('look'), text('b')])

    await server.post('/solo/get_response', {
      message: 'go',
      user_context: { base: 'of the request', own: 'the secret' },
    })
    await server.post('/solo/get_response', { message: 'go' })

    expect(seen).toEqual([
      { base: 'of the request', kept: 'the secret base', own: 'the secret' },
      { base: 'of the agency', kept: 'the secret base' },
    ])
    const sent = JSON.stringify(server.provider.modelRequests.map(({ body }) => body))
    for (const value of ['of the agency', 'of the request', 'the secret']) expect(sent).not.toContain(value)
    expect(server.provider.modelRequests[1]!.toolOutputs[0]!.output).toBe('seen by Solo')
  })
})

describe('what a provider runs itself', () => {
  test('its calls are told as tool calls, its lists of tools by name only, and the history can be continued', async () => {
    const schema = { type: 'object', properties: { secret_parameter: { type: 'string' } } }
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([
      [
        mcpListTools('docs', [{ name: 'read', description: 'The secret description', input_schema: schema }]),
        webSearch('weather'),
        codeInterpreter('print(1)', [{ type: 'logs', logs: '1' }]),
        imageGeneration('aGVsbG8='),
        mcpCall({ server: 'docs', name: 'read', output: 'the page' }),
        text('All done'),
      ],
      text('yes'),
    ])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'go' })).all()
    const next = await server.post('/solo/get_response', { message: 'on', chat_history: stream.result.new_messages })

    const items = stream.events.filter(({ type }) => type === 'run_item_stream_event')
    expect(items.map(({ name, item }) => [name, item.type, item.raw_item.type])).toEqual([
      ['mcp_list_tools', 'mcp_list_tools_item', 'mcp_list_tools'],
      ['tool_called', 'tool_call_item', 'web_search_call'],
      ['tool_called', 'tool_call_item', 'code_interpreter_call'],
      ['tool_called', 'tool_call_item', 'image_generation_call'],
      ['tool_called', 'tool_call_item', 'mcp_call'],
      ['message_output_created', 'message_output_item', 'message'],
    ])
    expect(items[0].item.raw_item.tools).toEqual([{ name: 'read' }])
    for (const secret of ['secret_parameter', 'The secret description']) expect(stream.text).not.toContain(secret)
    expect(stream.result.new_messages.map(({ type }: Json) => type)).toEqual([
      'message',
      'web_search_call',
      'code_interpreter_call',
      'image_generation_call',
      'mcp_call',
      'message',
    ])
    expect(next.body.response).toBe('yes')
    expect(server.provider.rejected).toEqual([])
  })

  test('what a file search has found is kept right after its call, and the next turn reads it', async () => {
    const search = fileSearchTool('vs_1', { includeSearchResults: true })
    const server = await startTestServer({ agencies: soloAgency({ tools: [search] }) })
    const found = { file_id: 'file-1', filename: 'rules.md', text: 'No running.', score: 0.9 }
    server.provider.script([[fileSearch(['rules'], [found]), text('No running.')], text('yes')])

    const { body } = await server.post('/solo/get_response', { message: 'rules?' })
    await server.post('/solo/get_response', { message: 'sure?', chat_history: body.new_messages })

    expect(body.new_messages.map(({ type, message_origin: origin }: Json) => origin ?? type)).toEqual([
      'message',
      'file_search_call',
      'file_search_preservation',
      'message',
    ])
    const kept = server.provider.modelRequests[1]!.items[2]!
    expect(kept).toMatchObject({ role: 'system', content: expect.stringContaining('No running.') })
    expect(server.provider.rejected).toEqual([])
  })

  test('citations of an answer are noted on it, and taken off before it is sent again', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const annotations = [{ type: 'file_citation', file_id: 'file-1', filename: 'rules.md', index: 3 }]
    server.provider.script([text('No running.', { annotations }), text('yes')])

    const { body } = await server.post('/solo/get_response', { message: 'rules?' })
    await server.post('/solo/get_response', { message: 'sure?', chat_history: body.new_messages })

    expect(body.new_messages[1].citations).toEqual([
      { type: 'file_citation', method: 'direct_file', file_id: 'file-1', filename: 'rules.md', index: 3 },
    ])
    expect(server.provider.modelRequests[1]!.items[1]).not.toHaveProperty('citations')
    expect(server.provider.rejected).toEqual([])
  })

  test.each([
    ['the agent', { store: false }, {}],
    ['the request', {}, { model_settings_extra_args: { store: false } }],
  ])(
    'a provider that keeps nothing, as %s has it, is sent no reference to anything kept',
    async (_, modelSettings, client_config) => {
      const add = tool({ name: 'add', description: 'Adds.', parameters: z.object({}), execute: () => '3' })
      const server = await startTestServer({ agencies: soloAgency({ modelSettings, tools: [add] }) })
      server.provider.script([[reasoning({ summary: ['Hm.'] }), toolCall('add')], text('3'), text('yes')])
      const { body } = await server.post('/solo/get_response', { message: '1+2?', client_config })

      const next = await server.post('/solo/get_response', {
        message: 'sure?',
        chat_history: body.new_messages,
        client_config,
      })

      expect(next.body.response).toBe('yes')
      expect(server.provider.rejected).toEqual([])
      const { items } = server.provider.modelRequests[2]!
      expect(items.map(({ type, role }) => type ?? role)).toEqual([
        'message',
        'function_call',
        'function_call_output',
        'message',
        'user',
      ])
      for (const item of items) expect(item).not.toHaveProperty('id')
    },
  )
})

describe('a history in another format', () => {
  const toolRecord = { role: 'tool', tool_call_id: 'x', content: 'y' }

  test.each([
    ['Chat Completions records', [toolRecord], 'is in the Chat Completions format'],
    ['both', [{ type: 'function_call', call_id: 'a', name: 'b', arguments: '{}' }, toolRecord], 'mixes'],
  ])('%s: an error in the stream, which ends as usual', async (_, chat_history, problem) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi', chat_history })).all()

    expect(stream.outline).toEqual(['meta', expect.any(String), 'messages', 'end'])
    const [{ error, content }] = stream.events
    expect(error ?? content).toContain(problem)
    expect(stream.result.usage.request_count).toBe(0)
    expect(server.provider.requests).toEqual([])
  })
})
