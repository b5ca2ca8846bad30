import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { reasoning, startFakeProvider, text, toolCall, type FakeProvider } from '../fake-provider.ts'
import { askChat, askResponses, framesOf, pick } from './ask-provider.ts'
import type { JsonObject } from './json-object.ts'

let provider: FakeProvider
beforeEach(async () => {
  provider = await startFakeProvider()
  provider.respond(() => text('ok'))
})
afterEach(() => provider.close())

const user = { role: 'user', content: 'hi' }
const call = { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'add', arguments: '{}', status: 'completed' }
const result = { type: 'function_call_output', call_id: 'call_1', output: '3' }
const thought = { type: 'reasoning', id: 'rs_1', summary: [] }
const answer = {
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text: 'x' }],
}

async function refusal(
  response: Response,
): Promise<{ status: number; message: string; param: unknown; code: unknown }> {
  const error: unknown = pick(await response.json(), 'error')
  const [message, param, code] = ['message', 'param', 'code'].map((key) => pick(error, key))
  return { status: response.status, message: String(message), param, code }
}

describe('input items of the Responses API', () => {
  test.each([
    { name: 'a plain message', input: [user] },
    { name: 'a text', input: 'hi' },
    { name: 'a call with its result', input: [user, call, result, answer] },
    {
      name: 'parallel calls, results after both',
      input: [call, { ...call, id: 'fc_2', call_id: 'call_2' }, result, { ...result, call_id: 'call_2' }],
    },
    { name: 'reasoning with what followed it', input: [user, thought, call, result] },
    { name: 'a system item', input: [{ type: 'message', role: 'system', content: 'note' }, user] },
  ])('$name is taken', async ({ input }) => {
    const response = await askResponses(provider, { input })

    expect(response.status).toBe(200)
    await response.text()
  })

  test.each([
    {
      name: 'metadata on a message',
      input: [{ ...user, agent: 'A' }],
      param: 'input[0].agent',
      code: 'unknown_parameter',
    },
    {
      name: 'metadata on a call',
      input: [{ ...call, callerAgent: null }, result],
      param: 'input[0].callerAgent',
      code: 'unknown_parameter',
    },
    {
      name: 'metadata on a result',
      input: [call, { ...result, timestamp: 1 }],
      param: 'input[1].timestamp',
      code: 'unknown_parameter',
    },
    { name: 'a result without its call', input: [user, result], param: 'input', code: null },
    { name: 'a result before its call', input: [result, call], param: 'input', code: null },
    { name: 'a call without its result', input: [user, call], param: 'input', code: null },
    {
      name: 'a call without call_id',
      input: [{ type: 'function_call', name: 'a', arguments: '{}' }],
      param: 'input[0].call_id',
      code: 'missing_required_parameter',
    },
    {
      name: 'a result without call_id',
      input: [{ type: 'function_call_output', output: '' }],
      param: 'input[0].call_id',
      code: 'missing_required_parameter',
    },
    {
      name: 'a call id as item id',
      input: [{ ...call, id: 'call_1' }, result],
      param: 'input[0].id',
      code: 'invalid_value',
    },
    {
      name: 'an id that is too long',
      input: [{ ...call, call_id: 'c'.repeat(65) }],
      param: 'input[0].call_id',
      code: 'string_above_max_length',
    },
    {
      name: 'arguments that are no text',
      input: [{ ...call, arguments: {} }, result],
      param: 'input[0].arguments',
      code: 'invalid_type',
    },
    {
      name: 'user content with assistant parts',
      input: [{ role: 'user', content: [{ type: 'output_text', text: 'x' }] }],
      param: 'input[0].content[0].type',
      code: 'invalid_value',
    },
    {
      name: 'assistant content with user parts',
      input: [{ role: 'assistant', content: [{ type: 'input_text', text: 'x' }] }],
      param: 'input[0].content[0].type',
      code: 'invalid_value',
    },
    {
      name: 'a role of chat completions',
      input: [{ role: 'tool', content: 'x' }],
      param: 'input[0].role',
      code: 'invalid_value',
    },
    {
      name: 'a type that nobody knows',
      input: [{ type: 'dream_call' }],
      param: 'input[0].type',
      code: 'invalid_value',
    },
    { name: 'reasoning with nothing after it', input: [user, thought], param: 'input', code: null },
    { name: 'reasoning before a user message', input: [thought, user], param: 'input', code: null },
    { name: 'the same id twice', input: [answer, user, answer], param: 'input', code: null },
  ])('400 for $name', async ({ input, param, code }) => {
    const refused = await refusal(await askResponses(provider, { input }))

    expect(refused).toMatchObject({ status: 400, param, code })
    expect(provider.rejected).toHaveLength(1)
  })

  test('an answer of the provider is taken back as it was', async () => {
    provider.script([[reasoning({ summary: ['Hm.'] }), toolCall('add', {}, { callId: 'call_1' })]])
    const frames = await framesOf(await askResponses(provider))
    const output = pick(frames.at(-1)?.json, 'response.output') as JsonObject[]

    const whole = await askResponses(provider, { input: [user, ...output, result] })
    const halved = await refusal(await askResponses(provider, { input: [user, output[1], result] }))

    expect(whole.status).toBe(200)
    expect(halved.message).toContain("without its required 'reasoning' item")
  })

  test('404 for reasoning that was not stored and is not sealed', async () => {
    const turn = [reasoning({ encrypted: 'sealed' }), text('x')]
    provider.script([turn, turn])
    const ask = async (fields: JsonObject): Promise<JsonObject[]> => {
      const frames = await framesOf(await askResponses(provider, { store: false, ...fields }))
      return pick(frames.at(-1)?.json, 'response.output') as JsonObject[]
    }
    const [bare, sealed] = [await ask({}), await ask({ include: ['reasoning.encrypted_content'] })]

    const lost = await refusal(await askResponses(provider, { store: false, input: [...bare, user] }))
    const kept = await askResponses(provider, { store: false, input: [...sealed, user] })

    expect(lost.status).toBe(404)
    expect(kept.status).toBe(200)
  })
})

