import { Agency, Agent } from '@bureau/framework'
import { deliverNotifications } from '@bureau/platform/testing'
import { describe, expect, test } from 'vitest'
import { pay } from '../support/conversations.ts'
import { TEST_REDIS_URL } from '../support/test-redis.ts'
import { hold, text, toolCall } from '../support/fake-provider.ts'
import { Receiver } from '../support/receiver.ts'
import { closeAfterTest } from '../support/test-server.ts'
import { FILE_ACCESS, startFileServer } from './support/file-server.ts'
import type { Json, TestClient } from './support/test-client.ts'
import { ENGINES, type Served, servePlatform, startPlatform } from './support/test-platform.ts'

const receiver = new Receiver()
const hooks = await startFileServer(receiver.listener)

const clerk = new Agent({ name: 'Clerk', instructions: 'Help.', model: 'gpt-test', tools: [pay] })
const agencies = { shop: new Agency({ name: 'Shop', entryPoint: clerk }) }

/** What JSON-RPC answers: the result, or the error. */
async function ask(client: TestClient, method: string, params: Json): Promise<Json> {
  const headers = { 'a2a-version': '1.0' }
  const path = `/a2a/${client.integrationId}`
  const { body } = await client.call('POST', path, { jsonrpc: '2.0', id: 1, method, params }, { headers })
  return body.result ?? body.error
}

async function send(client: TestClient, words: string, configuration: Json = {}): Promise<Json> {
  const message = { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text: words }] }
  return (await ask(client, 'SendMessage', { message, configuration })).task
}

/** A task whose end its receiver has not taken. */
async function sendInVain(platform: Served, client: TestClient, path: string): Promise<Json> {
  receiver.answers.push(503)
  const task = await send(client, 'Work', pushTo(hooks.url + path))
  await receiver.until(path, 1)
  await untilFailing(platform, task.id)
  return task
}

function untilFailing(platform: Served, runId: string): Promise<void> {
  const failing = `SELECT 1 FROM push_configs WHERE run_id = '${runId}' AND failing_since IS NOT NULL`
  return expect.poll(() => platform.rows(failing)).toHaveLength(1)
}

const pushTo = (url: string, more: Json = {}): Json => ({ taskPushNotificationConfig: { url, ...more } })
const stateOf = ({ body }: { readonly body: Json }): string => body.statusUpdate.status.state

