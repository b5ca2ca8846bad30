import { Agent as SdkAgent, OpenAIResponsesModel, run as runSdk, tool as sdkTool } from '@openai/agents'
import { Agency, Agent, tool } from '@bureau/framework'
import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  errorEvent,
  failed,
  hold,
  incomplete,
  reasoning,
  status,
  text,
  textDeltas,
  toolCall,
  usage,
  webSearch,
} from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

const lookUp = tool({
  name: 'look_up',
  description: 'Looks something up.',
  parameters: z.object({ key: z.string() }),
  execute: ({ key }) => `value of ${key}`,
})

const weather: OpenAI.Responses.FunctionTool = {
  type: 'function',
  name: 'get_weather',
  description: 'The weather in a city.',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  strict: false,
}

const keeping = { openai: { keepResponsesMs: 60_000 } }

const clientOf = (server: TestServer): OpenAI =>
  new OpenAI({ apiKey: 'unused', baseURL: `${server.url}/openai/v1`, maxRetries: 0 })

type Event = OpenAI.Responses.ResponseStreamEvent

async function eventsOf(server: TestServer, request: object = {}): Promise<Event[]> {
  const stream = await clientOf(server).responses.create({ model: 'solo', input: 'Hello', stream: true, ...request })
  const events: Event[] = []
  for await (const event of stream) events.push(event)
  return events
}

const finalOf = (events: readonly Event[]): Json => (events.at(-1) as Json).response

const typesOf = (events: readonly Event[]): string[] => events.map(({ type }) => type.replace('response.', ''))

/** Text that differs from run to run replaced, so that two ways to one answer can be compared. */
const comparable = (output: readonly Json[]): Json[] => output.map((item) => ({ ...item, id: 'id' }))