describe('other fields of the Responses API', () => {
  const open = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
  const closed = { ...open, additionalProperties: false }
  const tool = (parameters: unknown, fields: JsonObject = {}): JsonObject => ({
    tools: [{ type: 'function', name: 'get_weather', strict: true, parameters, ...fields }],
  })

  test.each([
    { name: 'an unknown parameter', fields: { run_id: 'x' }, message: "Unknown parameter: 'run_id'" },
    { name: 'no model', fields: { model: undefined }, message: "Missing required parameter: 'model'" },
    {
      name: 'a conversation that the provider does not keep',
      fields: { previous_response_id: 'resp_1' },
      message: 'not found',
    },
    { name: 'an open strict schema', fields: tool(open), message: "'additionalProperties' is required" },
    {
      name: 'an open schema further in',
      fields: tool({ ...closed, properties: { city: { ...open } } }),
      message: "context=('properties', 'city')",
    },
    {
      name: 'an optional property in a strict schema',
      fields: tool({ ...closed, required: [] }),
      message: "Missing 'city'",
    },
    {
      name: 'a default in a strict schema',
      fields: tool({ ...closed, properties: { city: { type: 'string', default: 'x' } } }),
      message: "'default' is not permitted",
    },
    { name: 'a tool name with a space', fields: tool(closed, { name: 'get weather' }), message: 'does not match' },
    {
      name: 'a name on a tool of the service',
      fields: { tools: [{ type: 'web_search', name: 'web_search' }] },
      message: "Unknown parameter: 'tools[0].name'",
    },
    {
      name: 'a choice of a tool that is not offered',
      fields: { tool_choice: { type: 'function', name: 'x' } },
      message: "not found in 'tools'",
    },
    {
      name: 'an open strict output schema',
      fields: { text: { format: { type: 'json_schema', name: 'o', strict: true, schema: open } } },
      message: 'response_format',
    },
  ])('400 for $name', async ({ fields, message }) => {
    const refused = await refusal(await askResponses(provider, fields))

    expect(refused.status).toBe(400)
    expect(refused.message).toContain(message)
  })

  test('closed strict schemas and open loose ones are taken', async () => {
    const strict = await askResponses(provider, tool(closed))
    const loose = await askResponses(provider, tool(open, { strict: false }))

    expect([strict.status, loose.status]).toEqual([200, 200])
    await Promise.all([strict.text(), loose.text()])
  })
})

describe('messages of Chat Completions', () => {
  const calls = {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'a', arguments: '{}' } }],
  }
  const told = { role: 'tool', tool_call_id: 'call_1', content: '3' }

  test('a call with its result is taken', async () => {
    const response = await askChat(provider, { messages: [user, calls, told] })

    expect(response.status).toBe(200)
    await response.text()
  })

  test.each([
    {
      name: 'a result without its call',
      fields: { messages: [user, told] },
      message: "role 'tool' must be a response",
    },
    {
      name: 'a call without its result',
      fields: { messages: [user, calls] },
      message: 'did not have response messages: call_1',
    },
    {
      name: 'a message between call and result',
      fields: { messages: [calls, user, told] },
      message: 'did not have response messages',
    },
    {
      name: 'metadata on a message',
      fields: { messages: [{ ...user, agent: 'A' }] },
      message: "Unknown parameter: 'messages[0].agent'",
    },
    {
      name: 'an assistant without content or calls',
      fields: { messages: [{ role: 'assistant', content: null }] },
      message: 'messages[0].content',
    },
    {
      name: 'stream options without a stream',
      fields: { stream: false, stream_options: { include_usage: true } },
      message: 'stream_options',
    },
    {
      name: 'an open strict schema',
      fields: {
        tools: [
          { type: 'function', function: { name: 'a', strict: true, parameters: { type: 'object', properties: {} } } },
        ],
      },
      message: 'additionalProperties',
    },
  ])('400 for $name', async ({ fields, message }) => {
    const refused = await refusal(await askChat(provider, fields))

    expect(refused.status).toBe(400)
    expect(refused.message).toContain(message)
  })
})
