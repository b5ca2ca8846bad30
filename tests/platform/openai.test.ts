import { CommitUnknownError } from '@bureau/platform/testing'
import { ServiceError } from '@bureau/protocol'
import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { hold, status, text, textDeltas, toolCall, usage } from '../support/fake-provider.ts'
import type { Json, TestClient } from './support/test-client.ts'
import { ENGINES, servePlatform } from './support/test-platform.ts'

const openAi = (client: TestClient): OpenAI =>
  new OpenAI({ apiKey: client.token, baseURL: `${client.url}/openai/v1`, maxRetries: 0 })

const hello = [{ role: 'user' as const, content: 'Hello' }]

const weather = { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } }

const inputOf = (body: Json): Json[] => body.input.map(({ role, type, content }: Json) => [role ?? type, content])

describe.each(ENGINES)('OpenAI’s APIs on %s', (engine) => {
  const platform = servePlatform(engine)

  test('an owner’s integrations are the models; those of others and of other keys are not there', async () => {
    const client = await platform.client()
    const other = await platform.client()
    const second = await platform.addIntegration(client.ownerId)
    const issued = await client.post('/v1/api_keys', { name: 'second only', integrationIds: [second] })
    const restricted = openAi(client.with({ token: issued.body.token }))

    const { data } = await openAi(client).models.list()

    const ids = [client.integrationId, second].flatMap((id) => [id, `${id}/CEO`, `${id}/Clerk`])
    expect(new Set(data.map(({ id }) => id))).toEqual(new Set(ids))
    expect((await restricted.models.list()).data.map(({ id }) => id)).toEqual(ids.slice(3))
    // The agency's own id will do while it is not served twice.
    expect((await restricted.models.retrieve('shop')).id).toBe('shop')
    await expect(openAi(client).models.retrieve('shop')).rejects.toMatchObject({ status: 404 })
    await expect(restricted.models.retrieve(client.integrationId)).rejects.toMatchObject({ status: 404 })
    const foreign = openAi(client).models.retrieve(other.integrationId)
    await expect(foreign).rejects.toMatchObject({ status: 404, code: 'model_not_found' })
  })

  test('an agency is found by its own id among more integrations than a list of models shows', async () => {
    const client = await platform.client()
    await platform.rows(`INSERT INTO integrations (id, owner_id, name, agency_id, default_agent, default_allowance, settings)
      SELECT id || n, owner_id, name, 'depot', default_agent, default_allowance, settings
      FROM integrations, generate_series(1, 1000) n WHERE id = '${client.integrationId}'`)

    expect((await openAi(client).models.retrieve('shop')).id).toBe('shop')
  })

  test('401 and 403 have the shape of that API', async () => {
    const client = await platform.client()
    const { body } = await client.post('/v1/api_keys', { name: 'reader', scopes: ['usage:read'] })

    const ask = async (token: string): Promise<unknown[]> => {
      const answer = await client.with({ token }).fetch('POST', '/openai/v1/chat/completions', {})
      return [answer.status, ((await answer.json()) as Json).error.code]
    }

    expect(await ask('')).toEqual([401, 'invalid_api_key'])
    expect(await ask(body.token)).toEqual([403, 'insufficient_scope'])
  })

  test('Chat Completions: the request brings the history, the chat keeps the message and the answer', async () => {
    const client = await platform.client()
    platform.provider.script([[text('Twelve pairs.'), usage({ input: 10, output: 5 })]])

    const answer = await openAi(client).chat.completions.create({
      model: client.integrationId,
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Hello' },
        { role: 'assistant', content: 'Hi.' },
        { role: 'user', content: 'Any boots?' },
      ],
    })

    expect(answer.choices[0]!.message.content).toBe('Twelve pairs.')
    expect(answer.usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 5 })
    const { body, instructions } = platform.provider.modelRequests.at(-1)!
    expect(instructions).toContain('Be brief.')
    expect(inputOf(body)).toEqual([
      ['user', 'Hello'],
      ['assistant', 'Hi.'],
      ['user', 'Any boots?'],
    ])
    const runs = await client.get(`/v1/runs?apiIntegrationId=${client.integrationId}`)
    expect(runs.body.data).toHaveLength(1)
    const messages = await client.get(`/v1/chats/${runs.body.data[0].chatId}/messages`)
    expect(JSON.stringify(messages.body)).toContain('Any boots?')
    expect(JSON.stringify(messages.body)).not.toContain('Hi.')
  })

  test('streams, and leaves functions to the caller', async () => {
    const client = await platform.client()
    platform.provider.script([[text('Let me see.'), toolCall('get_weather', { city: 'Oslo' })]])

    const stream = openAi(client).chat.completions.stream({
      model: client.integrationId,
      messages: hello,
      tools: [{ type: 'function', function: weather }],
      stream_options: { include_usage: true },
    })
    const { choices, usage: used } = await stream.finalChatCompletion()

    expect(choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: {
        content: 'Let me see.',
        tool_calls: [{ function: { name: 'get_weather', arguments: '{"city":"Oslo"}' } }],
      },
    })
    expect(used?.total_tokens).toBeGreaterThan(0)
  })

  test('Responses: previous_response_id goes on with the chat', async () => {
    const client = await platform.client()
    const { responses } = openAi(client)
    const model = client.integrationId
    platform.provider.script([text('One.'), toolCall('get_weather', { city: 'Oslo' }), text('Cold.')])

    const first = await responses.create({ model, input: 'First' })
    const second = await responses.create({
      model,
      input: 'Second',
      previous_response_id: first.id,
      tools: [{ type: 'function', ...weather, strict: false }],
    })
    const [call] = second.output as OpenAI.Responses.ResponseFunctionToolCall[]
    const third = await responses.create({
      model,
      input: [{ type: 'function_call_output', call_id: call!.call_id, output: 'cold' }],
      previous_response_id: second.id,
    })
    const fork = responses.create({ model, input: 'Fork', previous_response_id: first.id })

    expect([first.output_text, third.output_text]).toEqual(['One.', 'Cold.'])
    expect(third.previous_response_id).toBe(second.id)
    await expect(fork).rejects.toMatchObject({ status: 400 })
    const input = inputOf(platform.provider.modelRequests.at(-1)!.body).map(([kind]) => kind)
    expect(input).toEqual(['user', 'assistant', 'user', 'function_call', 'function_call_output'])
    const chats = await client.get(`/v1/chats?apiIntegrationId=${client.integrationId}`)
    expect(chats.body.data).toHaveLength(1)
  })

  test('Responses: a conversation can continue after a response that failed or was cancelled', async () => {
    const client = await platform.client()
    const { responses } = openAi(client)
    const model = client.integrationId
    const gate = platform.provider.gate()
    platform.provider.script([
      text('One.'),
      status(400),
      textDeltas(['Two', hold(gate)]),
      text('Three.'),
      text('Four.'),
    ])
    const first = await responses.create({ model, input: 'First' })
    const next = { model, input: 'Next', previous_response_id: first.id }

    await expect(responses.create(next)).rejects.toMatchObject({ status: 502 })
    const begun = await responses.create({ ...next, background: true })
    await gate.reached()
    await responses.cancel(begun.id)
    const third = await responses.create(next)
    const fork = responses.create(next)

    expect(third.output_text).toBe('Three.')
    await expect(fork).rejects.toMatchObject({ status: 400 })
    const fourth = await responses.create({ ...next, previous_response_id: third.id })
    expect(fourth.output_text).toBe('Four.')
    const chats = await client.get(`/v1/chats?apiIntegrationId=${client.integrationId}`)
    expect(chats.body.data).toHaveLength(1)
  })

  test('Responses: what others have begun is not there to go on with', async () => {
    const client = await platform.client()
    const stranger = await platform.client()
    platform.provider.script([text('One.')])
    const begun = await openAi(client).responses.create({ model: client.integrationId, input: 'x' })

    const foreign = openAi(stranger).responses.create({
      model: stranger.integrationId,
      input: 'x',
      previous_response_id: begun.id,
    })

    await expect(foreign).rejects.toMatchObject({ status: 404 })
  })

  test('user is the consumer that is charged', async () => {
    const client = await platform.client({ memberAllowancesEnabled: true })
    platform.provider.respond(() => text('Hi.'))
    await client.post(`/v1/integrations/${client.integrationId}/members`, {
      consumerId: 'ada',
      allowance: { messages: 1 },
    })
    const ask = (user?: string) =>
      openAi(client).chat.completions.create({ model: client.integrationId, messages: hello, ...(user && { user }) })

    expect((await ask('ada')).choices[0]!.message.content).toBe('Hi.')
    await expect(ask('ada')).rejects.toMatchObject({ status: 429, code: 'consumer_allowance_exhausted' })
    await expect(ask('bob')).rejects.toMatchObject({ status: 404, code: 'member_not_found' })
    await expect(ask()).rejects.toMatchObject({ status: 400, code: 'allowance_attribution_required' })
  })

  test('an Idempotency-Key that cannot be one is refused, and nothing is charged', async () => {
    const client = await platform.client()
    const options = { headers: { 'Idempotency-Key': 'x'.repeat(256) } }

    const answer = openAi(client).responses.create({ model: client.integrationId, input: 'Hello' }, options)

    await expect(answer).rejects.toMatchObject({ status: 400, message: expect.stringContaining('Idempotency-Key') })
    expect((await client.get('/v1/runs')).body.data).toEqual([])
  })

  test('a repeated Idempotency-Key gives the same answer, charged once', async () => {
    const client = await platform.client()
    platform.provider.script([text('Once.')])
    const options = { headers: { 'Idempotency-Key': 'request-1' } }
    const ask = () => openAi(client).chat.completions.create({ model: client.integrationId, messages: hello }, options)

    const [first, second] = [await ask(), await ask()]

    expect(second.id).toBe(first.id)
    expect(second.choices[0]!.message.content).toBe('Once.')
  })
})

