import { createHmac, randomUUID } from 'node:crypto'
import { text as readText } from 'node:stream/consumers'
import { deliverWebhooks } from '@bureau/platform/testing'
import { describe, expect, test } from 'vitest'
import { hold, status, text, textDeltas } from '../support/fake-provider.ts'
import { FILE_ACCESS, startFileServer } from './support/file-server.ts'
import { ENGINES, servePlatform, testRecords } from './support/test-platform.ts'

type Received = { path: string; headers: Record<string, string>; body: string }
const received: Received[] = []
let answer = 204

/** Hears what is delivered, and answers as the test says. */
const hooks = await startFileServer((request, response) => {
  void readText(request).then((body) => {
    received.push({ path: request.url ?? '', headers: request.headers as Record<string, string>, body })
    const location = answer === 302 ? { location: String(request.url).replace('moved', 'elsewhere') } : {}
    response.writeHead(answer, location).end('ignored')
  })
})

function expectSigned({ headers, body }: Received, secret: string): void {
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64')
  expect(headers['webhook-signature']).toBe(`v1,${createHmac('sha256', key).update(signed).digest('base64')}`)
  expect(Math.abs(Number(headers['webhook-timestamp']) - Date.now() / 1_000)).toBeLessThan(60)
}

describe.each(ENGINES)('webhooks on %s', (engine) => {
  const platform = servePlatform(engine, { access: FILE_ACCESS })
  const deliver = (): Promise<unknown> => deliverWebhooks(platform.platform)
  const take = (path: string): Received[] => received.filter((each) => each.path === path)

  test('an owner has so many endpoints that its announcements hold up nobody else', async () => {
    const [client, other] = [await platform.client(), await platform.client()]
    const endpoint = { url: `${hooks.url}/many`, events: ['run.completed'] }
    const create = (): ReturnType<typeof client.post> => client.post('/v1/webhook_endpoints', endpoint)
    const made: Awaited<ReturnType<typeof create>>[] = []
    while (made.length < 112) made.push(...(await Promise.all(Array.from({ length: 8 }, create))))
    const refused = made.filter(({ status }) => status !== 201)
    expect(refused).toHaveLength(12)
    expect(refused[0]).toMatchObject({ status: 400, body: { code: 'invalid_request' } })
    expect(refused[0]?.body.error).toContain('at most 100')
    expect((await other.post('/v1/webhook_endpoints', endpoint)).status).toBe(201)

    await client.call('DELETE', `/v1/webhook_endpoints/${made.find(({ status }) => status === 201)?.body.id}`)
    expect((await create()).status).toBe(201)
  })

  test('the end of a run is delivered, signed, to the endpoints of its owner that want it, once', async () => {
    const [client, other] = [await platform.client(), await platform.client()]
    const path = `/${client.ownerId}`
    const created = await client.post('/v1/webhook_endpoints', { url: hooks.url + path, events: ['run.completed'] })
    const failures = await client.post('/v1/webhook_endpoints', {
      url: `${hooks.url}${path}/failed`,
      events: ['run.failed'],
    })
    await other.post('/v1/webhook_endpoints', { url: `${hooks.url}/other`, events: ['run.completed'] })
    expect(created.body).toMatchObject({
      object: 'webhook_endpoint',
      status: 'enabled',
      secret: expect.stringMatching(/^whsec_/),
    })
    platform.provider.script([text('secret words'), status(401, { message: 'no' })])
    const { stream } = await client.completeWhole({ message: 'secret question' })
    await client.completeWhole()

    await deliver()
    await deliver()

    await expect.poll(() => take(`${path}/failed`).length + take(path).length).toBe(2)
    const [only, ...more] = take(path)
    expect(more).toEqual([])
    expectSigned(only!, created.body.secret)
    const event = JSON.parse(only!.body)
    expect(event).toMatchObject({
      type: 'run.completed',
      data: { object: 'run', runId: stream.runId, status: 'completed' },
    })
    expect(event.id).toBe(only!.headers['webhook-id'])
    expect(only!.body).not.toContain('secret')
    expect(take(`${path}/failed`)).toHaveLength(1)
    expectSigned(take(`${path}/failed`)[0]!, failures.body.secret)
    expect(take('/other')).toEqual([])
    // What the platform has delivered by itself is recorded after it has come.
    await expect
      .poll(async () => (await client.get(`/v1/webhook_endpoints/${created.body.id}/deliveries`)).body.data)
      .toMatchObject([{ eventId: event.id, type: 'run.completed', state: 'delivered', attempts: 1 }])
    expect((await client.get(`/v1/webhook_endpoints/${created.body.id}`)).text).not.toContain(created.body.secret)
  })

  test('nobody has to ask: the end of a run is delivered when it happens', async () => {
    const client = await platform.client()
    const path = `/${client.ownerId}`
    await client.post('/v1/webhook_endpoints', { url: hooks.url + path, events: ['run.completed'] })
    platform.provider.script([text('done')])
    await client.completeWhole()
    await expect.poll(() => take(path)).toHaveLength(1)
  })

  test('a cancelled run, and a member that has used most and then all of its allowance, are delivered once each', async () => {
    const client = await platform.client({ memberAllowancesEnabled: true })
    const path = `/${client.ownerId}`
    await client.post('/v1/webhook_endpoints', {
      url: hooks.url + path,
      events: ['run.cancelled', 'member.allowance_threshold', 'member.allowance_exhausted', 'api_key.revoked'],
    })
    const members = `/v1/integrations/${client.integrationId}/members`
    await client.post(members, { consumerId: 'u', allowance: { messages: 5 } })
    const gate = platform.provider.gate()
    const said = Array.from({ length: 4 }, () => text('secret words'))
    platform.provider.script([...said, textDeltas(['a', hold(gate), 'b'])])
    const request = () => ({ consumerId: 'u', usageRequestId: randomUUID(), message: 'secret question' })

    for (let sent = 0; sent < 4; sent++) await client.completeWhole(request())
    const last = await client.complete(request())
    await last.untilText('"delta":"a"')
    await client.post(`/v1/runs/${last.runId}/cancel`)
    await last.all()
    const key = await client.post('/v1/api_keys', { name: 'x' })
    await client.call('DELETE', `/v1/api_keys/${key.body.id}`)
    await deliver()

    await expect.poll(() => deliver().then(() => take(path))).toHaveLength(4)
    const events = take(path).map(({ body }) => JSON.parse(body))
    expect(events.map(({ type }): string => type).toSorted()).toEqual([
      'api_key.revoked',
      'member.allowance_exhausted',
      'member.allowance_threshold',
      'run.cancelled',
    ])
    const data = Object.fromEntries(events.map((event) => [event.type, event.data]))
    expect(data['run.cancelled']).toMatchObject({ object: 'run', runId: last.runId, status: 'cancelled' })
    expect(data['member.allowance_exhausted']).toMatchObject({ object: 'member', consumerId: 'u' })
    expect(data['api_key.revoked']).toMatchObject({ object: 'api_key', id: key.body.id })
    expect(JSON.stringify(events)).not.toMatch(/secret|eyJ/)
  })

  test('a failed delivery comes again, later each time; one that is gone switches its endpoint off', async () => {
    const client = await platform.client()
    const path = `/${client.ownerId}`
    const { body } = await client.post('/v1/webhook_endpoints', { url: hooks.url + path, events: ['api_key.revoked'] })
    const endpoint = `/v1/webhook_endpoints/${body.id}`
    const key = await client.post('/v1/api_keys', { name: 'x' })
    await client.call('DELETE', `/v1/api_keys/${key.body.id}`)
    const due = (): Promise<unknown> =>
      platform.rows(`UPDATE webhook_deliveries SET next_at = now() WHERE endpoint_id = '${body.id}'`)

    // The platform delivers by itself too: what it has taken may still be under way.
    answer = 500
    await deliver()
    await deliver()
    await expect
      .poll(async () => (await client.get(`${endpoint}/deliveries`)).body.data[0])
      .toMatchObject({ state: 'pending', responseStatus: 500 })
    expect(take(path)).toHaveLength(1) // the next attempt is not due yet
    expect((await client.get(endpoint)).body.failingSince).not.toBeNull()
    answer = 204
    await due()
    await deliver()
    await expect
      .poll(async () => (await client.get(endpoint)).body)
      .toMatchObject({ failingSince: null, status: 'enabled' })
    expect(take(path)).toHaveLength(2)
    expect(take(path)[0]!.headers['webhook-id']).toBe(take(path)[1]!.headers['webhook-id'])

    answer = 410
    const tested = await client.post(`${endpoint}/test`)
    expect(tested.body).toEqual({ delivered: false, responseStatus: 410, problem: expect.stringContaining('410') })
    const second = await client.post('/v1/api_keys', { name: 'y' })
    await client.call('DELETE', `/v1/api_keys/${second.body.id}`)
    await deliver()
    await expect.poll(async () => (await client.get(endpoint)).body.status).toBe('disabled')
    answer = 204
    expect((await client.call('PATCH', endpoint, { status: 'enabled' })).body.status).toBe('enabled')
    expect((await client.call('DELETE', endpoint)).status).toBe(204)
    expect((await client.get(endpoint)).body.code).toBe('webhook_not_found')
  })

  test('an endpoint whose secret cannot be read has failed, and holds up no other', async () => {
    const client = await platform.client()
    const path = `/${client.ownerId}`
    const endpoint = { url: hooks.url + path, events: ['api_key.revoked'] }
    const [broken] = [
      await client.post('/v1/webhook_endpoints', endpoint),
      await client.post('/v1/webhook_endpoints', endpoint),
    ]
    await platform.rows(`UPDATE webhook_endpoints SET secret_enc = '\\x00' WHERE id = '${broken.body.id}'`)
    const key = await client.post('/v1/api_keys', { name: 'x' })
    await client.call('DELETE', `/v1/api_keys/${key.body.id}`)

    await deliver()

    await expect
      .poll(async () => (await client.get(`/v1/webhook_endpoints/${broken.body.id}/deliveries`)).body.data[0])
      .toMatchObject({ state: 'pending', attempts: 1, responseStatus: null })
    await expect.poll(() => take(path)).toHaveLength(1)
    expect((await client.post(`/v1/webhook_endpoints/${broken.body.id}/test`)).body.problem).toContain('secret')
    expect((await client.get(`/v1/webhook_endpoints/${broken.body.id}`)).body.failingSince).not.toBeNull()
  })

  test("an owner's data key that cannot be read fails its own deliveries, and holds up no other's", async () => {
    const [broken, other] = [await platform.client(), await platform.client()]
    const path = `/${other.ownerId}`
    const { body } = await other.post('/v1/webhook_endpoints', { url: hooks.url + path, events: ['api_key.revoked'] })
    const endpoint = `/v1/webhook_endpoints/${broken.ownerId}`
    await platform.rows(`UPDATE owners SET dek_wrapped = '\\x00' WHERE id = '${broken.ownerId}'`)
    await platform.rows(`INSERT INTO webhook_endpoints (id, owner_id, url, events, secret_enc)
      SELECT '${broken.ownerId}', '${broken.ownerId}', url, events, secret_enc FROM webhook_endpoints WHERE id = '${body.id}'`)
    for (const client of [broken, other]) {
      const key = await client.post('/v1/api_keys', { name: 'x' })
      await client.call('DELETE', `/v1/api_keys/${key.body.id}`)
    }

    await deliver()

    await expect.poll(async () => (await broken.get(endpoint)).body.failingSince).not.toBeNull()
    await expect.poll(() => take(path)).toHaveLength(1)
    expect((await broken.post(`${endpoint}/test`)).body.problem).toContain('secret')
  })

  test('a redirect is not followed, wherever it leads', async () => {
    const client = await platform.client()
    const { body } = await client.post('/v1/webhook_endpoints', {
      url: `${hooks.url}/${client.ownerId}/moved`,
      events: ['run.failed'],
    })
    answer = 302

    const tested = await client.post(`/v1/webhook_endpoints/${body.id}/test`)

    answer = 204
    expect(tested.body).toEqual({ delivered: false, responseStatus: 302, problem: expect.stringContaining('302') })
    expect(take(`/${client.ownerId}/elsewhere`)).toEqual([])
  })

  test('a test says why nothing could be delivered', async () => {
    const client = await platform.client()
    const test = async (url: string): Promise<unknown> => {
      const { body } = await client.post('/v1/webhook_endpoints', { url, events: ['run.failed'] })
      return (await client.post(`/v1/webhook_endpoints/${body.id}/test`)).body
    }

    const none = { delivered: false, responseStatus: null }
    expect(await test('https://files.example.com:1/')).toEqual({ ...none, problem: 'It refused the connection.' })
    expect(await test('https://other.example.com/')).toMatchObject({ ...none, problem: expect.any(String) })
  })

  test.each([
    'http://hooks.example.com/',
    'https://127.0.0.1/',
    'https://localhost/',
    'https://[::1]/',
    'ftp://x.example.com/',
    'x',
  ])('%s is no address for webhooks', async (url) => {
    const refused = await (await platform.client()).post('/v1/webhook_endpoints', { url, events: ['run.failed'] })
    expect([refused.status, refused.body.code]).toEqual([400, 'invalid_webhook_url'])
    expect(refused.body.fields).toMatchObject([{ path: '/url', code: 'invalid_webhook_url' }])
  })

  testRecords(platform)
})
