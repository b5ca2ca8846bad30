import type { IncomingMessage } from 'node:http'
import { text as readText } from 'node:stream/consumers'
import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogle } from '@ai-sdk/google'
import { Agency, Agent, type LanguageModel, tool } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { startHttpServer } from '../support/http-server.ts'
import { freePort } from '../support/free-port.ts'
import { text } from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

type Vendor = {
  readonly url: string
  readonly requests: { readonly headers: IncomingMessage['headers']; readonly body: Json }[]
  /** What the next requests are answered with, each a list of events. */
  readonly answers: object[][]
}

/** A vendor with an API of its own, over real sockets. */
async function startVendor(): Promise<Vendor> {
  const vendor: Vendor = { url: '', requests: [], answers: [] }
  const url = await startHttpServer((request, response) => {
    void readText(request).then((body) => {
      vendor.requests.push({ headers: request.headers, body: JSON.parse(body) })
      const events = vendor.answers.shift()
      if (!events) return response.writeHead(400).end('{}')
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      for (const event of events as { type?: string }[]) {
        if (event.type) response.write(`event: ${event.type}\n`)
        response.write(`data: ${JSON.stringify(event)}\n\n`)
      }
      return response.end()
    })
  })
  return { ...vendor, url }
}

/** The blocks of one answer of Anthropic, each with its deltas. */
function claude(stopReason: string, ...blocks: readonly [block: object, ...deltas: object[]][]): object[] {
  const usage = { input_tokens: 10, output_tokens: 1 }
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude-x', content: [], usage }
  return [
    { type: 'message_start', message: { ...message, stop_reason: null, stop_sequence: null } },
    ...blocks.flatMap(([block, ...deltas], index) => [
      { type: 'content_block_start', index, content_block: block },
      ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
      { type: 'content_block_stop', index },
    ]),
    { type: 'message_delta', delta: { stop_reason: stopReason, stop_sequence: null }, usage: { output_tokens: 20 } },
    { type: 'message_stop' },
  ]
}

const said = (words: string): [object, object] => [
  { type: 'text', text: '' },
  { type: 'text_delta', text: words },
]
const thought = (words: string, signature: string): [object, object, object] => [
  { type: 'thinking', thinking: '' },
  { type: 'thinking_delta', thinking: words },
  { type: 'signature_delta', signature },
]
const called = (id: string, input: object): [object, object] => [
  { type: 'tool_use', id, name: 'weather', input: {} },
  { type: 'input_json_delta', partial_json: JSON.stringify(input) },
]

const gemini = (parts: object[], more: object = {}): object => ({
  candidates: [{ content: { role: 'model', parts }, index: 0, ...more }],
  usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 },
})

const weather = tool({
  name: 'weather',
  description: 'tells the weather',
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => `fine in ${city}`,
})

async function ask(server: TestServer, message: unknown, chat_history: Json = []): Promise<Json> {
  const { body } = await server.post('/solo/get_response', { message, chat_history })
  expect(body.error).toBeUndefined()
  return body
}

function anthropicAt(vendor: Vendor): LanguageModel {
  return createAnthropic({ baseURL: `${vendor.url}/v1`, apiKey: 'sk-of-the-object' })('claude-x')
}

function googleAt(vendor: Vendor): LanguageModel {
  return createGoogle({ baseURL: `${vendor.url}/v1beta`, apiKey: 'sk-of-the-object' })('gemini-x')
}