describe.each(ENGINES)('push notifications of tasks on %s', (engine) => {
  const platform = servePlatform(engine, { agencies, access: FILE_ACCESS })
  const retryNow = async (runId: string): Promise<void> => {
    await platform.rows(`UPDATE push_configs SET next_at = now() WHERE run_id = '${runId}'`)
    await deliverNotifications(platform.platform)
  }

  test('where no notification waits, none is due: an idle process does not go on looking', async () => {
    expect(await deliverNotifications(platform.platform)).toBeNull()
  })

  test('the end of a task is delivered, once, with what shows who sends it and without its words', async () => {
    const client = await platform.client()
    const path = `/${client.ownerId}`
    platform.provider.script([text('canary answer')])
    const secrets = { token: 'canary-token', authentication: { scheme: 'Bearer', credentials: 'canary-credentials' } }

    const task = await send(client, 'canary question', pushTo(hooks.url + path, secrets))
    const [only] = await receiver.until(path, 1)
    await retryNow(task.id)

    const { finishedAt } = (await client.get(`/v1/runs/${task.id}`)).body
    expect(only!.body).toEqual({
      statusUpdate: {
        taskId: task.id,
        contextId: task.contextId,
        status: { state: 'TASK_STATE_COMPLETED', timestamp: finishedAt },
      },
    })
    expect(only!.headers).toMatchObject({
      'content-type': 'application/a2a+json',
      authorization: 'Bearer canary-credentials',
      'x-a2a-notification-token': 'canary-token',
    })
    expect(receiver.at(path)).toHaveLength(1)
    const kept = await platform.rows(`SELECT t::text AS all FROM push_configs t WHERE run_id = '${task.id}'`)
    expect(JSON.stringify(kept)).not.toContain('canary')
    const { configs } = await ask(client, 'ListTaskPushNotificationConfigs', { taskId: task.id })
    expect(configs).toEqual([
      { taskId: task.id, id: expect.any(String), url: hooks.url + path, authentication: { scheme: 'Bearer' } },
    ])
  })

  test('a task that waits for a person is delivered, and its end too', async () => {
    const client = await platform.client()
    const path = `/${client.ownerId}`
    platform.provider.script([toolCall('pay', { euros: 5 }, { callId: 'call_p' }), text('Done.')])
    const { id: taskId } = await send(client, 'Pay.', pushTo(hooks.url + path))
    await receiver.until(path, 1)

    await client.post(`/v1/runs/${taskId}/approvals`, [{ callId: 'call_p', approve: true }])

    const states = (await receiver.until(path, 2)).map(stateOf)
    expect(states).toEqual(['TASK_STATE_INPUT_REQUIRED', 'TASK_STATE_COMPLETED'])
  })

  test('who asks when the task has ended already is notified at once; who is deleted, not at all', async () => {
    const client = await platform.client()
    const path = `/${client.ownerId}`
    const gate = platform.provider.gate()
    platform.provider.script([[hold(gate), text('Done.')]])
    const { id: taskId } = await send(client, 'Work', { returnImmediately: true })
    await gate.reached()
    const unwanted = { taskId, id: 'unwanted', url: `${hooks.url}${path}/unwanted` }
    await ask(client, 'CreateTaskPushNotificationConfig', unwanted)
    for (const _ of ['once', 'again']) await ask(client, 'DeleteTaskPushNotificationConfig', unwanted)
    gate.release()
    await expect.poll(async () => (await client.get(`/v1/runs/${taskId}`)).body.status).toBe('completed')

    const late = await ask(client, 'CreateTaskPushNotificationConfig', { taskId, url: hooks.url + path })

    expect((await receiver.until(path, 1)).map(stateOf)).toEqual(['TASK_STATE_COMPLETED'])
    expect(receiver.at(`${path}/unwanted`)).toEqual([])
    expect(await ask(client, 'GetTaskPushNotificationConfig', { taskId, id: late.id })).toEqual(late)
  })

  test('what a receiver does not take comes again, until it says that it is gone', async () => {
    const client = await platform.client()
    const path = `/${client.ownerId}`
    platform.provider.script([text('Done.')])
    receiver.answers.push(500, 302, 410)

    const { id } = await send(client, 'Work', pushTo(hooks.url + path))
    const settled = async (attempts: number): Promise<void> => {
      await receiver.until(path, attempts)
      const state = `SELECT failing_since IS NOT NULL AS failing, attempts, closed_at IS NOT NULL AS closed
        FROM push_configs WHERE run_id = '${id}'`
      await expect.poll(() => platform.rows(state)).toEqual([{ failing: true, attempts, closed: attempts === 3 }])
    }
    await settled(1)
    await retryNow(id)
    await settled(2)
    await retryNow(id)
    await settled(3)
    await retryNow(id)

    expect(receiver.at(path)).toHaveLength(3)
    expect(receiver.at('/elsewhere')).toEqual([])
  })

  test('a receiver whose secrets cannot be read has failed, and holds up no other', async () => {
    const client = await platform.client()
    platform.provider.respond(() => text('Done.'))
    const [broken, other] = [`/${client.ownerId}/broken`, `/${client.ownerId}`]
    const { id } = await sendInVain(platform, client, broken)
    await sendInVain(platform, client, other)
    await platform.rows(`UPDATE push_configs SET secret_enc = '\\x00' WHERE run_id = '${id}'`)
    await platform.rows('UPDATE push_configs SET next_at = now(), failing_since = NULL')

    await deliverNotifications(platform.platform)

    await receiver.until(other, 2)
    await untilFailing(platform, id)
    expect(receiver.at(broken)).toHaveLength(1)
  })

  test('is for the owner of the task: not for other owners, and not for pages with consumer tokens', async () => {
    const [client, stranger] = [await platform.client(), await platform.client()]
    platform.provider.respond(() => text('Done.'))
    const consumer = { apiIntegrationId: client.integrationId, consumerId: 'ada' }
    const { body: token } = await client.post('/v1/consumer_tokens', consumer)
    const ada = client.with({ token: token.token })
    const [task, hers] = [await send(client, 'Work'), await send(ada, 'Work')]
    const config = { taskId: task.id, id: 'mine', url: hooks.url }
    await ask(client, 'CreateTaskPushNotificationConfig', config)

    for (const verb of ['Create', 'Get', 'Delete']) {
      const method = `${verb}TaskPushNotificationConfig`
      expect((await ask(stranger, method, config)).data[0].reason).toBe('TASK_NOT_FOUND')
      expect((await ask(ada, method, { ...config, taskId: hers.id })).data[0].reason).toBe('INSUFFICIENT_SCOPE')
    }
    expect((await ask(client, 'ListTaskPushNotificationConfigs', config)).configs).toHaveLength(1)
  })

  test('addresses that are not public and an eleventh receiver are refused', async () => {
    const client = await platform.client()
    platform.provider.respond(() => text('Done.'))
    const { id: taskId } = await send(client, 'Work')
    const create = (more: Json): Promise<Json> =>
      ask(client, 'CreateTaskPushNotificationConfig', { taskId, url: `${hooks.url}/${client.ownerId}`, ...more })
    for (let at = 0; at < 10; at++) await create({ id: `c-${at}` })

    expect((await create({})).message).toContain('at most 10')
    expect((await create({ id: 'c-1' })).id).toBe('c-1')
    for (const url of ['https://127.0.0.1/', 'http://hooks.example.com/']) {
      expect((await create({ url })).data[1].fieldViolations).toMatchObject([{ field: 'url' }])
    }
  })
})