describe('POST /openai/v1/responses', () => {
  test('answers with the whole resource', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([[text('Bonjour.'), usage({ input: 20, output: 7, cached: 8, reasoning: 3 })]])

    const response = await clientOf(server).responses.create({
      model: 'solo',
      input: 'Hello',
      instructions: 'Speak French.',
      metadata: { a: 'b' },
      temperature: 0.3,
    })

    expect(response.output_text).toBe('Bonjour.')
    expect(response).toMatchObject({
      id: expect.stringMatching(/^resp_[0-9a-f]{32}$/),
      object: 'response',
      status: 'completed',
      model: 'solo',
      instructions: 'Speak French.',
      metadata: { a: 'b' },
      temperature: 0.3,
      store: false,
      output: [{ type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text' }] }],
      usage: {
        input_tokens: 20,
        input_tokens_details: { cached_tokens: 8 },
        output_tokens: 7,
        output_tokens_details: { reasoning_tokens: 3 },
        total_tokens: 27,
      },
    })
    const { instructions, body } = server.provider.modelRequests[0]!
    expect(instructions).toBe('You are the secret instructions.\n\nSpeak French.')
    expect(body).not.toHaveProperty('temperature')
  })

  test('a run of several model requests is one response: numbers and places go on, ids are unique', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [lookUp] }) })
    server.provider.respond(({ toolOutputs }) =>
      toolOutputs.length === 0
        ? [reasoning({ summary: ['Hm.'] }), text('Let me see.'), toolCall('look_up', { key: 'a' })]
        : [reasoning({ summary: ['Ah.'] }), textDeltas(['It "is"\n', 'value\\ of ä 😀.'])],
    )

    const events = await eventsOf(server)
    const plain = await clientOf(server).responses.create({ model: 'solo', input: 'Hello' })

    expect(events.map((event) => event.sequence_number)).toEqual(events.map((_, index) => index))
    expect(typesOf(events).filter((type) => /^(?:created|in_progress|completed)$/.test(type))).toEqual([
      'created',
      'in_progress',
      'completed',
    ])
    const added = events.filter((event) => event.type === 'response.output_item.added')
    expect(added.map(({ item, output_index }) => [output_index, item.type])).toEqual([
      [0, 'reasoning'],
      [1, 'message'],
      [2, 'reasoning'],
      [3, 'message'],
    ])
    expect(new Set(added.map(({ item }) => item.id)).size).toBe(4)
    const last = finalOf(events)
    expect(last.output.map(({ id }: Json) => id)).toEqual(added.map(({ item }) => item.id))
    expect(last.output.at(-1).content[0].text).toBe('It "is"\nvalue\\ of ä 😀.')
    expect(comparable(plain.output)).toEqual(comparable(last.output))
    const deltas = events.filter((event) => event.type === 'response.output_text.delta')
    expect(deltas.map(({ delta }) => delta).join('')).toBe('Let me see.It "is"\nvalue\\ of ä 😀.')
    expect(deltas.every(({ item_id, output_index }) => added[output_index]!.item.id === item_id)).toBe(true)
  })

  test('the stream helper of the SDK puts the response together', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [lookUp] }) })
    server.provider.respond(({ toolOutputs }) =>
      toolOutputs.length === 0 ? [text('Let me see.'), toolCall('look_up', { key: 'a' })] : text('Done.'),
    )

    const stream = clientOf(server).responses.stream({
      model: 'solo',
      input: 'Hello',
      include: ['bureau:steps' as 'message.output_text.logprobs'],
    })
    const response = await stream.finalResponse()

    expect(response.output_text).toBe('Let me see.Done.')
  })

  test('items that servers name alike get ids of their own', async () => {
    const server = await startTestServer({
      agencies: soloAgency({ tools: [lookUp] }),
      env: { OPENAI_API: 'chat_completions' },
    })
    server.provider.respond(({ toolOutputs }) =>
      toolOutputs.length === 0 ? [text('Let me see.'), toolCall('look_up', { key: 'a' })] : text('Done.'),
    )

    const { output } = finalOf(await eventsOf(server))

    expect(output.map(({ content }: Json) => content[0].text)).toEqual(['Let me see.', 'Done.'])
    expect(new Set(output.map(({ id }: Json) => id)).size).toBe(2)
  })

  test('hosted tools of the provider keep the types that clients know', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => [webSearch('bureau'), text('Found.')])

    const { output } = finalOf(await eventsOf(server))

    expect(output.map(({ type }: Json) => type)).toEqual(['web_search_call', 'message'])
  })

  test('what was cut off by a limit is incomplete', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => incomplete('max_output_tokens', 'Half an'))

    const events = await eventsOf(server, { max_output_tokens: 16 })
    const plain = await clientOf(server).responses.create({ model: 'solo', input: 'Hello' })

    expect(typesOf(events).at(-1)).toBe('incomplete')
    expect(plain).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } })
    expect(plain.output_text).toBe('Half an')
    expect(server.provider.modelRequests[0]!.body['max_output_tokens']).toBe(16)
  })

  test.each([
    { name: 'a failed response', ending: failed('server_error') },
    { name: 'an error in its stream', ending: errorEvent('server_error') },
  ])('a run that fails by $name of the provider: an error, which the SDK throws', async ({ ending }) => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => [text('Half'), ending])

    const raw = await (await server.stream('/openai/v1/responses', { model: 'solo', input: 'x', stream: true })).all()
    const plain = clientOf(server).responses.create({ model: 'solo', input: 'Hello' })

    const code = 'upstream_unavailable'
    await expect(plain).rejects.toMatchObject({ status: 502, code })
    await expect(eventsOf(server)).rejects.toMatchObject({ code, message: expect.stringContaining('model provider') })
    expect(raw.frames.slice(-3).map(({ event }) => event)).toEqual(['error', 'response.failed', null])
    expect(JSON.parse(raw.frames.at(-2)!.data).response).toMatchObject({ status: 'failed', error: { code } })
    expect(raw.frames.at(-1)!.data).toBe('[DONE]')
  })

  test('items whose ends come with the whole response only are there once, and finished', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const id = 'msg_1'
    const begun = { id, type: 'message', role: 'assistant', status: 'in_progress', content: [] }
    const part = { type: 'output_text', text: 'Hello.', annotations: [] }
    const call = { id: 'fc_1', type: 'function_call', call_id: 'call_1', name: 'get_weather', arguments: '{}' }
    const output = [{ ...begun, status: 'completed', content: [part] }, call]
    const events = [
      { type: 'response.output_item.added', output_index: 0, item: begun },
      { type: 'response.output_text.delta', output_index: 0, item_id: id, content_index: 0, delta: 'Hello.' },
      { type: 'response.output_item.added', output_index: 1, item: { ...call, arguments: '' } },
      { type: 'response.completed', response: { id: 'resp_1', status: 'completed', output } },
    ].map((event, sequence_number) => `data: ${JSON.stringify({ ...event, sequence_number })}\n\n`)
    server.provider.script([status(200, events.join(''), { 'content-type': 'text/event-stream' })])

    const seen = await eventsOf(server, { tools: [weather] })

    expect(typesOf(seen).slice(2)).toEqual([
      'output_item.added',
      'output_text.delta',
      'output_item.added',
      'output_item.done',
      'output_item.done',
      'completed',
    ])
    expect(finalOf(seen).output).toMatchObject([{ id, content: [{ text: 'Hello.' }] }, { call_id: 'call_1' }])
  })

  test('a client that hangs up ends its run', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['One', hold(gate), ' two'])])
    const stream = await clientOf(server).responses.create({ model: 'solo', input: 'Hello', stream: true })
    for await (const event of stream) if (event.type === 'response.output_text.delta') break

    await server.provider.waitForAborts(1)

    expect(server.provider.aborted).toBe(1)
  })

  test('the items of a conversation go to the agent', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => text('ok'))
    const first = await clientOf(server).responses.create({ model: 'solo', input: 'Hello' })

    await clientOf(server).responses.create({
      model: 'solo/Solo',
      input: [
        { role: 'developer', content: 'Be brief.' },
        { role: 'user', content: 'Hello' },
        ...(first.output as OpenAI.Responses.ResponseOutputMessage[]),
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'And this?' },
            { type: 'input_image', image_url: 'data:image/png;base64,iVBORw0KGgo=', detail: 'low' },
          ],
        },
      ],
    })

    const { instructions, body } = server.provider.modelRequests[1]!
    expect(instructions).toBe('You are the secret instructions.\n\nBe brief.')
    expect(body['input']).toMatchObject([
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: [{ text: 'ok' }] },
      { role: 'user', content: [{ text: 'And this?' }, { type: 'input_image' }] },
    ])
  })
})