describe('a client of OpenAI’s APIs that sends again what ends with a 5xx', () => {
  /** What the database is to fail with, by the name of the operation. */
  const faults = new Map<string, Error>()
  const platform = servePlatform('pglite', {
    intercept: (operation) => {
      const fault = faults.get(operation)
      faults.delete(operation)
      return fault
    },
  })
  const repeating = (client: TestClient): OpenAI =>
    new OpenAI({ apiKey: client.token, baseURL: `${client.url}/openai/v1`, maxRetries: 1 })

  test.each([
    ['nobody knows whether its run was reserved', 'admitRun', new CommitUnknownError('lost'), 0],
    ['its response cannot be kept', 'putResponse', new ServiceError('database_unavailable'), 1],
    ['its response may not be kept', 'putResponse', new CommitUnknownError('lost'), 1],
  ])('begins no second run when %s', async (_, operation, fault, begun) => {
    const client = await platform.client()
    platform.provider.respond(() => text('Hi.'))
    faults.set(operation, fault)

    const answer = repeating(client).responses.create({ model: client.integrationId, input: 'Hello' })

    await expect(answer).rejects.toBeInstanceOf(OpenAI.InternalServerError)
    expect((await client.get('/v1/runs')).body.data).toHaveLength(begun)
  })

  test.each(['admitRun', 'putResponse'])(
    'gets its answer by an Idempotency-Key after a fault of %s',
    async (operation) => {
      const client = await platform.client()
      platform.provider.respond(() => text('Hi.'))
      faults.set(operation, new CommitUnknownError('lost'))
      const options = { headers: { 'Idempotency-Key': 'request-1' } }

      const answer = await repeating(client).responses.create({ model: client.integrationId, input: 'Hello' }, options)

      expect(answer.output_text).toBe('Hi.')
      expect((await client.get('/v1/runs')).body.data).toHaveLength(1)
    },
  )
})
