import { Agency, Agent, tool } from '@bureau/framework'
import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { TEST_REDIS_URL } from '../support/test-redis.ts'
import { hold, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import type { Json, TestClient } from './support/test-client.ts'
import { ENGINES, servePlatform, startTwoPlatforms } from './support/test-platform.ts'

/** Responses that are kept: read, followed, cancelled and forgotten, and answered when a person has decided. */

const paid: Json[] = []

const pay = tool({
  name: 'pay',
  description: 'Pays.',
  parameters: z.object({ euros: z.number() }),
  needsApproval: { when: true, edit: true },
  execute: ({ euros }, { userContext }) => {
    paid.push({ euros, ...userContext })
    return `paid ${euros}`
  },
})

const shop = new Agency({
  name: 'Shop',
  entryPoint: new Agent({ name: 'Clerk', instructions: 'You are secret.', model: 'gpt-test', tools: [pay] }),
})

const ROUTE = '/openai/v1/responses'
const weather = { type: 'function', name: 'get_weather', parameters: { type: 'object', properties: {} }, strict: false }
const decision = (more: object = {}): Json => ({
  type: 'bureau:approval_response',
  call_id: 'call_p',
  approve: true,
  ...more,
})

/** Errors have the shape of that API here. */
async function ask(client: TestClient, method: string, path: string, body?: object): Promise<Json> {
  const answer = await client.fetch(method, ROUTE + path, body)
  return { status: answer.status, body: await answer.json() }
}

const create = async (client: TestClient, body: object): Promise<Json> => {
  const answer = await ask(client, 'POST', '', { model: client.integrationId, input: 'Hello', ...body })
  expect(answer.body.error ?? null).toBe(null)
  return answer.body
}

const read = async (client: TestClient, id: string): Promise<Json> => (await ask(client, 'GET', `/${id}`)).body

const untilDone = async (client: TestClient, id: string): Promise<Json> => {
  await expect.poll(async () => (await read(client, id)).status).not.toBe('in_progress')
  return read(client, id)
}

const openAi = (client: TestClient): OpenAI =>
  new OpenAI({ apiKey: client.token, baseURL: `${client.url}/openai/v1`, maxRetries: 0 })

describe.each(ENGINES)('on %s', (engine) => {
  const served = servePlatform(engine, { agencies: { shop } })

  test('a response is read again as it was, with what the request said', async () => {
    const client = await served.client()
    served.provider.script([[text('Let me see.'), toolCall('get_weather', {}, { callId: 'call_w' })]])
    const image = { type: 'input_image', image_url: 'data:image/png;base64,aGk=', detail: 'auto' }
    const input = [{ role: 'user', content: [{ type: 'input_text', text: 'Look.' }, image] }]
    const extras = { instructions: 'Be brief.', metadata: { a: 'b' }, tools: [weather], temperature: 0.5 }
    const first = await create(client, { input, ...extras, user_context: { secret: 'x' } })

    const again = await read(client, first.id)
    const items = (await ask(client, 'GET', `/${first.id}/input_items`)).body

    expect(again).toEqual({ ...first, completed_at: expect.any(Number) })
    expect(first.output.at(-1)).toMatchObject({ type: 'function_call', call_id: 'call_w' })
    expect(items.data).toMatchObject([{ role: 'user', content: [{ text: 'Look.' }, { type: 'input_image' }] }])
    expect(JSON.stringify(items)).not.toContain('aGk=')
    const rows = JSON.stringify(await served.rows('SELECT record FROM responses'))
    expect(rows).not.toMatch(/secret|aGk=/)
  })

  test('when its events are not kept any more, its record says the same', async () => {
    const client = await served.client()
    served.provider.script([[text('Let me see.'), toolCall('get_weather', {}, { callId: 'call_w' })]])
    const { id, output } = await create(client, { tools: [weather] })
    const runId = id.replace('resp_', '')
    served.platform.logs.forget(runId)
    await served.rows('DELETE FROM run_event_chunks')

    const { status, output: recorded } = await read(client, id)

    const short = (items: Json[]) => items.map(({ type, content, name }) => [type, content?.[0].text ?? name])
    expect([status, short(recorded)]).toEqual(['completed', short(output)])
    const run = await client.get(`/v1/runs/${runId}?include=output`)
    expect(run.body.newMessages.at(-1)).toMatchObject({ type: 'function_call', call_id: 'call_w' })
  })

  test('runs in the background without its client, is followed from a number on, and ends', async () => {
    const client = await served.client({ onDisconnect: 'cancel' })
    const gate = served.provider.gate()
    served.provider.script([textDeltas(['One ', hold(gate), 'two.'])])
    const { responses } = openAi(client)

    const begun = await responses.create({ model: client.integrationId, input: 'x', background: true, stream: true })
    const seen: Json[] = []
    for await (const event of begun) if (seen.push(event) && event.type === 'response.output_text.delta') break
    begun.controller.abort()
    await gate.reached()
    const { id } = seen[0].response
    const now = await read(client, id)
    const after = seen.at(-1).sequence_number
    const rest: Json[] = []
    gate.release()
    for await (const event of await responses.retrieve(id, { stream: true, starting_after: after })) rest.push(event)

    expect(now).toMatchObject({ status: 'in_progress', background: true, completed_at: null })
    expect(rest[0].sequence_number).toBe(after + 1)
    expect(rest.at(-1)).toMatchObject({ type: 'response.completed' })
    expect((await responses.retrieve(id)).output_text).toBe('One two.')
  })

  test('is cancelled, and deleted', async () => {
    const client = await served.client()
    const gate = served.provider.gate()
    served.provider.respond(() => textDeltas(['One ', hold(gate)]))
    const { responses } = openAi(client)
    const begun = await responses.create({ model: client.integrationId, input: 'x', background: true })
    await gate.reached()

    const cancelled = await responses.cancel(begun.id)
    await responses.delete(begun.id)

    expect(cancelled.status).toBe('cancelled')
    await expect(responses.retrieve(begun.id)).rejects.toMatchObject({ status: 404, code: 'response_not_found' })
    const gone = responses.create({ model: client.integrationId, input: 'x', previous_response_id: begun.id })
    await expect(gone).rejects.toMatchObject({ status: 404, code: 'previous_response_not_found' })
    const run = await client.get(`/v1/runs/${begun.id.replace('resp_', '')}`)
    expect([run.status, run.body.status]).toEqual([200, 'cancelled'])
  })

  test('is not there for others, nor with store: false', async () => {
    const [client, stranger] = [await served.client(), await served.client()]
    served.provider.respond(() => text('Hi.'))
    const second = await served.addIntegration(client.ownerId)
    const { body: key } = await client.post('/v1/api_keys', { name: 'other', integrationIds: [second] })
    const { id } = await create(client, {})
    const unkept = await create(client, { store: false })

    for (const [who, which] of [
      [stranger, id],
      [client.with({ token: key.token }), id],
      [client, unkept.id],
      [client, 'resp_none'],
      [client, `${id}-7`],
    ] as const) {
      const requests = [
        ask(who, 'GET', `/${which}`),
        ask(who, 'GET', `/${which}/input_items`),
        ask(who, 'POST', `/${which}/cancel`),
        ask(who, 'DELETE', `/${which}`),
      ]
      expect((await Promise.all(requests)).map(({ status }) => status)).toEqual([404, 404, 404, 404])
    }
    expect((await read(client, id)).status).toBe('completed')
  })

  test('what waits for a person goes on as another response of the same run', async () => {
    const client = await served.client()
    paid.splice(0)
    served.provider.script([[text('One moment.'), toolCall('pay', { euros: 5 }, { callId: 'call_p' })], text('Done.')])
    const first = await create(client, { user_context: { tenant: 'acme' } })
    const waiting = await read(client, first.id)

    const second = await create(client, {
      input: [decision({ arguments: { euros: 3 } })],
      previous_response_id: first.id,
    })

    const kinds = ['message', 'message', 'bureau:approval_request']
    for (const { status, output } of [first, waiting, await read(client, first.id)]) {
      expect([status, output.map(({ type }: Json) => type)]).toEqual(['completed', kinds])
    }
    const [runId] = first.id.replace('resp_', '').split('-')
    expect(first.output.at(-1)).toMatchObject({ approvals_url: `${client.url}/v1/runs/${runId}/approvals` })
    expect(first.output.at(-1).token).toBe(undefined)
    expect(second.id).toMatch(new RegExp(`^${first.id}-\\d+$`))
    expect(second.output.map(({ content }: Json) => content[0].text)).toEqual(['Done.'])
    expect(second.previous_response_id).toBe(first.id)
    expect(paid).toEqual([{ euros: 3, tenant: 'acme' }])
    expect((await read(client, second.id)).output).toEqual(second.output)
    const runs = await client.get(`/v1/runs?apiIntegrationId=${client.integrationId}`)
    expect(runs.body.data).toHaveLength(1)
  })

  test('an output of a call that the response before has not made is refused, and costs no run', async () => {
    const client = await served.client()
    served.provider.script([toolCall('get_weather', {}, { callId: 'call_w' }), text('Sunny.')])
    const { id } = await create(client, { tools: [weather] })
    const goesOn = { previous_response_id: id, tools: [weather] }
    const output = (call_id: string): Json => ({ type: 'function_call_output', call_id, output: 'Red.' })

    const wrong = { model: client.integrationId, input: [output('call_x')], ...goesOn }
    const refused = await ask(client, 'POST', '', wrong)
    const runs = await client.get(`/v1/runs?apiIntegrationId=${client.integrationId}`)
    const right = await create(client, { input: [output('call_w')], ...goesOn })

    const message = 'input[0].call_id: neither the input nor the response before it has a call of that id'
    expect([refused.status, refused.body.error.message]).toEqual([400, message])
    expect(runs.body.data).toHaveLength(1)
    expect(right.output.at(-1).content[0].text).toBe('Sunny.')
  })

  test('a call that waited beside an approval takes its output after the decision', async () => {
    const client = await served.client()
    const calls = [
      toolCall('get_weather', {}, { callId: 'call_w' }),
      toolCall('pay', { euros: 5 }, { callId: 'call_p' }),
    ]
    served.provider.script([calls, text('Sunny.')])
    const first = await create(client, { tools: [weather] })
    const second = await create(client, { input: [decision()], previous_response_id: first.id, tools: [weather] })

    const output = { type: 'function_call_output', call_id: 'call_w', output: 'Sun.' }
    const third = await create(client, { input: [output], previous_response_id: second.id })

    expect(third.output.at(-1).content[0].text).toBe('Sunny.')
  })

  test('the same decision again gives the same response, another one is refused', async () => {
    const client = await served.client()
    served.provider.script([toolCall('pay', { euros: 5 }, { callId: 'call_p' }), text('Done.')])
    const first = await create(client, {})
    const previous = { model: client.integrationId, previous_response_id: first.id }
    const second = await create(client, { input: [decision()], ...previous })

    const again = await create(client, { input: [decision()], ...previous })
    const other = await ask(client, 'POST', '', { input: [decision({ approve: false })], ...previous })

    expect([again.id, again.output]).toEqual([second.id, second.output])
    expect([other.status, other.body.error.code]).toEqual([409, 'approval_decided'])
  })

  test.each([
    ['a key without runs:approve', { scopes: ['runs'] }, {}, 403, 'insufficient_scope'],
    ['a message beside it', {}, { more: { role: 'user', content: 'Quick.' } }, 400, 'invalid_request'],
    ['no previous_response_id', {}, { previous: undefined }, 400, 'missing'],
    ['arguments that do not fit', {}, { decided: { arguments: { euros: 'x' } } }, 400, 'invalid_request'],
    ['a call that is not there', {}, { decided: { call_id: 'call_x' } }, 404, 'approval_not_found'],
  ] as [string, object, Json, number, string][])(
    'a decision with %s is refused',
    async (...[, key, given, status, code]) => {
      const client = await served.client()
      served.provider.script([toolCall('pay', { euros: 5 }, { callId: 'call_p' })])
      const first = await create(client, {})
      const { body: issued } = await client.post('/v1/api_keys', { name: 'other', ...key })
      const who = 'scopes' in key ? client.with({ token: issued.token }) : client
      const { more, decided, previous = 'previous' in given ? undefined : first.id } = given

      const input = [decision(decided), ...(more ? [more] : [])]
      const refused = await ask(who, 'POST', '', { model: client.integrationId, input, previous_response_id: previous })

      expect([refused.status, refused.body.error.code]).toEqual([status, code])
      const run = await client.get(`/v1/runs/${first.id.replace('resp_', '')}`)
      expect(run.body.status).toBe('waiting')
    },
  )
})

describe.skipIf(!ENGINES.includes('postgres'))('at another process', () => {
  test('responses are read, followed, continued and cancelled alike', async () => {
    const config = { redisUrl: TEST_REDIS_URL }
    const [first, second] = await startTwoPlatforms({ agencies: { shop }, config })
    const here = await first.client()
    const there = here.with({ url: second.url })
    const gate = first.provider.gate()
    first.provider.script([text('One.'), textDeltas(['Two ', hold(gate)])])
    second.provider.script([text('Three.')])

    const one = await create(here, {})
    const working = await create(here, { background: true })
    await gate.reached()

    expect(await read(there, one.id)).toEqual(await read(here, one.id))
    expect((await create(there, { previous_response_id: one.id })).output[0].content[0].text).toBe('Three.')
    const input = second.provider.modelRequests.at(-1)!.items.map(({ role }) => role)
    expect(input).toEqual(['user', 'assistant', 'user'])
    expect(await read(there, working.id)).toMatchObject({ status: 'in_progress' })
    expect((await ask(there, 'POST', `/${working.id}/cancel`)).body.status).toBe('cancelled')
    expect((await untilDone(here, working.id)).status).toBe('cancelled')
  })
})