describe('functions of the caller', () => {
  test('end the response with their call, which is answered by the next request', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [lookUp] }) })
    server.provider.respond(({ toolOutputs }) =>
      toolOutputs.length === 0
        ? [toolCall('look_up', { key: 'a' }), toolCall('get_weather', { city: 'Oslo' })]
        : text(`It is ${String(toolOutputs.at(-1)?.output)}.`),
    )
    const client = clientOf(server)
    const question = { role: 'user' as const, content: 'Weather?' }

    const first = await client.responses.create({ model: 'solo', input: [question], tools: [weather] })
    const streamed = finalOf(await eventsOf(server, { tools: [weather] }))
    const [call, ...others] = first.output as OpenAI.Responses.ResponseFunctionToolCall[]
    const second = await client.responses.create({
      model: 'solo',
      input: [question, call!, { type: 'function_call_output', call_id: call!.call_id, output: 'cold' }],
      tools: [weather],
    })

    expect(others).toEqual([])
    expect(call).toMatchObject({ type: 'function_call', name: 'get_weather', arguments: '{"city":"Oslo"}' })
    expect(comparable(streamed.output)).toMatchObject([{ type: 'function_call', arguments: '{"city":"Oslo"}' }])
    expect(first.status).toBe('completed')
    expect(second.output_text).toBe('It is cold.')
  })

  test('stream their arguments', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => toolCall('get_weather', { city: 'Oslo' }))

    const events = await eventsOf(server, { tools: [weather] })

    const deltas = events.filter((event) => event.type === 'response.function_call_arguments.delta')
    expect(deltas.length).toBeGreaterThan(1)
    expect(deltas.map(({ delta }) => delta).join('')).toBe('{"city":"Oslo"}')
  })
})