describe('anthropic(…) as the model of an agent', () => {
  test('thinks, calls a tool, and gets its signed thoughts back in the same and in the next run', async () => {
    const vendor = await startVendor()
    const server = await startTestServer({ agencies: soloAgency({ model: anthropicAt(vendor), tools: [weather] }) })
    vendor.answers.push(
      claude('tool_use', thought('Oslo it is.', 'sig-1'), called('toolu_1', { city: 'Oslo' })),
      claude('end_turn', thought('Good.', 'sig-2'), said('Fine weather.')),
      claude('end_turn', said('You are welcome.')),
    )

    const first = await ask(server, 'How is Oslo?')
    const second = await ask(server, 'Thanks', first.new_messages)

    expect([first.response, second.response]).toEqual(['Fine weather.', 'You are welcome.'])
    expect(vendor.requests[0]).toMatchObject({
      headers: { 'x-api-key': 'sk-of-the-object' },
      body: { model: 'claude-x', stream: true, tools: [{ name: 'weather' }] },
    })
    const round = [
      { role: 'user', content: [{ type: 'text', text: 'How is Oslo?' }] },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Oslo it is.', signature: 'sig-1' },
          { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { city: 'Oslo' } },
        ],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'fine in Oslo' }] },
    ]
    expect(vendor.requests[1]!.body.messages).toMatchObject(round)
    expect(vendor.requests[2]!.body.messages).toMatchObject([
      ...round,
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Good.', signature: 'sig-2' },
          { type: 'text', text: 'Fine weather.' },
        ],
      },
      { role: 'user', content: [{ type: 'text', text: 'Thanks' }] },
    ])
  })

  test('a call whose arguments are no JSON is answered, and goes back with its answer', async () => {
    const vendor = await startVendor()
    const server = await startTestServer({ agencies: soloAgency({ model: anthropicAt(vendor), tools: [weather] }) })
    const [call] = called('toolu_1', {})
    vendor.answers.push(
      claude('tool_use', [call, { type: 'input_json_delta', partial_json: '{"city":' }]),
      claude('end_turn', said('Once more.')),
    )

    expect((await ask(server, 'How is Oslo?')).response).toBe('Once more.')
    expect(vendor.requests[1]!.body.messages.at(-1)).toMatchObject({
      content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: expect.stringContaining('Invalid JSON') }],
    })
  })

  test('searches the web itself: the search is shown, its sources are cited, and it goes back as it was', async () => {
    const vendor = await startVendor()
    const model = createAnthropic({ baseURL: `${vendor.url}/v1`, apiKey: 'k' })
    const search = model.tools.webSearch_20250305({ maxUses: 2 })
    const server = await startTestServer({ agencies: soloAgency({ model: model('claude-x'), tools: [search] }) })
    const page = { type: 'web_search_result', url: 'https://example.com/a', title: 'A', encrypted_content: 'enc-1' }
    const citation = { ...page, type: 'web_search_result_location', cited_text: 'A.', encrypted_index: 'i' }
    vendor.answers.push(
      claude(
        'end_turn',
        [
          { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} },
          { type: 'input_json_delta', partial_json: '{"query":"a"}' },
        ],
        [{ type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [{ ...page, page_age: null }] }],
        [
          { type: 'text', text: '' },
          { type: 'text_delta', text: 'It is A.' },
          { type: 'citations_delta', citation },
        ],
      ),
      claude('end_turn', said('Yes.')),
    )

    const first = await ask(server, 'Search for a')
    await ask(server, 'Sure?', first.new_messages)

    expect(first.response).toBe('It is A.')
    expect(first.new_messages).toMatchObject([
      { role: 'user' },
      { type: 'web_search_call', status: 'completed', action: { type: 'search', query: 'a' } },
      { content: [{ annotations: [{ type: 'url_citation', url: 'https://example.com/a', title: 'A' }] }] },
    ])
    expect(vendor.requests[0]!.body.tools).toMatchObject([{ type: 'web_search_20250305', max_uses: 2 }])
    expect(vendor.requests[1]!.body.messages[1].content).toMatchObject([
      { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'a' } },
      { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [{ encrypted_content: 'enc-1' }] },
      { type: 'text', text: 'It is A.' },
    ])
  })

  test('an agent of the default vendor goes on without what only Anthropic understands', async () => {
    const vendor = await startVendor()
    const claudeAgent = new Agent({ name: 'Claude', instructions: 'x', model: anthropicAt(vendor), tools: [weather] })
    const other = new Agent({ name: 'Other', instructions: 'x', model: 'gpt-test' })
    const server = await startTestServer({ agencies: { solo: new Agency({ entryPoint: [claudeAgent, other] }) } })
    vendor.answers.push(claude('end_turn', thought('Hm.', 'sig-1'), said('Hello.')))
    server.provider.respond(() => text('ok'))

    const { new_messages: history } = await ask(server, 'hi')
    const unnumbered = history.map(({ id: _id, ...item }: Json) => item)
    for (const chat_history of [history, unnumbered]) {
      await server.post('/solo/get_response', { message: 'and?', chat_history, recipient_agent: 'Other' })
    }

    for (const { body } of server.provider.requests) expect(JSON.stringify(body)).not.toMatch(/provider|sig-1|Hm\./)
    expect(server.provider.rejected).toEqual([])
    expect(server.provider.requests).toHaveLength(2)
  })

  test('client_config leaves the object alone but for settings that every model has', async () => {
    const vendor = await startVendor()
    const server = await startTestServer({ agencies: soloAgency({ model: anthropicAt(vendor) }) })
    vendor.answers.push(claude('end_turn', said('ok')))
    const model_settings_extra_args = { max_tokens: 77, thinking_budget: 1_024, extra_headers: { 'x-team': 'blue' } }
    const client_config = { model: 'gpt-other', api_key: 'sk-caller', model_settings_extra_args }
    const { status } = await server.post('/solo/get_response', { message: 'hi', client_config })

    expect(status).toBe(200)
    expect(vendor.requests[0]).toMatchObject({
      headers: { 'x-api-key': 'sk-of-the-object', 'x-team': 'blue' },
      body: { model: 'claude-x', max_tokens: 77 },
    })
    expect(vendor.requests[0]!.body).not.toHaveProperty('thinking')
    expect(server.provider.requests).toEqual([])
  })

  test('the metadata and the usage name the model, and the server gives its price', async () => {
    const vendor = await startVendor()
    const model = createAnthropic({ baseURL: `${vendor.url}/v1`, apiKey: 'k' })('claude-sonnet-4-5')
    const server = await startTestServer({ agencies: soloAgency({ model }) })
    vendor.answers.push(claude('end_turn', said('ok')))

    const { usage } = await ask(server, 'hi')
    const metadata = await server.get('/solo/get_metadata')

    expect(metadata.text).toContain('anthropic/claude-sonnet-4-5')
    expect(usage).toMatchObject({ input_tokens: 10, output_tokens: 20 })
    expect(usage.total_cost).toBeGreaterThan(0)
  })

  test('a file at an address that the vendor does not open is downloaded under the rules of the server', async () => {
    const vendor = await startVendor()
    const files = await startHttpServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/plain' }).end('Rain.')
    })
    const file_url = `${files}/notes.txt`
    const message = [{ role: 'user', content: [{ type: 'input_file', file_url, filename: 'notes.txt' }] }]
    const agencies = soloAgency({ model: anthropicAt(vendor) })
    const open = await startTestServer({ agencies, egress: { allow: ['127.0.0.1'] } })
    const closed = await startTestServer({ agencies })
    vendor.answers.push(claude('end_turn', said('It rains.')))

    const answer = await ask(open, message)
    const refused = await closed.post('/solo/get_response', { message })

    expect(answer.response).toBe('It rains.')
    expect(JSON.stringify(vendor.requests[0]!.body.messages)).toContain('Rain.')
    expect(refused.text).toContain(`The file at ${file_url} cannot be given to the model`)
    expect(vendor.requests).toHaveLength(1)
  })

  test.each([
    ['more files', 101, 1, 'at most 100 files are downloaded for a request'],
    ['more of them', 9, 8_388_608, 'the files of a request have at most 67108864 bytes together'],
  ])('%s than a request may have fail the run', async (_what, count, bytes, why) => {
    const vendor = await startVendor()
    const files = await startHttpServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/plain' }).end('x'.repeat(bytes))
    })
    const file_url = `${files}/notes.txt`
    const content = Array.from({ length: count }, () => ({ type: 'input_file', file_url, filename: 'notes.txt' }))
    const agencies = soloAgency({ model: anthropicAt(vendor) })
    const server = await startTestServer({ agencies, egress: { allow: ['127.0.0.1'] } })
    vendor.answers.push(claude('end_turn', said('Many.')))

    const refused = await server.post('/solo/get_response', { message: [{ role: 'user', content }] })

    expect(refused.text).toContain(`The file at ${file_url} cannot be given to the model: ${why}`)
    expect(vendor.requests).toEqual([])
  })

  test.each(['', ';'])(
    'the model is told when a data URL holds no data, whatever its length: "data:%s…"',
    async (begin) => {
      const vendor = await startVendor()
      const server = await startTestServer({ agencies: soloAgency({ model: anthropicAt(vendor) }) })
      vendor.answers.push(claude('end_turn', said('I see no picture.')))
      const content = [{ type: 'input_image', image_url: `data:${begin}${'a'.repeat(1_000_000)}` }]

      await ask(server, [{ role: 'user', content }])

      expect(vendor.requests[0]!.body.messages[0].content[0].text).toContain('A file is not shown')
    },
  )

  test('a file that cannot be fetched fails the run with the address and the reason', async () => {
    const vendor = await startVendor()
    const agencies = soloAgency({ model: anthropicAt(vendor) })
    const server = await startTestServer({ agencies, egress: { allow: ['127.0.0.1'] } })
    const port = await freePort()
    const content = [{ type: 'input_file', file_url: `http://127.0.0.1:${port}/a.txt?key=secret`, filename: 'a.txt' }]

    const refused = await server.post('/solo/get_response', { message: [{ role: 'user', content }] })

    const why = 'cannot be given to the model: it could not be opened (ECONNREFUSED).'
    expect(refused.body.error).toContain(`The file at http://127.0.0.1:${port}/a.txt ${why}`)
    expect(vendor.requests).toEqual([])
  })
})

