import { Agency, Agent, tool, type InputGuardrail, type OutputGuardrail } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { text, toolCall, usage } from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer } from '../support/test-server.ts'

describe('POST /<agency>/get_response', () => {
  test('200 answers with the text, the new messages and the usage', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([[text('Hello'), usage({ input: 100, cached: 20, output: 30, reasoning: 5 })]])

    const { status, body } = await server.post('/solo/get_response', { message: 'hi' })

    expect(status).toBe(200)
    expect(Object.keys(body)).toEqual(['response', 'new_messages', 'usage'])
    expect(body.response).toBe('Hello')
    expect(body.usage).toEqual({
      request_count: 1,
      cached_tokens: 20,
      cache_write_tokens: 0,
      input_tokens: 100,
      output_tokens: 30,
      total_tokens: 130,
      total_cost: 0,
      reasoning_tokens: 5,
    })
    const [user, assistant] = body.new_messages
    expect(user).toMatchObject({ role: 'user', content: 'hi', type: 'message', agent: 'Solo', callerAgent: null })
    expect(user).toMatchObject({
      history_protocol: 'responses',
      run_trace_id: expect.stringMatching(/^trace_[0-9a-f]{32}$/),
    })
    expect(user.timestamp).toBeGreaterThan(1_700_000_000_000_000)
    expect(assistant).toMatchObject({ role: 'assistant', agent: 'Solo', agent_run_id: user.agent_run_id })
    expect(assistant.timestamp).toBeGreaterThan(user.timestamp)
  })

  test('200 continues a conversation from its new messages, over many turns, with ids or without', async () => {
    const echo = tool({
      name: 'echo',
      description: 'Echoes.',
      parameters: z.object({ x: z.string() }),
      execute: ({ x }) => x,
    })
    const server = await startTestServer({ agencies: soloAgency({ tools: [echo] }) })
    server.provider.respond((request) =>
      request.toolOutputs.length > 0 ? text(`turn with ${request.items.length} items`) : toolCall('echo', { x: 'y' }),
    )
    const history: Json[] = []
    for (let turn = 0; turn < 20; turn++) {
      const chat_history = turn % 2 === 0 ? history : history.map(({ id: _id, ...item }) => item)
      const { status, body } = await server.post('/solo/get_response', { message: `turn ${turn}`, chat_history })
      expect(status).toBe(200)
      expect(body.response).toBe(`turn with ${turn * 4 + 3} items`)
      history.push(...body.new_messages)
    }
    expect(server.provider.rejected).toEqual([])
    expect(new Set(history.map((item) => item.run_trace_id)).size).toBe(1)
  })

  test('200 accepts plain history items and keeps them in the conversation of the user', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('ok')])

    await server.post('/solo/get_response', {
      message: 'and now?',
      chat_history: [
        { role: 'user', content: 'first' },
        { role: 'assistant', content: 'answer' },
      ],
    })

    const items = server.provider.modelRequests[0]!.items
    expect(items.map((item) => item['role'])).toEqual(['user', 'assistant', 'user'])
    for (const item of items) expect(item).not.toHaveProperty('agent')
  })

  test('200 repairs a history with orphans before the model sees it', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('ok')])
    const call = {
      type: 'function_call',
      id: 'fc_1',
      call_id: 'call_1',
      name: 'x',
      arguments: '{}',
      status: 'completed',
    }

    const answer = await server.post('/solo/get_response', { message: 'hi', chat_history: [call] })

    expect(answer.status).toBe(200)
    expect(answer.body.new_messages).toHaveLength(2)
    expect(server.provider.rejected).toEqual([])
  })

  test('200 continues on the Responses API what the model of another vendor began', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('ok')])
    const content = [{ type: 'output_text', text: 'from elsewhere', annotations: [] }]
    const answer = await server.post('/solo/get_response', {
      message: 'go on',
      chat_history: [
        { role: 'user', content: 'begin' },
        { type: 'reasoning', id: 'rs_bureau_1', summary: [{ type: 'summary_text', text: 'hm' }], signature: 'x' },
        { type: 'message', id: 'msg_bureau_1', role: 'assistant', status: 'completed', content, vendor: { x: 1 } },
      ],
    })

    expect(answer.status).toBe(200)
    expect(server.provider.modelRequests[0]!.items.map((item) => item['role'])).toEqual(['user', 'assistant', 'user'])
    expect(server.provider.rejected).toEqual([])
  })

  test('an item of a type that every JavaScript object has as a member is for the provider to judge', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const odd = { type: 'constructor', id: 'item_bureau_1' }

    const answer = await server.post('/solo/get_response', { message: 'hi', chat_history: [odd] })

    expect(answer.body).toMatchObject({ code: 'upstream_invalid_request' })
    expect(server.provider.modelRequests[0]!.items[0]).toEqual(odd)
  })

  test('500 for a history of chat completions records', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await server.post('/solo/get_response', {
      message: 'hi',
      chat_history: [{ role: 'tool', tool_call_id: 'x', content: 'y' }],
    })

    expect(answer.status).toBe(500)
    expect(answer.body.error).toEqual(expect.any(String))
    expect(server.provider.requests).toEqual([])
  })

  test('200 takes structured messages and passes their parts on', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('I see')])
    const content = [
      { type: 'input_text', text: 'What is this?' },
      { type: 'input_image', image_url: 'data:image/png;base64,iVBORw0KGgo=', detail: 'low' },
      { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' },
    ]

    const answer = await server.post('/solo/get_response', { message: [{ role: 'user', content }] })

    expect(server.provider.modelRequests[0]!.items[0]!['content']).toEqual(content)
    expect(answer.body.new_messages[0]).toMatchObject({ role: 'user', content, agent: 'Solo' })
  })

  test('200 addresses the named agent, entry point or not, and adds instructions to it alone', async () => {
    const helper = new Agent({ name: 'Helper', instructions: 'Help.', model: 'gpt-test' })
    const front = new Agent({ name: 'Front', instructions: 'Greet.', model: 'gpt-test' })
    const agency = new Agency({ entryPoint: front, flows: [[front, helper]], sharedInstructions: 'Be kind.' })
    const server = await startTestServer({ agencies: { two: agency } })
    server.provider.respond(() => text('ok'))

    await server.post('/two/get_response', {
      message: 'a',
      recipient_agent: 'Helper',
      additional_instructions: 'In French.',
    })
    await server.post('/two/get_response', { message: 'a' })

    expect(server.provider.modelRequests.map((request) => request.instructions)).toEqual([
      'Be kind.\n\nHelp.\n\n---\n\nIn French.',
      'Be kind.\n\nGreet.',
    ])
  })

  test('200 leaves usage out when the agent says so', async () => {
    const server = await startTestServer({ agencies: soloAgency({ includeUsage: false }) })
    server.provider.script([text('ok')])

    expect((await server.post('/solo/get_response', { message: 'hi' })).body).not.toHaveProperty('usage')
  })

  test('200 answers with an object when the agent has a structured output type', async () => {
    const outputType = z.object({ city: z.string(), celsius: z.number() })
    const server = await startTestServer({ agencies: soloAgency({ outputType }) })
    server.provider.script([text('{"city":"Paris","celsius":18}')])

    const answer = await server.post('/solo/get_response', { message: 'weather?' })

    expect(answer.body.response).toEqual({ city: 'Paris', celsius: 18 })
    expect(server.provider.modelRequests[0]!.body['text']).toMatchObject({
      format: { type: 'json_schema', strict: true },
    })
  })

  const Animal = z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('cat') }),
    z.object({ kind: z.literal('dog') }),
  ])

  test.each<[string, z.ZodType, unknown]>([
    ['one of several kinds', Animal, { kind: 'cat' }],
    ['a map', z.record(z.string(), z.number()), { a: 1 }],
    ['a value with a default', z.string().default('x'), 'y'],
  ])('200 asks for an answer with %s, which providers take for no strict format', async (_, value, given) => {
    const server = await startTestServer({ agencies: soloAgency({ outputType: z.object({ value }) }) })
    server.provider.script([text(JSON.stringify({ value: given }))])

    const answer = await server.post('/solo/get_response', { message: 'go' })

    expect(answer.body.response).toEqual({ value: given })
    expect(server.provider.modelRequests[0]!.body['text']).toMatchObject({ format: { strict: false } })
  })

  test('200 asks for what an answer is made of, and answers with what is made of it', async () => {
    const day = z.iso.date().transform((given) => Number(given.slice(0, 4)))
    const server = await startTestServer({ agencies: soloAgency({ outputType: z.object({ day }) }) })
    server.provider.script([text('{"day":"2031-05-01"}')])

    const answer = await server.post('/solo/get_response', { message: 'when?' })

    expect(answer.body.response).toEqual({ day: 2031 })
    expect(server.provider.modelRequests[0]!.body['text']).toMatchObject({
      format: { strict: true, schema: { properties: { day: { type: 'string', format: 'date' } } } },
    })
  })
})

