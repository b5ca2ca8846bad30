import {
  CancelTaskRequest,
  GetTaskRequest,
  ListTasksRequest,
  ListTasksResponse,
  StreamResponse,
  SubscribeToTaskRequest,
} from '@a2a-js/sdk'
import type { Client } from '@a2a-js/sdk/client'
import { Agency, Agent } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { type Binding, BINDINGS, connectTo, send, shown, updates } from '../a2a/a2a-client.ts'
import { TEST_REDIS_URL } from '../support/test-redis.ts'
import { pay } from '../support/conversations.ts'
import { hold, status, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import type { Json, TestClient } from './support/test-client.ts'
import { closeAfterTest } from '../support/test-server.ts'
import { ENGINES, servePlatform, startPlatform, startTwoPlatforms } from './support/test-platform.ts'

const shop = new Agency({
  name: 'Shop',
  entryPoint: new Agent({
    name: 'Clerk',
    description: 'Knows the stock.',
    instructions: 'You are secret.',
    model: 'gpt-test',
    tools: [pay],
  }),
})

/** A client of an integration, with a key or a consumer's token. */
const connect = ({ url, token, integrationId }: TestClient, binding: Binding): Promise<Client> =>
  connectTo(`${url}/a2a/${integrationId}`, binding, { authorization: `Bearer ${token}` })

const get = async (client: Client, id: string): Promise<Json> =>
  shown(await client.getTask(GetTaskRequest.fromJSON({ id })))
const list = async (client: Client, query: object = {}): Promise<Json> =>
  ListTasksResponse.toJSON(await client.listTasks(ListTasksRequest.fromJSON(query)))

const decision = (more: object = {}): object[] => [
  { data: { approvals: [{ call_id: 'call_p', approve: true, ...more }] } },
]

describe.each(BINDINGS)('a platform that is full, for an A2A client that speaks %s', (binding) => {
  const platform = servePlatform('pglite', { agencies: { shop }, config: { maxActiveRuns: 1 } })

  test('refuses another task, and shows and cancels the one that works', async () => {
    const owner = await platform.client()
    const client = await connect(owner, binding)
    const gate = platform.provider.gate()
    platform.provider.respond(() => textDeltas(['Hello ', hold(gate)]))
    const { id } = await send(client, 'hi', { configuration: { returnImmediately: true } })
    await gate.reached()

    const refused = await send(client, 'now').catch((error: Error) => error)
    const working = await get(client, id)
    const cancelled = shown(await client.cancelTask(CancelTaskRequest.fromJSON({ id })))

    expect(refused).toMatchObject({ message: expect.stringContaining('at its limit') })
    expect(working.status.state).toBe('TASK_STATE_WORKING')
    expect(cancelled.status.state).toBe('TASK_STATE_CANCELED')
  })
})

describe.each(BINDINGS)('the platform for an A2A client that speaks %s', (binding) => {
  const asked: string[] = []
  const intercept = (operation: string): undefined => void asked.push(operation)
  const platform = servePlatform('pglite', { agencies: { shop }, intercept })

  test('each integration has a card, for those with a key', async () => {
    const owner = await platform.client()
    const card = await owner.fetch('GET', `/a2a/${owner.integrationId}/.well-known/agent-card.json`)

    expect(await card.json()).toMatchObject({
      name: 'Shop',
      description: 'Knows the stock.',
      supportedInterfaces: [{ url: `${owner.url}/a2a/${owner.integrationId}` }, {}],
      securityRequirements: [{}],
    })
    const nobody = await owner
      .with({ token: '' })
      .fetch('GET', `/a2a/${owner.integrationId}/.well-known/agent-card.json`)
    expect(nobody.status).toBe(401)
  })

  test('a task is a run, a context a chat; both are found again', async () => {
    const owner = await platform.client()
    platform.provider.script([text('Paris.'), text('Two million.')])
    const client = await connect(owner, binding)

    const first = await send(client, 'The capital of France?')
    const second = await send(client, 'How many people?', { contextId: first.contextId })

    expect(first).toMatchObject({
      status: { state: 'TASK_STATE_COMPLETED' },
      artifacts: [{ parts: [{ text: 'Paris.' }] }],
    })
    expect(second).toMatchObject({ contextId: first.contextId, artifacts: [{ parts: [{ text: 'Two million.' }] }] })
    const run = (await owner.get(`/v1/runs/${first.id}`)).body
    expect(run).toMatchObject({ status: 'completed', chatId: first.contextId })
    expect(platform.provider.modelRequests.at(-1)!.items.map(({ role }) => role)).toEqual(['user', 'assistant', 'user'])
    const again = await get(client, first.id)
    expect(again).toMatchObject({
      status: { state: 'TASK_STATE_COMPLETED', timestamp: run.finishedAt },
      artifacts: first.artifacts,
      history: [{ parts: [{ text: 'The capital of France?' }] }],
    })
  })

  test('follows the answer, comes back in the middle of it, and cancels', async () => {
    const owner = await platform.client()
    const gate = platform.provider.gate()
    platform.provider.script([
      textDeltas(['One ', hold(gate), 'two.']),
      textDeltas(['Three ', hold(platform.provider.gate())]),
    ])
    const client = await connect(owner, binding)

    const { id } = await send(client, 'Count.', { configuration: { returnImmediately: true } })
    await gate.reached()
    const now = await get(client, id)
    const following = client.resubscribeTask(SubscribeToTaskRequest.fromJSON({ id }))
    const { value: first } = await following.next()
    gate.release()
    const rest = [StreamResponse.toJSON(first as StreamResponse) as Json, ...(await updates(following))]
    const working = await send(client, 'Again.', { configuration: { returnImmediately: true } })
    const cancelled = shown(await client.cancelTask(CancelTaskRequest.fromJSON({ id: working.id })))

    expect(now).toMatchObject({ status: { state: 'TASK_STATE_WORKING' }, artifacts: [{ parts: [{ text: 'One ' }] }] })
    expect(rest[0].task.id).toBe(id)
    expect(rest.at(-1).statusUpdate.status.state).toBe('TASK_STATE_COMPLETED')
    expect((await get(client, id)).artifacts[0].parts[0].text).toBe('One two.')
    expect(cancelled.status.state).toBe('TASK_STATE_CANCELED')
    expect((await owner.get(`/v1/runs/${working.id}`)).body.status).toBe('cancelled')
    await expect(client.cancelTask(CancelTaskRequest.fromJSON({ id }))).rejects.toThrow(/has ended/)
  })

  test('lists tasks, those first that changed last, by state and context, page by page', async () => {
    const owner = await platform.client()
    platform.provider.script([text('One.'), status(401), text('Three.')])
    const client = await connect(owner, binding)
    const one = await send(client, 'One?')
    const two = await send(client, 'Two?')
    const three = await send(client, 'Three?', { contextId: one.contextId })
    const ids = ({ tasks }: Json): string[] => tasks.map(({ id }: Json) => id)

    const all = await list(client, { includeArtifacts: true })
    const page = await list(client, { pageSize: 2 })

    expect(ids(all)).toEqual([three.id, two.id, one.id])
    expect(all).toMatchObject({ totalSize: 3, pageSize: 50 })
    expect(all.tasks[0].artifacts[0].parts[0].text).toBe('Three.')
    expect(ids(page)).toEqual([three.id, two.id])
    expect(ids(await list(client, { pageSize: 2, pageToken: page.nextPageToken }))).toEqual([one.id])
    expect(ids(await list(client, { status: 'TASK_STATE_FAILED' }))).toEqual([two.id])
    expect(ids(await list(client, { contextId: one.contextId }))).toEqual([three.id, one.id])
    expect(ids(await list(client, { statusTimestampAfter: two.status.timestamp }))).toEqual([three.id])
    await expect(list(client, { pageToken: 'x' })).rejects.toThrow(/pageToken/)
  })

  test('of many tasks with their artifacts the database is asked no more often than of one', async () => {
    const owner = await platform.client()
    platform.provider.respond(() => text('One.'))
    const client = await connect(owner, binding)
    const listed = async (): Promise<string[]> => {
      asked.length = 0
      const { tasks } = await list(client, { includeArtifacts: true })
      expect(tasks.every(({ artifacts }: Json) => artifacts[0].parts[0].text === 'One.')).toBe(true)
      return asked.filter((operation) => /^(get|list|read|count)/.test(operation))
    }
    const { contextId } = await send(client, 'One?')
    const ofOne = await listed()
    for (let count = 0; count < 4; count++) await send(client, 'Again?', { contextId })

    expect(await listed()).toEqual(ofOne)
  })

  test('a task that goes on is listed before those that have ended meanwhile', async () => {
    const owner = await platform.client()
    platform.provider.script([toolCall('pay', { euros: 5 }, { callId: 'call_p' }), text('Hello.'), text('Done.')])
    const client = await connect(owner, binding)
    const ids = async (): Promise<string[]> => (await list(client, {})).tasks.map(({ id }: Json) => id)

    const waiting = await send(client, 'Pay.')
    const other = await send(client, 'Hello?')
    expect(await ids()).toEqual([other.id, waiting.id])
    await send(client, decision(), { taskId: waiting.id })

    expect(await ids()).toEqual([waiting.id, other.id])
  })

  test('a task that waits for a person goes on with the decision, as the same run', async () => {
    const owner = await platform.client()
    platform.provider.script([toolCall('pay', { euros: 5 }, { callId: 'call_p' }), text('Done.')])
    const client = await connect(owner, binding)

    const waiting = await send(client, 'Pay.')
    const found = await get(client, waiting.id)
    const afterwards = new Date(Date.parse(found.status.timestamp) + 1).toISOString()
    const later = await list(client, { statusTimestampAfter: afterwards })
    const done = await send(client, decision(), { taskId: waiting.id })

    for (const each of [waiting, found]) {
      expect(each.status).toMatchObject({
        state: 'TASK_STATE_INPUT_REQUIRED',
        message: { parts: [{}, { data: { approvals: [{ call_id: 'call_p', tool: 'pay' }] } }] },
      })
    }
    expect(later.tasks ?? []).toEqual([])
    expect(done).toMatchObject({
      id: waiting.id,
      status: { state: 'TASK_STATE_COMPLETED' },
      artifacts: [{ parts: [{ text: 'Done.' }] }],
    })
    expect((await owner.get('/v1/runs')).body.data).toHaveLength(1)
  })

  test('a key that may not decide is refused; the task waits on, and can be cancelled', async () => {
    const owner = await platform.client()
    platform.provider.script([toolCall('pay', { euros: 5 }, { callId: 'call_p' })])
    const { body } = await owner.post('/v1/api_keys', { name: 'weak', scopes: ['runs'] })
    const weak = await connect(owner.with({ token: body.token }), binding)
    const { id } = await send(weak, 'Pay.')

    await expect(send(weak, decision(), { taskId: id })).rejects.toThrow(/may not|scope/)

    expect((await get(weak, id)).status.state).toBe('TASK_STATE_INPUT_REQUIRED')
    const cancelled = shown(await weak.cancelTask(CancelTaskRequest.fromJSON({ id })))
    expect(cancelled.status.state).toBe('TASK_STATE_CANCELED')
  })

  test('keeps owners, integrations and consumers apart', async () => {
    const [owner, stranger] = [await platform.client(), await platform.client()]
    platform.provider.respond(() => text('Hi.'))
    const other = owner.with({ integrationId: await platform.addIntegration(owner.ownerId) })
    const { body } = await owner.post('/v1/consumer_tokens', {
      apiIntegrationId: owner.integrationId,
      consumerId: 'ada',
    })
    const ada = await connect(owner.with({ token: body.token }), binding)
    const mine = await connect(owner, binding)
    const task = await send(mine, 'Hello')
    const hers = await send(ada, 'Hello')

    for (const client of [await connect(stranger, binding), await connect(other, binding), ada]) {
      await expect(get(client, task.id)).rejects.toThrow(/no such task/)
      await expect(send(client, 'x', { contextId: task.contextId })).rejects.toThrow(/contextId/)
    }
    expect((await list(ada)).tasks.map(({ id }: Json) => id)).toEqual([hers.id])
    expect((await owner.get(`/v1/runs/${hers.id}`)).body.consumerId).toBe('ada')
    await expect(connect(stranger.with({ integrationId: owner.integrationId }), binding)).rejects.toThrow(/404/)
  })
})

test('JSON may be named after the protocol, and times have an offset', async () => {
  const platform = await startPlatform('pglite', { agencies: { shop } })
  closeAfterTest(() => platform.close())
  platform.provider.respond(() => text('Hi.'))
  const owner = await platform.client()
  const headers = { 'a2a-version': '1.0', 'content-type': 'application/a2a+json' }
  const body = { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'Hello' }] } }

  const sent = await owner.fetch('POST', `/a2a/${owner.integrationId}/message:send`, body, { headers })
  const since = encodeURIComponent('2020-01-01T00:00:00+02:00')
  const listed = await owner.fetch(
    'GET',
    `/a2a/${owner.integrationId}/tasks?statusTimestampAfter=${since}`,
    undefined,
    {
      headers,
    },
  )

  expect(await sent.json()).toMatchObject({ task: { status: { state: 'TASK_STATE_COMPLETED' } } })
  expect(await listed.json()).toMatchObject({ totalSize: 1 })
})

describe.skipIf(!ENGINES.includes('postgres'))('at another process', () => {
  test('a task is found, goes on and is listed', async () => {
    const config = { redisUrl: TEST_REDIS_URL }
    const [first, second] = await startTwoPlatforms({ agencies: { shop }, config })
    const owner = await first.client()
    for (const { provider } of [first, second]) {
      provider.respond(({ toolOutputs }) =>
        toolOutputs.length > 0 ? text('Done.') : toolCall('pay', { euros: 5 }, { callId: 'call_p' }),
      )
    }
    const here = await connect(owner, 'JSONRPC')
    const there = await connect(owner.with({ url: second.url }), 'JSONRPC')
    const { id } = await send(here, 'Pay.')

    const found = await get(there, id)
    const done = await send(there, decision(), { taskId: id })

    expect(found.status.state).toBe('TASK_STATE_INPUT_REQUIRED')
    expect(done.status.state).toBe('TASK_STATE_COMPLETED')
    expect((await get(here, id)).artifacts[0].parts[0].text).toBe('Done.')
    expect((await list(there)).totalSize).toBe(1)
  })
})
