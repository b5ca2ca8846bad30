import {
  CancelTaskRequest,
  DeleteTaskPushNotificationConfigRequest,
  GetTaskPushNotificationConfigRequest,
  ListTaskPushNotificationConfigsRequest,
  ListTaskPushNotificationConfigsResponse,
  TaskPushNotificationConfig,
} from '@a2a-js/sdk'
import type { Client } from '@a2a-js/sdk/client'
import { beforeEach, describe, expect, test } from 'vitest'
import { pay } from '../support/conversations.ts'
import { type Binding, BINDINGS, connectTo, say, shown } from './a2a-client.ts'
import { startHttpServer } from '../support/http-server.ts'
import { hold, status, text, toolCall } from '../support/fake-provider.ts'
import { Receiver } from '../support/receiver.ts'
import { type Json, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

let receiver: Receiver
let host: string

beforeEach(async () => {
  receiver = new Receiver()
  host = new URL(await startHttpServer(receiver.listener)).host
})

/** A server whose operator has named the receiver. */
const start = (): Promise<TestServer> =>
  startTestServer({ agencies: soloAgency({ tools: [pay] }), env: { BUREAU_ALLOWED_HOSTS: host } })

const connect = ({ url }: TestServer, binding: Binding): Promise<Client> => connectTo(`${url}/a2a/solo`, binding)

async function send(client: Client, content: string | object[], more: Json = {}): Promise<Json> {
  const { push, now = false, ...rest } = more
  const configuration = { returnImmediately: now, taskPushNotificationConfig: push }
  return shown(await client.sendMessage(say(content, { configuration, ...rest })))
}

const create = async (client: Client, config: Json): Promise<Json> =>
  TaskPushNotificationConfig.toJSON(
    await client.createTaskPushNotificationConfig(TaskPushNotificationConfig.fromJSON(config)),
  )

const listed = async (client: Client, taskId: string): Promise<Json[]> => {
  const request = ListTaskPushNotificationConfigsRequest.fromJSON({ taskId })
  const answer = ListTaskPushNotificationConfigsResponse.toJSON(await client.listTaskPushNotificationConfig(request))
  return (answer as Json).configs ?? []
}

const stateOf = ({ body }: { readonly body: Json }): string => body.statusUpdate.status.state

describe.each(BINDINGS)('push notifications, asked for over %s', (binding) => {
  test('the end of a task is notified, with the token and the credentials of its client, and without its words', async () => {
    const server = await start()
    server.provider.script([text('secret words')])
    const client = await connect(server, binding)
    const authentication = { scheme: 'Bearer', credentials: 'of-this-task' }
    const push = { url: `http://${host}/end`, token: 'unique', authentication }

    const { id, contextId, status: state } = await send(client, 'secret question', { push })
    const [only] = await receiver.until('/end', 1)

    expect(only!.body).toEqual({
      statusUpdate: { taskId: id, contextId, status: { state: 'TASK_STATE_COMPLETED', timestamp: state.timestamp } },
    })
    expect(only!.headers).toMatchObject({
      'content-type': 'application/a2a+json',
      authorization: 'Bearer of-this-task',
      'x-a2a-notification-token': 'unique',
    })
  })

  test.each([
    ['has failed', 'TASK_STATE_FAILED', [status(401)]],
    ['waits for a person', 'TASK_STATE_INPUT_REQUIRED', [toolCall('pay', { euros: 5 }, { callId: 'call_p' })]],
  ] as const)('that a task %s is notified', async (_, state, script) => {
    const server = await start()
    server.provider.script([...script])

    await send(await connect(server, binding), 'Work', { push: { url: `http://${host}/` } })

    expect((await receiver.until('/', 1)).map(stateOf)).toEqual([state])
  })

  test('a task that goes on after a decision is notified of at its end again', async () => {
    const server = await start()
    server.provider.script([toolCall('pay', { euros: 5 }, { callId: 'call_p' }), text('Done.')])
    const client = await connect(server, binding)
    const { id: taskId } = await send(client, 'Pay.', { push: { url: `http://${host}/` } })
    await receiver.until('/', 1)

    await send(client, [{ data: { approvals: [{ call_id: 'call_p', approve: true }] } }], { taskId })

    const states = (await receiver.until('/', 2)).map(stateOf)
    expect(states).toEqual(['TASK_STATE_INPUT_REQUIRED', 'TASK_STATE_COMPLETED'])
  })

  test('a task that is worked on gets receivers, which are listed, found, replaced and deleted', async () => {
    const server = await start()
    const gate = server.provider.gate()
    server.provider.script([[hold(gate), text('Done.')]])
    const client = await connect(server, binding)
    const { id: taskId } = await send(client, 'Work', { now: true })
    await gate.reached()
    const authentication = { scheme: 'Basic', credentials: 'c2VjcmV0' }

    const first = await create(client, { taskId, url: `http://${host}/first`, token: 'secret', authentication })
    await create(client, { taskId, id: 'mine', url: `http://${host}/wrong` })
    await create(client, { taskId, id: 'mine', url: `http://${host}/second` })
    await create(client, { taskId, id: 'gone', url: `http://${host}/gone` })
    const gone = DeleteTaskPushNotificationConfigRequest.fromJSON({ taskId, id: 'gone' })
    await client.deleteTaskPushNotificationConfig(gone)
    await client.deleteTaskPushNotificationConfig(gone)
    const found = await client.getTaskPushNotificationConfig(
      GetTaskPushNotificationConfigRequest.fromJSON({ taskId, id: first.id }),
    )
    const all = await listed(client, taskId)
    gate.release()
    await Promise.all([receiver.until('/first', 1), receiver.until('/second', 1)])

    expect(first).toMatchObject({ taskId, url: `http://${host}/first`, authentication: { scheme: 'Basic' } })
    expect(JSON.stringify([first, all])).not.toMatch(/secret|c2VjcmV0/)
    expect(TaskPushNotificationConfig.toJSON(found)).toEqual(first)
    expect(all.map(({ url }) => url)).toEqual([`http://${host}/first`, `http://${host}/second`])
    expect(receiver.received).toHaveLength(2)
    await expect(
      client.getTaskPushNotificationConfig(GetTaskPushNotificationConfigRequest.fromJSON({ taskId, id: 'gone' })),
    ).rejects.toThrow(/no such push notification configuration/)
  })

  test('who asks when the task has ended already is notified at once, and the others not again', async () => {
    const server = await start()
    server.provider.script([text('Done.')])
    const client = await connect(server, binding)
    const { id: taskId } = await send(client, 'Work', { push: { url: `http://${host}/early` } })
    await receiver.until('/early', 1)

    await create(client, { taskId, url: `http://${host}/late` })

    expect((await receiver.until('/late', 1)).map(stateOf)).toEqual(['TASK_STATE_COMPLETED'])
    expect(receiver.received).toHaveLength(2)
  })

  test('a task that is cancelled while it waits is notified of', async () => {
    const server = await start()
    server.provider.script([toolCall('pay', { euros: 5 }, { callId: 'call_p' })])
    const client = await connect(server, binding)
    const { id } = await send(client, 'Pay.', { push: { url: `http://${host}/` } })
    await receiver.until('/', 1)

    await client.cancelTask(CancelTaskRequest.fromJSON({ id }))

    expect((await receiver.until('/', 2)).map(stateOf)[1]).toBe('TASK_STATE_CANCELED')
  })

  test.each([
    ['an address of this machine', 'http://127.0.0.1:1/', /url: .*(scheme|not allowed)/],
    ['a private address', 'https://10.0.0.1/', /url: The address of the URL is not allowed/],
    ['plain http', 'http://hooks.example.com/', /url: Unsupported URL scheme/],
    ['what is not an address', 'here', /url: The URL is not valid/],
  ])('%s is refused before anything begins', async (_, url, words) => {
    const server = await start()
    const client = await connect(server, binding)

    await expect(send(client, 'Work', { push: { url } })).rejects.toThrow(words)
    await expect(send(client, 'Work', { push: { url } })).rejects.toThrow(/configuration\.taskPushNotificationConfig/)

    expect(server.provider.modelRequests).toEqual([])
  })

  test.each([
    ['a scheme without credentials', { authentication: { scheme: 'Bearer' } }, /authentication\.credentials/],
    ['a scheme of two words', { authentication: { scheme: 'a b', credentials: 'x' } }, /authentication\.scheme/],
    ['a token that is not fit for a header', { token: 'a\nb' }, /token: must be printable ASCII/],
  ])('%s is refused with the name of the field', async (_, more, words) => {
    const server = await start()
    server.provider.script([text('Done.')])
    const client = await connect(server, binding)
    const { id: taskId } = await send(client, 'Work')

    await expect(create(client, { taskId, url: `http://${host}/`, ...more })).rejects.toThrow(words)
  })

  test('a task has ten receivers at most, and another task none of them', async () => {
    const server = await start()
    server.provider.respond(() => text('Done.'))
    const client = await connect(server, binding)
    const [{ id: taskId }, { id: other }] = [await send(client, 'Work'), await send(client, 'Work')]
    for (let at = 0; at < 10; at++) await create(client, { taskId, id: `c-${at}`, url: `http://${host}/` })

    await expect(create(client, { taskId, url: `http://${host}/` })).rejects.toThrow(/at most 10/)

    expect(await listed(client, other)).toEqual([])
    await expect(create(client, { taskId: 'none', url: `http://${host}/` })).rejects.toThrow(/no such task/)
  })

  test('a redirect is not followed', async () => {
    const server = await start()
    server.provider.script([text('Done.')])
    receiver.answers.push(302)

    await send(await connect(server, binding), 'Work', { push: { url: `http://${host}/moved` } })

    await receiver.until('/moved', 1)
    expect(receiver.at('/elsewhere')).toEqual([])
  })
})