describe('guardrails', () => {
  const refuse: InputGuardrail = {
    name: 'no secrets',
    execute: async ({ input }) => ({
      tripwireTriggered: JSON.stringify(input).includes('secret'),
      outputInfo: 'Please do not ask for secrets.',
    }),
  }

  test('200 an input guardrail answers with its guidance, without asking the model', async () => {
    const server = await startTestServer({ agencies: soloAgency({ inputGuardrails: [refuse] }) })

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'the secret?' })).all()
    const answer = await server.post('/solo/get_response', { message: 'the secret?' })

    expect(stream.outline).toEqual(['meta', 'agent:Solo', 'message_output_created', 'messages', 'end'])
    expect(stream.result.new_messages.at(-1)).toMatchObject({
      message_origin: 'input_guardrail_message',
      role: 'assistant',
    })
    expect(stream.result.usage.request_count).toBe(0)
    expect(answer.body.response).toBe('Please do not ask for secrets.')
    expect(server.provider.requests).toEqual([])
  })

  test('500 when the agent raises input guardrail errors; the stream has an error, messages and end', async () => {
    const agencies = soloAgency({ inputGuardrails: [refuse], raiseInputGuardrailError: true })
    const server = await startTestServer({ agencies })

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'the secret?' })).all()
    const answer = await server.post('/solo/get_response', { message: 'the secret?' })

    expect(stream.outline.slice(-3)).toEqual(['error', 'messages', 'end'])
    expect(answer.status).toBe(500)
    expect(answer.body).toMatchObject({
      error: 'Guardrail InputGuardrail triggered tripwire',
      code: 'guardrail_tripped',
    })
  })

  const polite: OutputGuardrail = {
    name: 'polite',
    execute: async ({ agentOutput }) => ({
      tripwireTriggered: !String(agentOutput).includes('please'),
      outputInfo: 'Say please.',
    }),
  }

  test('200 an output guardrail has the answer tried again, with guidance', async () => {
    const server = await startTestServer({ agencies: soloAgency({ outputGuardrails: [polite] }) })
    server.provider.script([text('No'), text('Yes please')])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    expect(stream.outline.filter((step) => step === 'agent:Solo')).toHaveLength(2)
    expect(stream.result.new_messages.map((item: Json) => item.message_origin ?? item.role)).toEqual([
      'user',
      'assistant',
      'output_guardrail_error',
      'assistant',
    ])
    expect(server.provider.modelRequests[1]!.items.at(-1)).toMatchObject({ role: 'system', content: 'Say please.' })
  })

  test('an output guardrail that is never content fails the run, and usage is still reported', async () => {
    const server = await startTestServer({ agencies: soloAgency({ outputGuardrails: [polite] }) })
    server.provider.respond(() => text('No'))

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    expect(JSON.parse(stream.frames.at(-3)!.data)).toEqual({
      error: 'Guardrail OutputGuardrail triggered tripwire: Say please.',
      code: 'guardrail_tripped',
    })
    expect(stream.result.usage.request_count).toBe(2)
  })
})

