import { describe, expect, test } from 'vitest'
import { ENGINES, servePlatform } from './support/test-platform.ts'

describe.each(ENGINES)('GET /v1/audit on %s', (engine) => {
  const platform = servePlatform(engine)

  test('200 lists who changed what, newest first, page by page', async () => {
    const client = await platform.client()
    const { body: key } = await client.post('/v1/api_keys', { name: 'Billing' })
    await client.call('PATCH', `/v1/integrations/${client.integrationId}`, { name: 'Shop for partners' })
    await client.call('DELETE', `/v1/api_keys/${key.id}`)

    const { body: first } = await client.get('/v1/audit?limit=2')
    const { body: second } = await client.get(`/v1/audit?limit=2&cursor=${encodeURIComponent(first.nextCursor)}`)

    const actions = [...first.data, ...second.data].map(({ action }: { action: string }) => action)
    expect(actions.slice(0, 3)).toEqual(['api_key.revoked', 'integration.updated', 'api_key.created'])
    expect(first.data[0]).toMatchObject({ object: 'audit_entry', target: key.id })
    expect(JSON.stringify(first.data)).not.toContain('Shop for partners')
  })

  test('200 names each consumer that was registered, once, and by which key', async () => {
    const client = await platform.client()
    const members = `/v1/integrations/${client.integrationId}/members`
    const { body: first } = await client.post(members, { consumerId: 'u-1' })
    await client.post(members, { consumerId: 'u-1' })
    await client.post(`${members}/batch`, {
      members: [{ consumerId: 'u-1' }, { consumerId: 'u-2' }, { consumerId: 'u-3' }],
    })

    const { data } = (await client.get('/v1/audit?limit=100')).body as { data: { action: string; target: string }[] }
    const registered = data.filter(({ action }) => action === 'member.created')

    expect(registered).toHaveLength(3)
    expect(registered.at(-1)).toMatchObject({ target: first.id, actor: expect.stringMatching(/^key_/) })
    expect(new Set(registered.map(({ target }) => target)).size).toBe(3)
    expect(JSON.stringify(registered)).not.toContain('u-1')
  })

  test('200 names who has deleted a file, once', async () => {
    const client = await platform.client()
    const { integrationId: apiIntegrationId } = client
    const upload = { apiIntegrationId, name: 'secret-plan.txt', size: 1 }
    const { body: file } = await client.post('/create_agency_upload', upload)
    await fetch(file.uploadUrl, { method: 'PUT', body: 'x' })
    const path = `/v1/integrations/${apiIntegrationId}/files?path=${encodeURIComponent(file.path)}`
    await client.call('DELETE', path)
    await client.call('DELETE', path)

    const { data } = (await client.get('/v1/audit?limit=100')).body as { data: { action: string }[] }

    const deleted = data.filter(({ action }) => action === 'file.deleted')
    const details = { uploadId: file.uploadId, bytes: 1 }
    expect(deleted).toMatchObject([{ actor: expect.stringMatching(/^key_/), target: apiIntegrationId, details }])
    expect(JSON.stringify(deleted)).not.toContain('secret-plan')
  })

  test('200 shows the changes of its own owner alone', async () => {
    const [mine, theirs] = [await platform.client(), await platform.client()]
    const { body: key } = await theirs.post('/v1/api_keys', { name: 'Theirs' })

    const { body } = await mine.get('/v1/audit?limit=100')

    expect(JSON.stringify(body.data)).not.toContain(key.id)
  })
})
