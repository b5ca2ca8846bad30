import { Agency, Agent, tool } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { refusal, reasoning, text, toolCall, incomplete, usage } from '../support/fake-provider.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'

const add = tool({
  name: 'add',
  description: 'Adds two numbers.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => String(a + b),
})

describe('POST /<agency>/get_response_stream', () => {
  test('200 streams a plain answer: meta, agent, raw events, the message, messages, end', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([[text('Hello there'), usage({ input: 30, cached: 10, output: 5 })]])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    expect(stream.response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    expect(stream.response.headers.get('cache-control')).toBe('no-cache')
    expect(stream.response.headers.get('x-accel-buffering')).toBe('no')
    expect(stream.outline).toEqual([
      'meta',
      'agent:Solo',
      'created',
      'in_progress',
      'output_item.added',
      'content_part.added',
      'output_text.delta',
      'output_text.delta',
      'output_text.done',
      'content_part.done',
      'output_item.done',
      'completed',
      'message_output_created',
      'messages',
      'end',
    ])
    expect(stream.runId).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4/)
    expect(stream.result.run_id).toBe(stream.runId)
    expect(stream.result).not.toHaveProperty('cancelled')
    expect(stream.result.usage).toMatchObject({
      request_count: 1,
      input_tokens: 30,
      cached_tokens: 10,
      output_tokens: 5,
    })
  })

  test('200 gives every raw event verbatim, with native types and routing metadata', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Hi')])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    const delta = stream.events.find((event) => event.data?.type === 'response.output_text.delta')
    expect(delta).toMatchObject({ type: 'raw_response_event', agent: 'Solo', callerAgent: null })
    expect(delta.data).toMatchObject({ delta: 'Hi', output_index: 0, content_index: 0, logprobs: [] })
    expect(delta.item_id).toBe(delta.data.item_id)
    expect(delta.agent_run_id).toMatch(/^agent_run_[0-9a-f]{32}$/)
    const done = stream.events.find((event) => event.data?.type === 'response.output_item.done')
    expect(done.call_id).toBe(done.data.item.id)
  })

  test('200 never shows instructions, tool schemas or the key of the server', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [add] }) })
    server.provider.script([toolCall('add', { a: 1, b: 2 }), text('3')])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    expect(server.provider.modelRequests[0]!.body['instructions']).toBe('You are the secret instructions.')
    for (const secret of ['secret instructions', 'Adds two numbers of', 'additionalProperties', 'sk-server']) {
      expect(stream.text).not.toContain(secret)
    }
  })

  test('200 runs a tool: called before the response is complete, its output before the next response', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [add] }) })
    server.provider.script([toolCall('add', { a: 1, b: 2 }, { callId: 'call_1' }), text('It is 3')])

    const stream = await (await server.stream('/solo/get_response_stream', { message: '1+2?' })).all()

    const outline = stream.outline
    expect(outline.indexOf('tool_called')).toBeLessThan(outline.indexOf('completed'))
    expect(outline.indexOf('tool_output')).toBeGreaterThan(outline.indexOf('completed'))
    expect(outline.indexOf('tool_output')).toBeLessThan(outline.lastIndexOf('created'))
    const output = stream.events.find((event) => event.name === 'tool_output')
    expect(output).toMatchObject({ call_id: 'call_1', item: { type: 'tool_call_output_item', output: '3' } })
    expect(stream.result.new_messages.map((item: { type: string }) => item.type)).toEqual([
      'message',
      'function_call',
      'function_call_output',
      'message',
    ])
    expect(stream.result.usage.request_count).toBe(2)
  })

  test('200 runs parallel calls and keeps calls before outputs in the history', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [add] }) })
    server.provider.script([
      [toolCall('add', { a: 1, b: 1 }, { callId: 'call_a' }), toolCall('add', { a: 2, b: 2 }, { callId: 'call_b' })],
      text('2 and 4'),
    ])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'both' })).all()

    expect(
      stream.result.new_messages.map((item: { type: string; call_id?: string }) => [item.type, item.call_id]),
    ).toEqual([
      ['message', undefined],
      ['function_call', 'call_a'],
      ['function_call', 'call_b'],
      ['function_call_output', 'call_a'],
      ['function_call_output', 'call_b'],
      ['message', undefined],
    ])
    expect(server.provider.rejected).toEqual([])
  })

  test('200 passes reasoning on, and sends the items back to the model exactly as they came', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [add] }) })
    server.provider.script([[reasoning({ summary: ['Thinking'] }), toolCall('add', { a: 1, b: 2 })], text('3')])

    const stream = await (await server.stream('/solo/get_response_stream', { message: '1+2?' })).all()

    expect(stream.outline).toContain('reasoning_item_created')
    const sent = server.provider.modelRequests[1]!.body['input'] as { type: string }[]
    const first = stream.events
      .filter((event) => event.data?.type === 'response.output_item.done')
      .map((e) => e.data.item)
    expect(sent.slice(1, 3)).toEqual(first.slice(0, 2))
  })

  test('200 takes a refusal as the answer', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([refusal('I cannot help with that')])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
    expect(stream.result.new_messages.at(-1).content[0].refusal).toBe('I cannot help with that')
  })

  test('200 keeps the text and the usage of an answer that was cut at the token limit', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([[incomplete('max_output_tokens', 'Half an ans'), usage({ input: 7, output: 3 })]])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

    expect(stream.outline).toContain('incomplete')
    expect(stream.result.new_messages.at(-1).content[0].text).toBe('Half an ans')
    expect(stream.result.usage).toMatchObject({ input_tokens: 7, output_tokens: 3 })
  })
})