describe('google(…) as the model of an agent', () => {
  test('signs its calls and its words, gives pictures, and gets all of them back', async () => {
    const vendor = await startVendor()
    const server = await startTestServer({ agencies: soloAgency({ model: googleAt(vendor), tools: [weather] }) })
    const call = { functionCall: { name: 'weather', args: { city: 'Oslo' } }, thoughtSignature: 'sig-1' }
    const picture = { inlineData: { mimeType: 'image/png', data: 'aGk=' } }
    vendor.answers.push(
      [gemini([{ text: 'Let me see.', thought: true }, call], { finishReason: 'STOP' })],
      [gemini([{ text: 'Look: ', thoughtSignature: 'sig-2' }, picture], { finishReason: 'STOP' })],
      [gemini([{ text: 'Bye.' }], { finishReason: 'STOP' })],
    )

    const first = await ask(server, 'Paint Oslo')
    const second = await ask(server, 'Thanks', first.new_messages)

    expect(second.response).toBe('Bye.')
    expect(first.new_messages).toContainEqual(
      expect.objectContaining({ type: 'image_generation_call', result: 'aGk=', output_format: 'png' }),
    )
    const { contents, systemInstruction } = vendor.requests[2]!.body
    expect(systemInstruction.parts).toHaveLength(1)
    expect(contents).toMatchObject([
      { role: 'user', parts: [{ text: 'Paint Oslo' }] },
      { role: 'model', parts: [{ text: 'Let me see.', thought: true }, call] },
      { role: 'user', parts: [{ functionResponse: { name: 'weather' } }] },
      { role: 'model', parts: [{ text: 'Look: ', thoughtSignature: 'sig-2' }, picture] },
      { role: 'user', parts: [{ text: 'Thanks' }] },
    ])
  })

  // Its package refuses a system message after the conversation has begun.
  test('takes over a conversation by a handoff', async () => {
    const vendor = await startVendor()
    const desk = new Agent({ name: 'Desk', instructions: 'x', model: googleAt(vendor) })
    const expert = new Agent({ name: 'Expert', instructions: 'y', model: googleAt(vendor) })
    const agencies = { solo: new Agency({ entryPoint: desk, flows: [[desk, expert, 'handoff']] }) }
    const server = await startTestServer({ agencies })
    vendor.answers.push(
      [gemini([{ functionCall: { name: 'transfer_to_Expert', args: {} } }], { finishReason: 'STOP' })],
      [gemini([{ text: 'I am the expert.' }], { finishReason: 'STOP' })],
    )

    const { response } = await ask(server, 'I need the expert')

    expect(response).toBe('I am the expert.')
    expect(JSON.stringify(vendor.requests[1]!.body.contents)).toContain('[A note of the system, not of the user]')
  })
})

