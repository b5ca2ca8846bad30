import { Agency, Agent, type ModelTransport, ResponseEventWriter, type ResponsesRequest } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { cut, hold, status, text, textDeltas, usage } from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer } from '../support/test-server.ts'

/** A model that answers as itself and, asked for a title, with one of these after the other. */
async function startNamingServer(titles: string[], options: Parameters<typeof startTestServer>[0] = {}) {
  const server = await startTestServer({ agencies: soloAgency(), ...options })
  const left = [...titles]
  server.provider.respond((request) =>
    isTitleRequest(request)
      ? [text(left.shift() ?? ''), usage({ input: 7, output: 3 })]
      : text('It is sunny in Paris.'),
  )
  return server
}

const isTitleRequest = (request: { instructions: string | null }): boolean =>
  request.instructions?.includes('titles') ?? false

const ask = { message: 'How is the weather in Paris?', generate_chat_name: true }

describe('generate_chat_name', () => {
  test('adds a title of the run, streamed or not, and none of it shows in the stream', async () => {
    const server = await startNamingServer(['Weather in Paris', 'Weather in Paris'])

    const answer = await server.post('/solo/get_response', ask)
    const stream = await (await server.stream('/solo/get_response_stream', ask)).all()

    expect(answer.body.chat_name).toBe('Weather in Paris')
    expect(answer.body.response).toBe('It is sunny in Paris.')
    expect(stream.result.chat_name).toBe('Weather in Paris')
    expect(stream.result.new_messages).toHaveLength(2)
    expect(stream.outline.slice(-3)).toEqual(['message_output_created', 'messages', 'end'])
    expect(JSON.stringify(stream.events)).not.toContain('Weather in Paris')
  })

  test('is asked for on the same model and endpoint, with what was said and without metadata', async () => {
    const server = await startNamingServer(['Weather in Paris'])

    await server.post('/solo/get_response', ask)

    const [first, second] = server.provider.modelRequests
    expect(second!.model).toBe(first!.model)
    expect(second!.apiKey).toBe(first!.apiKey)
    expect(second!.body['tools']).toBeUndefined()
    expect(second!.lastUserText).toBe('user: How is the weather in Paris?\nassistant: It is sunny in Paris.')
  })

  test('obeys client_config: its key, its model', async () => {
    const server = await startNamingServer(['Weather in Paris'])
    const client_config = { api_key: 'sk-caller', model: 'gpt-other' }

    const answer = await server.post('/solo/get_response', { ...ask, client_config })

    expect(answer.body.chat_name).toBe('Weather in Paris')
    expect(server.provider.modelRequests.map(({ apiKey, model }) => [apiKey, model])).toEqual([
      ['sk-caller', 'gpt-other'],
      ['sk-caller', 'gpt-other'],
    ])
  })

  test('counts its tokens and requests in usage', async () => {
    const server = await startNamingServer(['Weather', 'Weather in Paris'])

    const { body } = await server.post('/solo/get_response', ask)

    expect(body.usage).toMatchObject({ request_count: 3, input_tokens: 20 + 7 + 7, output_tokens: 10 + 3 + 3 })
  })

  test.each([
    ['one word', ['Weather', 'Weather in Paris']],
    ['seven words', ['a b c d e f g', 'Paris weather']],
    ['nothing', ['', 'Paris weather']],
  ])('asks again after %s', async (_, titles) => {
    const server = await startNamingServer(titles)

    const { body } = await server.post('/solo/get_response', ask)

    expect(body.chat_name).toBe(titles[1])
    expect(server.provider.modelRequests.at(-1)!.lastUserText).toMatch(/had \d words\. Answer with 2 to 6 words\.$/)
  })

  test('is left out after three attempts without a fitting title', async () => {
    const server = await startNamingServer(['One', 'One', 'One', 'Never asked for this'])

    const { status, body } = await server.post('/solo/get_response', ask)

    expect(status).toBe(200)
    expect(body).not.toHaveProperty('chat_name')
    expect(server.provider.modelRequests).toHaveLength(4)
  })

  test.each([
    ['"Weather in Paris."', 'Weather in Paris'],
    ['**Weather in Paris**\n\nI hope you like it.', 'Weather in Paris'],
    ['# Weather  in Paris', 'Weather in Paris'],
    ['«Météo à Paris»', 'Météo à Paris'],
    ['巴黎天气预报', '巴黎天气预报'],
  ])('takes the title out of %j', async (said, title) => {
    const server = await startNamingServer([said])

    expect((await server.post('/solo/get_response', ask)).body.chat_name).toBe(title)
  })

  test.each([
    ['a refusal of the provider', status(401)],
    ['an answer that breaks off', [text('Weather in'), cut({ how: 'reset', after: 3 })]],
  ])('is left out when asking for it fails: %s', async (_, turn) => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond((request) => (isTitleRequest(request) ? turn : text('Sunny.')))

    const stream = await (await server.stream('/solo/get_response_stream', ask)).all()

    expect(stream.outline.slice(-3)).toEqual(['message_output_created', 'messages', 'end'])
    expect(stream.result).not.toHaveProperty('chat_name')
    expect(stream.result).not.toHaveProperty('cancelled')
  })

  test('is asked for again after an answer of any length and shape, which takes no time', async () => {
    const server = await startNamingServer([`a${'#'.repeat(100_000)}b`, 'Weather in Paris'])

    const answer = await server.post('/solo/get_response', ask)

    expect(answer.body.chat_name).toBe('Weather in Paris')
  })

  test('is not asked for when the run has failed', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => status(401))

    await server.post('/solo/get_response', ask)

    expect(server.provider.modelRequests).toHaveLength(1)
  })

  test('is given up when the run is cancelled while it is written, and the answer is kept', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.respond((request) =>
      isTitleRequest(request) ? textDeltas(['Weather', hold(gate), ' in Paris']) : text('Sunny.'),
    )
    const stream = await server.stream('/solo/get_response_stream', ask)
    await server.provider.waitForRequests(2)
    await stream.untilText('message_output_created')

    const cancel = await server.post('/solo/cancel_response_stream', { run_id: stream.runId })
    await stream.all()

    await server.provider.waitForAborts(1)
    expect(cancel.status).toBe(200)
    expect(stream.result).not.toHaveProperty('chat_name')
    expect(stream.result.new_messages).toHaveLength(2)
    expect(stream.result.usage).toMatchObject({ request_count: 2, estimated: true })
  })

  test('is given up when the client leaves', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.respond((request) =>
      isTitleRequest(request) ? textDeltas(['Weather', hold(gate), ' in Paris']) : text('Sunny.'),
    )
    const stream = await server.stream('/solo/get_response_stream', ask)
    await server.provider.waitForRequests(2)

    await stream.hangUp()

    await server.provider.waitForAborts(1)
    expect(server.provider.aborted).toBe(1)
  })

  test('is asked of a model object too', async () => {
    const asked: ResponsesRequest[] = []
    const model: ModelTransport = {
      name: 'own',
      async request(request, { observer }) {
        asked.push(request)
        const answer = new ResponseEventWriter(observer, request)
        answer.text(isTitleRequest({ instructions: request.instructions ?? null }) ? 'Weather in Paris' : 'Sunny.')
        answer.complete({
          input_tokens: 5,
          input_tokens_details: { cached_tokens: 0 },
          output_tokens: 2,
          output_tokens_details: { reasoning_tokens: 0 },
          total_tokens: 7,
        })
      },
    }
    const server = await startTestServer({ agencies: soloAgency({ model }) })

    const { body } = await server.post('/solo/get_response', ask)

    expect(body).toMatchObject({ response: 'Sunny.', chat_name: 'Weather in Paris' })
    expect(body.usage).toMatchObject({ request_count: 2, input_tokens: 10, output_tokens: 4 })
    expect(asked).toHaveLength(2)
  })

  test('sees a thousand characters at most, and of files only what was said about them', async () => {
    const server = await startNamingServer(['A long story', 'A picture'])
    const picture = `data:image/png;base64,${'A'.repeat(5_000)}`
    const content = [
      { type: 'input_text', text: 'What is this?' },
      { type: 'input_image', image_url: picture },
    ]

    await server.post('/solo/get_response', { ...ask, message: 'word '.repeat(1_000) })
    await server.post('/solo/get_response', { ...ask, message: [{ role: 'user', content }] })

    const [long, withPicture] = server.provider.modelRequests.filter(isTitleRequest)
    expect(long!.lastUserText).toHaveLength(1_000)
    expect(withPicture!.lastUserText).toBe('user: What is this?\nassistant: It is sunny in Paris.')
  })

  test('names the conversation with the user, whoever worked on it behind the scenes', async () => {
    const worker = new Agent({ name: 'Worker', instructions: 'Work.', model: 'gpt-worker' })
    const boss = new Agent({ name: 'Boss', instructions: 'Lead.', model: 'gpt-boss' })
    const agencies = { two: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) }
    const server = await startNamingServer(['Weather in Paris'], { agencies })

    const { body }: { body: Json } = await server.post('/two/get_response', { ...ask, recipient_agent: 'Worker' })

    expect(body.chat_name).toBe('Weather in Paris')
    expect(server.provider.modelRequests.at(-1)!.model).toBe('gpt-worker')
  })
})