describe.skipIf(!ENGINES.includes('postgres'))('when the process is gone that had the task', () => {
  /** Two processes: the test closes the second one. */
  async function startTwo(): Promise<[Served, Served]> {
    const config = { redisUrl: TEST_REDIS_URL }
    const options = { agencies, access: FILE_ACCESS, config }
    const left = await startPlatform('postgres', options)
    const gone = await startPlatform('postgres', { ...options, beside: left.shared })
    closeAfterTest(() => left.close())
    return [left, gone]
  }

  test('another one delivers what was not delivered', async () => {
    const [left, gone] = await startTwo()
    const owner = await left.client()
    const path = `/${owner.ownerId}`
    gone.provider.script([text('Done.')])
    receiver.answers.push(503)
    const { id } = await send(owner.with({ url: gone.url }), 'Work', pushTo(hooks.url + path))
    await receiver.until(path, 1)
    await gone.close()

    const delivered = async () => {
      await left.rows(`UPDATE push_configs SET next_at = now() WHERE run_id = '${id}'`)
      await deliverNotifications(left.platform)
      return receiver.at(path)
    }
    await expect.poll(delivered).toHaveLength(2)

    expect(stateOf(receiver.at(path)[1]!)).toBe('TASK_STATE_COMPLETED')
  })

  test("an owner's data key that cannot be read fails its own notifications, and holds up no other's", async () => {
    const [left, gone] = await startTwo()
    const [broken, other] = [await left.client(), await left.client()]
    gone.provider.respond(() => text('Done.'))
    const { id } = await sendInVain(gone, broken.with({ url: gone.url }), `/${broken.ownerId}`)
    await sendInVain(gone, other.with({ url: gone.url }), `/${other.ownerId}`)
    await gone.close() // the one that knows the keys
    await left.rows(`UPDATE owners SET dek_wrapped = '\\x00' WHERE id = '${broken.ownerId}'`)
    await left.rows('UPDATE push_configs SET next_at = now(), failing_since = NULL')

    await deliverNotifications(left.platform)

    await receiver.until(`/${other.ownerId}`, 2)
    await untilFailing(left, id)
    expect(receiver.at(`/${broken.ownerId}`)).toHaveLength(1)
  })
})