describe('a message from one agent to another', () => {
  test('200 runs the recipient within the run, its events labelled with caller and call', async () => {
    const worker = new Agent({ name: 'Dev Worker', description: 'Develops.', instructions: 'Work.', model: 'gpt-test' })
    const boss = new Agent({ name: 'CEO', instructions: 'Delegate.', model: 'gpt-test' })
    const server = await startTestServer({
      agencies: { two: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) },
    })
    const message = { recipient_agent: 'Dev Worker', message: 'Do it', additional_instructions: '' }
    server.provider.respond((request) => {
      if (request.instructions.startsWith('Work')) return text('Done by worker')
      return request.toolOutputs.length > 0
        ? text('All done')
        : toolCall('send_message', message, { callId: 'call_123' })
    })

    const stream = await (await server.stream('/two/get_response_stream', { message: 'build' })).all()

    const nested = stream.events.filter((event) => event.agent === 'Dev Worker')
    expect(nested.length).toBeGreaterThan(5)
    for (const event of nested) expect(event).toMatchObject({ callerAgent: 'CEO', parent_run_id: 'call_123' })
    const items = stream.result.new_messages.map((item: Record<string, unknown>) => [
      item['role'] ?? item['type'],
      item['agent'],
      item['callerAgent'],
      item['parent_run_id'],
    ])
    expect(items).toEqual([
      ['user', 'CEO', null, undefined],
      ['user', 'Dev Worker', 'CEO', 'call_123'],
      ['assistant', 'Dev Worker', 'CEO', 'call_123'],
      ['function_call', 'CEO', null, undefined],
      ['function_call_output', 'CEO', null, undefined],
      ['assistant', 'CEO', null, undefined],
    ])
    expect(stream.result.usage.request_count).toBe(3)
  })
})

describe('a handoff', () => {
  test('200 moves the conversation: requested, occured, agent updated, and the reminder after the call', async () => {
    const sales = new Agent({ name: 'Sales Desk', instructions: 'Sell.', model: 'gpt-test' })
    const front = new Agent({ name: 'Front', instructions: 'Greet.', model: 'gpt-test', handoffs: [sales] })
    const server = await startTestServer({ agencies: { shop: new Agency({ entryPoint: front }) } })
    server.provider.script([toolCall('transfer_to_Sales_Desk', {}), text('Welcome to sales')])

    const stream = await (await server.stream('/shop/get_response_stream', { message: 'buy' })).all()

    const steps = stream.outline.filter((step) => /^(tool_called|handoff|agent:|message_output)/.test(step))
    expect(steps).toEqual([
      'agent:Front',
      'tool_called',
      'handoff_requested',
      'handoff_occured',
      'agent:Sales Desk',
      'message_output_created',
    ])
    expect(stream.events.every((event) => event.callerAgent === null)).toBe(true)
    const items = stream.result.new_messages.map((item: Record<string, unknown>) => [
      item['type'],
      item['agent'],
      item['message_origin'],
    ])
    expect(items).toEqual([
      ['message', 'Front', undefined],
      ['function_call', 'Front', undefined],
      ['function_call_output', 'Front', undefined],
      ['message', 'Front', 'handoff_reminder'],
      ['message', 'Sales Desk', undefined],
    ])
    expect(server.provider.modelRequests[1]!.body['instructions']).toBe('Sell.')
    expect(server.provider.rejected).toEqual([])
  })
})
