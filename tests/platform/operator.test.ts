import { Agency, Agent } from '@bureau/framework'
import { ensureFirstOwner } from '@bureau/platform'
import { describe, expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import { closeAfterTest, type Json } from '../support/test-server.ts'
import { ENGINES, servePlatform, shopAgency, startPlatform } from './support/test-platform.ts'

const OPERATOR_KEY = 'the key of the operator, which is long enough'

describe.each(ENGINES)('the operator on %s', (engine) => {
  const platform = servePlatform(engine, { config: { operatorKey: OPERATOR_KEY } })

  /** Calls a route with a key, the operator's unless another is given. */
  async function call(method: string, path: string, body?: unknown, key = OPERATOR_KEY) {
    const response = await fetch(platform.url + path, {
      method,
      headers: {
        ...(key !== '' && { authorization: `Bearer ${key}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: (await response.json()) as Json }
  }

  test('makes an owner with an integration of each agency, and a key that can use it', async () => {
    platform.provider.respond(() => text('Welcome.'))
    const { status, body: owner } = await call('POST', '/v1/admin/owners', { name: 'Ada' })
    expect([status, owner]).toEqual([
      201,
      {
        object: 'owner',
        id: expect.stringMatching(/^own_/),
        name: 'Ada',
        status: 'active',
        publishesAgencies: true,
        createdAt: expect.any(String),
      },
    ])
    const { body: key } = await call('POST', `/v1/admin/owners/${owner.id}/api_keys`, { name: 'first' })
    const { body: integrations } = await call('GET', '/v1/integrations', undefined, key.token)

    expect(integrations.data).toMatchObject([{ agencyId: 'shop', agencyDeployed: true }])
    const completion = await fetch(`${platform.url}/get_completion_v2`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key.token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ apiIntegrationId: integrations.data[0].apiIntegrationId, message: 'Hi' }),
    })
    expect(await completion.text()).toContain('Welcome.')
  })

  test('makes a key where all are lost, lists keys without tokens, and revokes them', async () => {
    const { body: owner } = await call('POST', '/v1/admin/owners', { name: 'Bob', publishesAgencies: false })
    const keys = `/v1/admin/owners/${owner.id}/api_keys`
    const { body: key } = await call('POST', keys, { name: 'reports', scopes: ['usage:read'] })
    expect((await call('GET', '/v1/usage/summary?groupBy=day', undefined, key.token)).status).toBe(200)
    expect((await call('GET', '/v1/integrations', undefined, key.token)).body.code).toBe('insufficient_scope')

    const { body: listed } = await call('GET', keys)
    expect(listed.data).toMatchObject([{ id: key.id, name: 'reports', revokedAt: null }])
    expect(JSON.stringify(listed)).not.toContain(key.token)
    expect((await call('DELETE', `${keys}/${key.id}`)).body).toMatchObject({ revokedAt: expect.any(String) })
    expect((await call('GET', '/v1/usage/summary?groupBy=day', undefined, key.token)).status).toBe(401)
  })

  test('disables an owner, whose keys are refused, and enables it again', async () => {
    const { body: owner } = await call('POST', '/v1/admin/owners', { name: 'Eve' })
    const { body: key } = await call('POST', `/v1/admin/owners/${owner.id}/api_keys`, { name: 'first' })
    const path = `/v1/admin/owners/${owner.id}`
    expect((await call('PATCH', path, { status: 'disabled' })).body).toMatchObject({ status: 'disabled', name: 'Eve' })
    expect((await call('GET', '/v1/integrations', undefined, key.token)).status).toBe(401)

    expect((await call('PATCH', path, { status: 'active', name: 'Eva' })).body).toMatchObject({
      status: 'active',
      name: 'Eva',
    })
    expect((await call('GET', '/v1/integrations', undefined, key.token)).status).toBe(200)
    const { data } = (await call('GET', '/v1/audit?limit=2', undefined, key.token)).body
    expect(data).toMatchObject([
      { actor: 'operator', action: 'owner.updated', target: owner.id, details: { changed: ['name', 'status'] } },
      { actor: 'operator', action: 'owner.updated', target: owner.id, details: { changed: ['status'] } },
    ])
  })

  test('lists owners, newest first, page by page', async () => {
    const names = ['One', 'Two', 'Three']
    for (const name of names) await call('POST', '/v1/admin/owners', { name })
    const first = await call('GET', '/v1/admin/owners?limit=2')
    const second = await call('GET', `/v1/admin/owners?limit=1&cursor=${encodeURIComponent(first.body.nextCursor)}`)

    expect([...first.body.data, ...second.body.data].map(({ name }: { name: string }) => name)).toEqual([
      'Three',
      'Two',
      'One',
    ])
    expect(JSON.stringify(first.body)).not.toContain('dek')
  })

  test.each([
    ['no key', ''],
    ['another key', 'a key that is not that of the operator'],
    ['an API key', 'owner'],
  ])('with %s nothing of it is there: 401', async (_title, key) => {
    const used = key === 'owner' ? (await platform.client()).token : key

    for (const [method, path] of [
      ['GET', '/v1/admin/owners'],
      ['POST', '/v1/admin/owners'],
      ['DELETE', '/v1/admin/owners/a/api_keys/b'],
    ] as const) {
      const { status, body } = await call(method, path, method === 'POST' ? { name: 'x' } : undefined, used)
      expect([status, body.code]).toEqual([401, 'invalid_api_key'])
    }
  })

  test.each([
    ['PATCH', '/v1/admin/owners/own_none', { name: 'x' }, [404, 'owner_not_found']],
    ['POST', '/v1/admin/owners/own_none/api_keys', { name: 'x' }, [404, 'owner_not_found']],
    ['GET', '/v1/admin/owners/own_none/api_keys', undefined, [404, 'owner_not_found']],
    ['DELETE', '/v1/admin/owners/own_none/api_keys/key_none', undefined, [404, 'owner_not_found']],
    ['POST', '/v1/admin/owners', { name: '' }, [400, 'invalid_request']],
    ['POST', '/v1/admin/owners', { name: 'x', id: 'own_mine' }, [400, 'invalid_request']],
    ['PATCH', '/v1/admin/owners/own_none', {}, [400, 'invalid_request']],
  ])('%s %s with %j is %j', async (method, path, body, refusal) => {
    const answer = await call(method, path, body)

    expect([answer.status, answer.body.code]).toEqual(refusal)
  })
})

test('without PLATFORM_OPERATOR_KEY nobody is the operator', async () => {
  const platform = await startPlatform('pglite')
  closeAfterTest(() => platform.close())
  const response = await fetch(`${platform.url}/v1/admin/owners`, { headers: { authorization: 'Bearer undefined' } })

  expect(response.status).toBe(401)
  expect(await response.json()).toMatchObject({ error: expect.stringContaining('PLATFORM_OPERATOR_KEY is not set') })
})

test('agencies that are added later go to the owners who want all, at the next start', async () => {
  const agencies = { shop: shopAgency() }
  const platform = await startPlatform('pglite', { agencies, config: { operatorKey: OPERATOR_KEY } })
  closeAfterTest(() => platform.close())
  await ensureFirstOwner(platform.platform)
  const headers = { authorization: `Bearer ${OPERATOR_KEY}`, 'content-type': 'application/json' }
  const create = (body: object) =>
    fetch(`${platform.url}/v1/admin/owners`, { method: 'POST', headers, body: JSON.stringify(body) })
  await create({ name: 'All' })
  await create({ name: 'None', publishesAgencies: false })
  const added = new Agency({ name: 'Desk', entryPoint: new Agent({ name: 'Desk', instructions: 'Help.' }) })
  const later = { ...platform.platform, agencies: new Map([...platform.platform.agencies, ['desk', added]]) }

  await ensureFirstOwner(later)

  const rows = await platform.rows(
    'SELECT o.name, i.agency_id FROM integrations i JOIN owners o ON o.id = i.owner_id ORDER BY o.id, i.id',
  )
  expect(rows).toEqual([
    { name: 'First owner', agency_id: 'shop' },
    { name: 'First owner', agency_id: 'desk' },
    { name: 'All', agency_id: 'shop' },
    { name: 'All', agency_id: 'desk' },
  ])
})