describe('include: bureau:steps', () => {
  test('tool calls are items of the output, which go back as the call and its result', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [lookUp] }) })
    server.provider.respond(({ toolOutputs }) =>
      toolOutputs.length === 0 ? toolCall('look_up', { key: 'a' }) : text('Done.'),
    )
    const include = ['bureau:steps']

    const first = finalOf(await eventsOf(server, { include }))
    await eventsOf(server, {
      input: [{ role: 'user', content: 'Hello' }, ...first.output, { role: 'user', content: '?' }],
    })

    expect(first.output[0]).toEqual({
      type: 'bureau:tool_call',
      id: expect.any(String),
      status: 'completed',
      agent: 'Solo',
      name: 'look_up',
      call_id: expect.any(String),
      arguments: '{"key":"a"}',
      output: 'value of a',
    })
    expect(server.provider.modelRequests[2]!.body['input']).toMatchObject([
      { role: 'user' },
      { type: 'function_call', name: 'look_up' },
      { type: 'function_call_output', output: 'value of a' },
      { role: 'assistant' },
      { role: 'user' },
    ])
  })

  test('handoffs and messages between agents are items, what the other agent does is not', async () => {
    const worker = new Agent({ name: 'Worker', instructions: 'I am Worker.', model: 'gpt-test', tools: [lookUp] })
    const clerk = new Agent({ name: 'Clerk', instructions: 'I am Clerk.', model: 'gpt-test' })
    const boss = new Agent({ name: 'Boss', instructions: 'I am Boss.', model: 'gpt-test', handoffs: [clerk] })
    const agency = new Agency({ entryPoint: boss, flows: [[boss, worker]] })
    const server = await startTestServer({ agencies: { solo: agency } })
    const message = { recipient_agent: 'Worker', message: 'Do it', additional_instructions: '' }
    server.provider.respond(({ instructions, toolOutputs }) => {
      if (instructions === 'I am Clerk.') return text('Clerk here.')
      if (instructions === 'I am Worker.')
        return toolOutputs.length > 0 ? text('worked') : toolCall('look_up', { key: 'a' })
      return toolOutputs.length === 0 ? toolCall('send_message', message) : toolCall('transfer_to_Clerk')
    })

    const { output } = finalOf(await eventsOf(server, { include: ['bureau:steps'] }))

    expect(comparable(output)).toMatchObject([
      {
        type: 'bureau:agent_message',
        status: 'completed',
        caller: 'Boss',
        agent: 'Worker',
        call_id: expect.any(String),
        message: 'Do it',
        answer: 'worked',
      },
      { type: 'bureau:handoff', status: 'completed', from: 'Boss', to: 'Clerk' },
      expect.objectContaining({ type: 'message' }),
    ])
  })
})

describe('refusals', () => {
  test.each([
    { body: {}, param: 'input' },
    { body: { input: [] }, param: 'input' },
    { body: { input: [{ role: 'robot', content: 'x' }] }, param: 'input[0].role' },
    { body: { input: [{ role: 'user', content: [{ text: 'x' }] }] }, param: 'input[0].content[0].type' },
    {
      body: { input: [{ role: 'user', content: [{ type: 'input_text', text: 7 }] }] },
      param: 'input[0].content[0].text',
    },
    { body: { input: '' }, param: 'input' },
    { body: { input: [] }, param: 'input' },
    { body: { input: [{ type: 'item_reference', id: 'x' }] }, param: 'input[0]' },
    { body: { input: [{ type: 'function_call_output', call_id: 'c', output: 'x' }] }, param: 'input[0].call_id' },
    { body: { input: [{ type: 'unheard of' }] }, param: 'input[0].type' },
    { body: { input: 'x', conversation: 'c' }, param: 'conversation' },
    { body: { input: 'x', prompt: { id: 'p' } }, param: 'prompt' },
    { body: { input: 'x', tools: [{ type: 'web_search' }] }, param: 'tools[0].type' },
    {
      body: { input: 'x', previous_response_id: 'resp_1' },
      param: 'previous_response_id',
      advice: 'Send the whole conversation as input, or have its operator set BUREAU_KEEP_RESPONSES_SECONDS.',
    },
    { body: { input: 'x', background: true }, param: 'background' },
    { body: { input: 'x', store: true }, param: 'store' },
    { body: { input: 'x', max_output_tokens: 3 }, param: 'max_output_tokens' },
    { body: { input: 'x', metadata: { a: 7 } }, param: 'metadata.a' },
  ])('400 for $param', async ({ body, param, advice = '' }) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await server.post('/openai/v1/responses', { model: 'solo', ...body })

    expect([answer.status, answer.body.error.param]).toEqual([400, param])
    expect(answer.body.error).toMatchObject({
      message: expect.stringContaining(advice),
      type: 'invalid_request_error',
    })
    expect(server.provider.requests).toEqual([])
  })

  test('404 for responses, where none are kept', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    expect((await server.get('/openai/v1/responses/resp_1')).status).toBe(404)
  })
})

