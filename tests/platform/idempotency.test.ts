import { ROUTES } from '@bureau/platform/testing'
import { describe, expect, test } from 'vitest'
import { BODIES, MISSING, requestOf } from './support/one-of-each.ts'
import type { TestClient } from './support/test-client.ts'
import { ENGINES, servePlatform } from './support/test-platform.ts'

const ONCE = { headers: { 'idempotency-key': 'order-7' } }

describe.each(ENGINES)('Idempotency-Key on %s', (engine) => {
  const platform = servePlatform(engine)

  const keyOf = async (client: TestClient, fields: Record<string, unknown> = {}): Promise<TestClient> => {
    const { body } = await client.post('/v1/api_keys', { name: 'other', ...fields })
    return client.with({ token: body.token })
  }

  test.each([
    ['POST /v1/api_keys', '/v1/api_keys', () => ({ name: 'backend' })],
    [
      'POST /create_agency_upload',
      '/create_agency_upload',
      ({ integrationId }: TestClient) => ({ apiIntegrationId: integrationId, name: 'a.txt', size: 1 }),
    ],
    [
      'POST /create_new_chat',
      '/create_new_chat',
      ({ integrationId }: TestClient) => ({ apiIntegrationId: integrationId }),
    ],
    ['POST /v1/integrations', '/v1/integrations', () => BODIES['createIntegration']!(MISSING)],
    ['POST /v1/webhook_endpoints', '/v1/webhook_endpoints', () => BODIES['createWebhookEndpoint']!(MISSING)],
  ])(
    '%s: a key that is restricted to another integration gets no answer of a full key',
    async (_title, path, bodyOf) => {
      const client = await platform.client()
      const elsewhere = await platform.addIntegration(client.ownerId)
      const restricted = await keyOf(client, { integrationIds: [elsewhere] })
      const first = await client.post(path, bodyOf(client), ONCE)

      const stolen = await restricted.post(path, bodyOf(client), ONCE)

      expect(first.status).toBeLessThan(300)
      expect(stolen.status).toBe(403)
      expect(stolen.headers.get('idempotent-replayed')).toBeNull()
    },
  )

  test('rotating: a restricted key gets no token of a full key', async () => {
    const client = await platform.client()
    const restricted = await keyOf(client, { integrationIds: [client.integrationId] })
    const { body: old } = await client.post('/v1/api_keys', { name: 'old' })
    const path = `/v1/api_keys/${old.id}/rotate`
    expect((await client.post(path, {}, ONCE)).status).toBe(201)

    const stolen = await restricted.post(path, {}, ONCE)

    expect([403, 404]).toContain(stolen.status)
  })

  test('two keys of an owner may send the same words: each gets what it asked for', async () => {
    const client = await platform.client()
    const colleague = await keyOf(client)
    const body = { apiIntegrationId: client.integrationId }

    const [mine, theirs] = [
      await client.post('/create_new_chat', body, ONCE),
      await colleague.post('/create_new_chat', body, ONCE),
    ]
    const other = await colleague.post('/v1/api_keys', { name: 'x' }, ONCE)

    expect(theirs.headers.get('idempotent-replayed')).toBeNull()
    expect(theirs.body.chatId).not.toBe(mine.body.chatId)
    expect(other.status).toBe(201)
  })

  test('a secret is shown once: the repetition names what was made, and the secret of the first answer works', async () => {
    const client = await platform.client()
    const made = await client.post('/v1/api_keys', { name: 'backend' }, ONCE)

    const again = await client.post('/v1/api_keys', { name: 'backend' }, ONCE)

    expect(again.body).toEqual({ ...made.body, token: null })
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect((await client.with({ token: made.body.token }).get('/v1/agencies')).status).toBe(200)
    expect((await client.get('/v1/api_keys')).body.data).toHaveLength(2)
  })

  test('what is shown once is not kept for a repetition, by any route', async () => {
    const client = await platform.client()
    const { body: old } = await client.post('/v1/api_keys', { name: 'old' })
    const ids = { ...MISSING, integrationId: client.integrationId, keyId: old.id }
    for (const route of ROUTES.filter(({ shownOnce }) => shownOnce)) {
      const { method, path, body } = requestOf(route, ids)
      const [first, again] = [await client.call(method, path, body, ONCE), await client.call(method, path, body, ONCE)]
      for (const name of route.shownOnce!) {
        expect(first.body[name]).toEqual(expect.any(String))
        expect(again.body[name]).toBeNull()
      }
    }
  })

  test('a refusal is repeated to the key that got it only', async () => {
    const client = await platform.client()
    const narrow = await keyOf(client, { scopes: ['keys'] })
    const create = async (caller: TestClient): Promise<number> =>
      (await caller.fetch('POST', '/v1/api_keys', { name: 'more', scopes: ['runs'] }, ONCE)).status

    expect([await create(narrow), await create(client), await create(narrow)]).toEqual([403, 201, 403])
  })
})
