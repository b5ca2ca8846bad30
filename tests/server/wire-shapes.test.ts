import { Agency, Agent, tool, type InputGuardrail, type OutputGuardrail } from '@bureau/framework'
import { beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { reasoning, text, toolCall, usage } from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer, type TestServer, type TestStream } from '../support/test-server.ts'

const add = tool({
  name: 'add',
  description: 'Adds two numbers.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => String(a + b),
})
const agent = (name: string, more: object = {}): Agent =>
  new Agent({ name, instructions: `I am ${name}.`, model: 'gpt-test', ...more })
const METADATA =
  'agent callerAgent timestamp agent_run_id parent_run_id run_trace_id history_protocol message_origin citations'.split(
    ' ',
  )

describe('a run with a tool, a message to another agent and a handoff', () => {
  let server: TestServer
  let stream: TestStream

  beforeEach(async () => {
    const sales = agent('Sales')
    const worker = agent('Worker', { tools: [add] })
    const boss = agent('Boss', { handoffs: [sales] })
    server = await startTestServer({ agencies: { firm: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) } })
    const annotations = [{ type: 'file_citation', file_id: 'file-1', filename: 'a.md', index: 0 }]
    server.provider.script([
      toolCall(
        'send_message',
        { recipient_agent: 'Worker', message: 'Add', additional_instructions: '' },
        { callId: 'm' },
      ),
      [reasoning({ summary: ['Hm.'] }), toolCall('add', { a: 1, b: 2 }, { callId: 't' })],
      text('Three'),
      toolCall('transfer_to_Sales', {}, { callId: 'h' }),
      [text('Welcome', { annotations }), usage({ input: 50, output: 5 })],
    ])
    stream = await (await server.stream('/firm/get_response_stream', { message: 'go' })).all()
  })

  test('every frame is an optional event line, one data line and an empty line', () => {
    const { headers } = stream.response
    expect(stream.text).toMatch(/^(?:(?:event: [a-z_]+\n)?data: [^\r\n]+\n\n)+$/)
    for (const once of ['meta', 'messages', 'end']) {
      expect(stream.frames.filter(({ event }) => event === once)).toHaveLength(1)
    }
    expect(stream.frames.at(-1)!.data).toBe('[DONE]')
    expect(headers.get('connection')).toBe('keep-alive')
    expect(headers.get('content-length')).toBeNull()
  })

  test('every event says whose it is, those of the nested agent in whose call', () => {
    for (const event of stream.events) {
      expect(event.agent_run_id).toMatch(/^agent_run_[0-9a-f]{32}$/)
      expect(event.agent).toMatch(/^(?:Boss|Worker|Sales)$/)
      expect(event.callerAgent).toBe(event.agent === 'Worker' ? 'Boss' : null)
      expect(event.parent_run_id).toBe(event.agent === 'Worker' ? 'm' : undefined)
      if (event.type !== 'raw_response_event') continue
      expect(event.item_id).toBe(event.data.item_id)
      expect(event.call_id).toBe(event.data.item && (event.data.item.call_id ?? event.data.item.id))
    }
  })

  test('of an agent that takes over, its name is told and nothing else', () => {
    const updates = stream.events.filter(({ type }) => type === 'agent_updated_stream_event')
    expect(updates.map((event) => event.new_agent)).toEqual([{ name: 'Boss' }, { name: 'Worker' }, { name: 'Sales' }])
    expect(stream.events[0].type).toBe('agent_updated_stream_event')
  })

  test('finished items have the members that clients know, and call_id where a tool is called', () => {
    const items = stream.events.filter(({ type }) => type === 'run_item_stream_event')
    const origin = { type: 'function', mcp_server_name: null, agent_name: null, agent_tool_name: null }
    const find = (name: string, by: string): Json => items.find((event) => event.name === name && event.agent === by)

    expect(find('tool_called', 'Worker')).toMatchObject({
      call_id: 't',
      item: {
        type: 'tool_call_item',
        agent: { name: 'Worker' },
        raw_item: { type: 'function_call', name: 'add', call_id: 't', arguments: '{"a":1,"b":2}', status: 'completed' },
        description: 'Adds two numbers.',
        title: null,
        tool_origin: origin,
      },
    })
    expect(find('tool_output', 'Worker')).toMatchObject({ call_id: 't' })
    expect(find('tool_output', 'Worker').item).toEqual({
      type: 'tool_call_output_item',
      agent: { name: 'Worker' },
      raw_item: { type: 'function_call_output', call_id: 't', output: '3' },
      output: '3',
      tool_origin: origin,
      custom_data: null,
    })
    expect(find('reasoning_item_created', 'Worker').item).toMatchObject({ type: 'reasoning_item' })
    const transfer = items.find(
      (event) => event.item.raw_item.name === 'transfer_to_Sales' && event.name === 'tool_called',
    )
    expect(transfer).toMatchObject({ call_id: 'h', item: { tool_origin: null } })
    expect(find('handoff_requested', 'Boss')).toMatchObject({ item: { type: 'handoff_call_item' } })
    expect(find('handoff_occured', 'Sales').item).toEqual({
      type: 'handoff_output_item',
      agent: { name: 'Boss' },
      raw_item: { type: 'function_call_output', call_id: 'h', output: '{"assistant":"Sales"}' },
      source_agent: { name: 'Boss' },
      target_agent: { name: 'Sales' },
    })
    const answer = find('message_output_created', 'Sales')
    expect(answer.item).toMatchObject({ type: 'message_output_item', raw_item: { role: 'assistant' } })
    for (const event of [answer, find('handoff_requested', 'Boss'), find('handoff_occured', 'Sales')]) {
      expect(event).not.toHaveProperty('call_id')
    }
  })

  test('a finished response says its usage and its items, and none of the settings that the provider repeats', () => {
    const last = stream.events.findLast(({ data }) => data?.type === 'response.completed').data.response
    expect(last.usage).toMatchObject({ input_tokens: 50, output_tokens: 5 })
    expect(last.output).toMatchObject([{ type: 'message', role: 'assistant' }])
    for (const kept of ['instructions', 'tools', 'tool_choice', 'metadata', 'text'])
      expect(last).not.toHaveProperty(kept)
  })

  test('the next turn sends none of the metadata, and refers to nothing that a server keeps', async () => {
    server.provider.script([text('ok')])
    const history = stream.result.new_messages
    for (const name of METADATA) expect(history.some((item: Json) => name in item)).toBe(true)

    await server.post('/firm/get_response', { message: 'on', chat_history: history, recipient_agent: 'Boss' })

    for (const { items, body } of server.provider.modelRequests) {
      for (const item of items) for (const name of METADATA) expect(item).not.toHaveProperty(name)
      expect(body).not.toHaveProperty('previous_response_id')
      expect(body).not.toHaveProperty('conversation')
    }
    expect(server.provider.rejected).toEqual([])
  })
})