describe('responses that are kept', () => {
  test('the items of a request come page by page; an id that none of them has is refused', async () => {
    const server = await startTestServer({ agencies: soloAgency(), ...keeping })
    server.provider.respond(() => text('Hi.'))
    const input = ['One', 'Two', 'Three'].map((content) => ({ role: 'user', content }))
    const asListed = (text: string) => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] })
    const { id } = (await server.post('/openai/v1/responses', { model: 'solo', input })).body
    const page = (query: string) => server.get(`/openai/v1/responses/${id}/input_items?order=asc&${query}`)
    const said = ({ body }: Json): Json[] => body.data.map(({ type, role, content }: Json) => ({ type, role, content }))

    const first = await page('limit=2')
    const last = await page(`after=${first.body.last_id}`)
    const unknown = await page('after=in_unknown')
    const many = await page('limit=many')

    expect([said(first), said(last)]).toEqual([[asListed('One'), asListed('Two')], [asListed('Three')]])
    expect([first.body.has_more, last.body.has_more]).toEqual([true, false])
    expect([unknown.status, unknown.body.error.param]).toEqual([400, 'after'])
    expect([many.status, many.body.error.message]).toEqual([400, 'limit: must be a whole number'])
  })

  test.each([
    { options: {}, status: 200 },
    { options: { openai: { keepResponsesMs: 0 } }, status: 404 },
  ])('as BUREAU_KEEP_RESPONSES_SECONDS says, unless $options do: $status', async ({ options, status }) => {
    const env = { BUREAU_KEEP_RESPONSES_SECONDS: '60' }
    const server = await startTestServer({ agencies: soloAgency(), ...options, env })
    server.provider.script([text('Hi.')])
    const { body } = await server.post('/openai/v1/responses', { model: 'solo', input: 'Hello' })

    expect((await server.get(`/openai/v1/responses/${body.id}`)).status).toBe(status)
  })

  test('previous_response_id goes on with the whole conversation, without the instructions of before', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [lookUp] }), ...keeping })
    server.provider.respond(({ toolOutputs, lastUserText }) =>
      lastUserText === 'One' && toolOutputs.length === 0
        ? toolCall('look_up', { key: 'a' })
        : text(`To ${lastUserText}.`),
    )
    const client = clientOf(server)

    const first = await client.responses.create({ model: 'solo', input: 'One', instructions: 'Old.' })
    const second = await client.responses.create({ model: 'solo', input: 'Two', previous_response_id: first.id })

    expect(second).toMatchObject({ output_text: 'To Two.', previous_response_id: first.id, store: true })
    const { body, instructions } = server.provider.modelRequests.at(-1)!
    expect(instructions).toBe('You are the secret instructions.')
    expect((body['input'] as Json[]).map(({ type, role }) => role ?? type)).toEqual([
      'user',
      'function_call',
      'function_call_output',
      'assistant',
      'user',
    ])
  })

  test('can be read, listed and deleted', async () => {
    const server = await startTestServer({ agencies: soloAgency(), ...keeping })
    server.provider.respond(() => text('Hi.'))
    const { responses } = clientOf(server)
    const input = [{ role: 'user' as const, content: 'Hello' }]
    const made = await responses.create({ model: 'solo', input })

    const read = await responses.retrieve(made.id)
    const items = await responses.inputItems.list(made.id)
    await responses.delete(made.id)

    expect(read.output).toEqual(made.output)
    const content = [{ type: 'input_text', text: 'Hello' }]
    expect(items.data).toEqual([{ type: 'message', role: 'user', content, id: expect.any(String) }])
    await expect(responses.retrieve(made.id)).rejects.toMatchObject({ status: 404, code: 'response_not_found' })
    await expect(responses.create({ model: 'solo', input, previous_response_id: made.id })).rejects.toMatchObject({
      status: 404,
      code: 'previous_response_not_found',
    })
  })

  test('store: false is not kept', async () => {
    const server = await startTestServer({ agencies: soloAgency(), ...keeping })
    server.provider.respond(() => text('Hi.'))
    const made = await clientOf(server).responses.create({ model: 'solo', input: 'x', store: false })

    await expect(clientOf(server).responses.retrieve(made.id)).rejects.toMatchObject({ status: 404 })
  })
})