describe('messages between agents', () => {
  test('two messages to one recipient at once: the second gets an error text', async () => {
    const worker = new Agent({ name: 'Worker', instructions: 'Work.', model: 'gpt-test' })
    const boss = new Agent({ name: 'Boss', instructions: 'Delegate.', model: 'gpt-test' })
    const server = await startTestServer({
      agencies: { two: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) },
    })
    const message = { recipient_agent: 'worker', message: 'Do it', additional_instructions: '' }
    server.provider.respond((request) => {
      if (request.instructions === 'Work.') return text('worked')
      if (request.toolOutputs.length > 0) return text('done')
      return [toolCall('send_message', message, { callId: 'a' }), toolCall('send_message', message, { callId: 'b' })]
    })

    const answer = await server.post('/two/get_response', { message: 'go' })

    const outputs = answer.body.new_messages.filter((item: Json) => item.type === 'function_call_output')
    expect(outputs.map((item: Json) => item.output)).toEqual(['worked', expect.stringContaining('still working')])
  })

  test.each([
    ['no recipient', '{"message":"x"}', 'recipient_agent is missing'],
    ['no message', '{"recipient_agent":"Worker"}', 'message is missing'],
    ['an unknown recipient', '{"recipient_agent":"Bob","message":"x"}', 'Allowed: Worker'],
    ['no JSON', '{"recipient', 'valid JSON'],
  ])('%s: the sender is told, and the run goes on', async (_, args, error) => {
    const worker = new Agent({ name: 'Worker', instructions: 'Work.', model: 'gpt-test' })
    const boss = new Agent({ name: 'Boss', instructions: 'Delegate.', model: 'gpt-test' })
    const server = await startTestServer({
      agencies: { two: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) },
    })
    server.provider.script([toolCall('send_message', args), text('sorry')])

    const answer = await server.post('/two/get_response', { message: 'go' })

    expect(answer.body.response).toBe('sorry')
    expect(answer.body.new_messages[2].output).toContain(error)
  })

  test('two handoffs at once: the first is carried out, the second is answered as not carried out', async () => {
    const [a, b] = ['A', 'B'].map((name) => new Agent({ name, instructions: name, model: 'gpt-test' }))
    const front = new Agent({ name: 'Front', instructions: 'Greet.', model: 'gpt-test', handoffs: [a!, b!] })
    const server = await startTestServer({ agencies: { shop: new Agency({ entryPoint: front }) } })
    server.provider.script([
      [toolCall('transfer_to_A', {}, { callId: '1' }), toolCall('transfer_to_B', {}, { callId: '2' })],
      text('A here'),
    ])

    const answer = await server.post('/shop/get_response', { message: 'go' })

    expect(answer.body.response).toBe('A here')
    const outputs = answer.body.new_messages.filter((item: Json) => item.type === 'function_call_output')
    expect(outputs.map((item: Json) => [item.call_id, item.output])).toEqual([
      ['1', '{"assistant":"A"}'],
      ['2', expect.stringContaining('Not carried out')],
    ])
    expect(server.provider.rejected).toEqual([])
  })
})