describe('a request', () => {
  test.each(['/solo/get_response', '/solo/get_response_stream'])(
    '%s: may have unknown members and nulls',
    async (path) => {
      const server = await startTestServer({ agencies: soloAgency() })
      server.provider.script([text('ok')])
      const names = [
        'chat_history',
        'recipient_agent',
        'file_ids',
        'file_urls',
        'additional_instructions',
        'user_context',
      ]
      const nulls = Object.fromEntries([...names, 'generate_chat_name', 'client_config'].map((name) => [name, null]))

      const { status, text: answered } = await server.post(path, {
        ...nulls,
        message: 'hi',
        stream: true,
        model: 'gpt-5',
      })

      expect(status).toBe(200)
      expect(answered).not.toContain('file_ids_map')
      expect(answered).not.toContain('chat_name')
      expect(server.provider.modelRequests[0]!.model).toBe('gpt-test')
    },
  )

  test('to cancel: null is immediate', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([{ part: 'hold', gate: server.provider.gate(), before: 'headers' }])
    const stream = await server.stream('/solo/get_response_stream', { message: 'hi' })
    await stream.until(({ event }) => event === 'meta')

    const { body } = await server.post('/solo/cancel_response_stream', { run_id: stream.runId, cancel_mode: null })

    expect(body).toMatchObject({ ok: true, run_id: stream.runId, cancelled: true, cancel_mode: 'immediate' })
  })

  test('whose agent does not tell its usage: none in the stream either', async () => {
    const server = await startTestServer({ agencies: soloAgency({ includeUsage: false }) })
    server.provider.script([text('ok')])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    expect(stream.result).not.toHaveProperty('usage')
  })
})

describe('guardrails', () => {
  const guidance = 'Please do not ask for secrets.'
  const refuse: InputGuardrail = {
    name: 'no secrets',
    execute: async () => ({ tripwireTriggered: true, outputInfo: guidance }),
  }
  const never: OutputGuardrail = {
    name: 'never',
    execute: async () => ({ tripwireTriggered: true, outputInfo: guidance }),
  }

  test('guidance is one item, in the stream and in the messages; nothing was spent', async () => {
    const server = await startTestServer({ agencies: soloAgency({ inputGuardrails: [refuse] }) })

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()
    const whole = await server.post('/solo/get_response', { message: 'hi' })

    const [, created] = stream.events
    const { id, content } = stream.result.new_messages[1]
    expect(created).toMatchObject({ name: 'message_output_created', agent: 'Solo', callerAgent: null })
    expect(created.item).toMatchObject({ type: 'message_output_item', raw_item: { id, content } })
    expect(content[0].text).toBe(guidance)
    expect(whole.body.usage).toEqual({
      request_count: 0,
      cached_tokens: 0,
      cache_write_tokens: 0,
      input_tokens: 0,
      output_tokens: 0,
      total_tokens: 0,
      total_cost: 0,
    })
  })

  test('an input guardrail that raises: its words, then the error, and both kinds of error keep the guidance', async () => {
    const agencies = soloAgency({ inputGuardrails: [refuse], raiseInputGuardrailError: true })
    const server = await startTestServer({ agencies })

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    expect(stream.events.at(-2)).toMatchObject({
      type: 'error',
      content: guidance,
      code: 'guardrail_tripped',
      agent: 'Solo',
    })
    expect(stream.events.at(-1)).toEqual({
      error: 'Guardrail InputGuardrail triggered tripwire',
      code: 'guardrail_tripped',
    })
    expect(stream.result.new_messages.at(-1)).toMatchObject({
      role: 'system',
      type: 'message',
      content: guidance,
      message_origin: 'input_guardrail_error',
    })
  })

  test('500 when an output guardrail is never content', async () => {
    const server = await startTestServer({ agencies: soloAgency({ outputGuardrails: [never] }) })
    server.provider.respond(() => text('No'))

    const { status, body } = await server.post('/solo/get_response', { message: 'hi' })

    expect(status).toBe(500)
    expect(body.error).toBe(`Guardrail OutputGuardrail triggered tripwire: ${guidance}`)
    expect(server.provider.modelRequests).toHaveLength(2)
  })
})