describe('background', () => {
  test('goes on without its client, and is read until it is done', async () => {
    const server = await startTestServer({ agencies: soloAgency(), ...keeping })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['One', hold(gate), ' two.'])])
    const { responses } = clientOf(server)

    const begun = await responses.create({ model: 'solo', input: 'x', background: true })
    await server.provider.waitForRequests(1)
    const before = await responses.retrieve(begun.id)
    gate.release()
    const events: Event[] = []
    for await (const event of await responses.retrieve(begun.id, { stream: true })) events.push(event)
    const after = await responses.retrieve(begun.id)

    expect([begun.status, before.status, after.status]).toEqual(['in_progress', 'in_progress', 'completed'])
    expect(after.output_text).toBe('One two.')
    expect(finalOf(events).output).toEqual(after.output)
  })

  test('its stream goes on after the last event that a client has', async () => {
    const server = await startTestServer({ agencies: soloAgency(), ...keeping })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['One', hold(gate), ' two.'])])
    const { responses } = clientOf(server)
    const seen: Event[] = []
    const stream = await responses.create({ model: 'solo', input: 'x', background: true, stream: true })
    for await (const event of stream) {
      seen.push(event)
      if (event.type === 'response.output_text.delta') break
    }
    const { id } = (seen[0] as Extract<Event, { type: 'response.created' }>).response
    gate.release()

    const starting_after = seen.at(-1)!.sequence_number
    const rest: Event[] = []
    for await (const event of await responses.retrieve(id, { stream: true, starting_after })) rest.push(event)

    const all = [...seen, ...rest]
    expect(all.map((event) => event.sequence_number)).toEqual(all.map((_, index) => index))
    expect(finalOf(all).output[0].content[0].text).toBe('One two.')
    expect(server.provider.aborted).toBe(0)
  })

  test('can be cancelled', async () => {
    const server = await startTestServer({ agencies: soloAgency(), ...keeping })
    server.provider.script([textDeltas(['One', hold(server.provider.gate()), ' two.'])])
    const { responses } = clientOf(server)
    const begun = await responses.create({ model: 'solo', input: 'x', background: true })
    await server.provider.waitForRequests(1)

    const cancelled = await responses.cancel(begun.id)

    expect(cancelled.status).toBe('cancelled')
    expect((await responses.retrieve(begun.id)).status).toBe('cancelled')
    await server.provider.waitForAborts(1)
  })
})

describe('agents of the OpenAI Agents SDK', () => {
  test('run on an agency as their model', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [lookUp] }) })
    server.provider.respond(({ toolOutputs }) => {
      const last = toolOutputs.at(-1)?.output
      if (last === 'cold') return text('Cold in Oslo.')
      return last === undefined ? toolCall('look_up', { key: 'a' }) : toolCall('get_weather', { city: 'Oslo' })
    })
    const asked: string[] = []
    const getWeather = sdkTool({
      name: 'get_weather',
      description: 'The weather in a city.',
      parameters: z.object({ city: z.string() }),
      execute: async ({ city }) => {
        asked.push(city)
        return 'cold'
      },
    })
    const agent = new SdkAgent({
      name: 'Outer',
      instructions: 'Be brief.',
      model: new OpenAIResponsesModel(clientOf(server), 'solo'),
      tools: [getWeather],
    })

    const result = await runSdk(agent, 'Weather?')
    const streamed = await runSdk(agent, 'Weather?', { stream: true })
    await streamed.completed

    expect(asked).toEqual(['Oslo', 'Oslo'])
    expect([result.finalOutput, streamed.finalOutput]).toEqual(['Cold in Oslo.', 'Cold in Oslo.'])
  })
})