test('an object of the AI SDK that cannot be an agent’s model is refused by name', () => {
  const embedding = { specificationVersion: 'v4', provider: 'p', modelId: 'embed-x' } as unknown as LanguageModel
  const later = { ...embedding, specificationVersion: 'v9', doStream: () => undefined } as unknown as LanguageModel

  expect(() => new Agent({ name: 'A', model: embedding })).toThrow('embed-x is not a language model of the AI SDK')
  expect(() => new Agent({ name: 'A', model: later })).toThrow('Versions v2, v3 and v4 work')
})

test('a model that is only named: an event of more than 16 MiB is given up', async () => {
  const vendor = await startVendor()
  const server = await startTestServer({
    agencies: soloAgency({ model: 'thirdparty/anthropic/claude-x' }),
    env: { ANTHROPIC_BASE_URL: `${vendor.url}/v1`, ANTHROPIC_API_KEY: 'sk-of-the-server' },
  })
  vendor.answers.push(claude('end_turn', said('x'.repeat(17 * 1_048_576))))

  const stream = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()

  expect(stream.events.at(-1)).toMatchObject({ type: 'error', code: 'upstream_event_too_large' })
  expect(stream.text.length).toBeLessThan(10_000)
  expect(vendor.requests).toHaveLength(1)
})
