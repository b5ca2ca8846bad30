import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { text, toolCall } from '../support/fake-provider.ts'
import type { TestClient } from './support/test-client.ts'
import { ENGINES, servePlatform, testRecords } from './support/test-platform.ts'

const KEY = { 'idempotency-key': 'goodwill-118' }

describe.each(ENGINES)('management on %s', (engine) => {
  const platform = servePlatform(engine)
  const membersOf = (client: TestClient): string => `/v1/integrations/${client.integrationId}/members`

  describe('members', () => {
    test('are registered, listed, changed by version and taken away', async () => {
      const client = await platform.client()
      const members = membersOf(client)
      const created = await client.post(members, {
        consumerId: 'u~7|@x',
        displayName: 'Ada',
        metadata: { plan: 'pro' },
      })
      const same = await client.post(members, { consumerId: 'u~7|@x', displayName: 'Ada', metadata: { plan: 'pro' } })
      const other = await client.post(members, { consumerId: 'u~7|@x', displayName: 'Bob' })
      expect([created.status, same.status, other.status]).toEqual([201, 200, 409])
      expect(other.body.code).toBe('member_exists')
      expect(other.body.fields).toEqual([
        { path: '/consumerId', code: 'member_exists', error: 'The member exists with other values.' },
      ])
      expect(created.headers.get('etag')).toBe('"1"')

      const one = `${members}/${encodeURIComponent('u~7|@x')}`
      const change = (version: string) =>
        client.call('PATCH', one, { status: 'inactive' }, { headers: { 'if-match': version } })
      expect((await change('"9"')).body.code).toBe('version_conflict')
      expect((await change('"1"')).body).toMatchObject({ status: 'inactive', version: 2 })
      expect((await change('"1"')).status).toBe(412)
      expect((await client.get(`${members}?status=inactive`)).body.data).toHaveLength(1)
      expect((await client.get(`${members}?status=active`)).body.data).toHaveLength(0)
      expect((await client.call('DELETE', one, undefined, { headers: { 'if-match': '"1"' } })).status).toBe(412)
      expect((await client.call('DELETE', one, undefined, { headers: { 'if-match': '"2"' } })).status).toBe(204)
      expect((await client.get(one)).body.code).toBe('member_not_found')
    })

    test('consumer ids have an alphabet', async () => {
      const client = await platform.client()

      for (const consumerId of ['', 'a b', 'ä', 'a/b', 'x'.repeat(257)]) {
        expect((await client.post(membersOf(client), { consumerId })).body.code).toBe('invalid_consumer_id')
      }
    })

    test('a batch succeeds or fails one by one', async () => {
      const client = await platform.client()
      await client.post(membersOf(client), { consumerId: 'u-1' })

      const batch = await client.post(`${membersOf(client)}/batch`, {
        members: [{ consumerId: 'u-1' }, { consumerId: 'u-2' }, { consumerId: 'u-1', status: 'inactive' }],
      })

      expect(batch.body.results).toEqual([
        { consumerId: 'u-1', status: 'exists' },
        { consumerId: 'u-2', status: 'created' },
        { consumerId: 'u-1', status: 'error', code: 'member_exists' },
      ])
    })

    test('pages of a list hold every member once', async () => {
      const client = await platform.client()
      const members = Array.from({ length: 7 }, (_, index) => ({ consumerId: `u-${index}` }))
      await client.post(`${membersOf(client)}/batch`, { members })

      const seen: string[] = []
      for (let cursor = ''; ;) {
        const page = await client.get(`${membersOf(client)}?limit=3${cursor && `&cursor=${cursor}`}`)
        seen.push(...page.body.data.map((member: { consumerId: string }) => member.consumerId))
        expect(page.body.hasMore).toBe(page.body.nextCursor !== null)
        if (!page.body.hasMore) break
        cursor = page.body.nextCursor
      }

      expect(seen.toSorted()).toEqual(members.map(({ consumerId }) => consumerId))
    })
  })

  describe('allowances', () => {
    async function limited(allowance: object): Promise<{ client: TestClient; allowancePath: string }> {
      const client = await platform.client({ memberAllowancesEnabled: true })
      await client.post(membersOf(client), { consumerId: 'u', allowance })
      return { client, allowancePath: `${membersOf(client)}/u/allowance` }
    }

    test('tokens are counted after each model call, and the next request is refused', async () => {
      const { client, allowancePath } = await limited({ tokens: 10, period: 'lifetime' })
      platform.provider.script([
        toolCall('send_message', { recipient_agent: 'Clerk', message: 'x' }),
        text('One.'),
        text('Two.'),
      ])

      const first = await client.completeWhole({ consumerId: 'u', usageRequestId: randomUUID() })
      const second = await client.completeWhole({ consumerId: 'u', usageRequestId: randomUUID() })

      expect(first.stream.result.status).toBe('completed') // a running response may end above the limit
      expect([second.status, second.body.code]).toEqual([429, 'consumer_allowance_exhausted'])
      expect(second.headers.has('retry-after')).toBe(false) // a lifetime has no next period
      const { body } = await client.get(allowancePath)
      expect(body).toMatchObject({ exhausted: true, periodEnd: null, remaining: { tokens: 0, messages: null } })
      expect(body.used.tokens).toBe(first.stream.result.usage.total_tokens)
      const ledger = await client.get(`${allowancePath}/ledger`)
      expect(ledger.body.data.map((entry: { kind: string }) => entry.kind)).toEqual([
        'debit',
        'debit',
        'debit',
        'debit',
      ])
      const record = await client.get(`/v1/usage/records?consumerId=u`)
      expect(record.body.data[0].debited).toMatchObject({ messages: 1, tokens: body.used.tokens })
    })

    test('a grant lets the next request through, once for each key', async () => {
      const { client, allowancePath } = await limited({ messages: 1 })
      platform.provider.respond(() => text('Fine.'))
      const ask = async (): Promise<number> =>
        (await client.completeWhole({ consumerId: 'u', usageRequestId: randomUUID() })).status
      expect([await ask(), await ask()]).toEqual([200, 429])
      const adjust = (body: object, headers: Record<string, string> = KEY, allowance = allowancePath) =>
        client.post(`${allowance}/adjustments`, body, { headers })
      const grant = { kind: 'grant', messages: 1, note: 'support case 118' }

      expect((await adjust(grant, {})).body.code).toBe('idempotency_key_required')
      const [one, two] = [await adjust(grant), await adjust(grant)]

      expect([one.status, two.status, two.headers.get('idempotent-replayed')]).toEqual([201, 200, 'true'])
      expect(two.body).toEqual(one.body)
      expect((await adjust({ ...grant, messages: 5 })).body.code).toBe('idempotency_key_reused')
      await client.post(membersOf(client), { consumerId: 'v' })
      const another = await adjust(grant, KEY, `${membersOf(client)}/v/allowance`)
      expect([another.status, another.headers.get('idempotent-replayed')]).toEqual([201, null])
      expect((await adjust({ kind: 'grant', note: 'nothing' })).body.code).toBe('invalid_adjustment')
      expect((await client.get(allowancePath)).body.granted.messages).toBe(1)
      expect([await ask(), await ask()]).toEqual([200, 429])
    })

    test('a member follows the default of its integration until it has a policy of its own', async () => {
      const client = await platform.client({ memberAllowancesEnabled: true })
      const allowance = `${membersOf(client)}/u/allowance`
      const other = client.with({ integrationId: await platform.addIntegration(client.ownerId) })
      for (const each of [client, other]) await each.post(membersOf(each), { consumerId: 'u' })

      await client.call('PATCH', `/v1/integrations/${client.integrationId}`, { defaultAllowance: { messages: 3 } })
      expect((await client.get(allowance)).body).toMatchObject({ messages: 3, source: 'integration_default' })
      expect((await client.get(`${membersOf(other)}/u/allowance`)).body.messages).toBeNull()
      const own = await client.call('PUT', allowance, { messages: 9, period: 'day', timeZone: 'Europe/Berlin' })
      expect(own.body).toMatchObject({ messages: 9, source: 'member', timeZone: 'Europe/Berlin' })
      expect((await client.call('PUT', allowance, 'null')).body).toMatchObject({
        messages: 3,
        source: 'integration_default',
      })
      expect((await client.call('PUT', allowance, { timeZone: 'Mars/Base' })).body.code).toBe('invalid_allowance')
    })
  })

  describe('integrations', () => {
    test('publish an agency of the deployment', async () => {
      const client = await platform.client()
      const agencies = await client.get('/v1/agencies')
      expect(agencies.body.data).toEqual([
        {
          agencyId: 'shop',
          name: 'Shop',
          version: expect.stringMatching(/^[\da-f]{16}$/),
          agents: [
            { name: 'CEO', entryPoint: true },
            { name: 'Clerk', entryPoint: true },
          ],
        },
      ])

      const created = await client.post('/v1/integrations', { name: 'Support', agencyId: 'shop', textOnlyMode: true })
      expect(created.body).toMatchObject({
        object: 'integration',
        defaultAgent: 'CEO',
        agents: ['CEO', 'Clerk'],
        textOnlyMode: true,
        memberAllowancesEnabled: false,
        onDisconnect: 'continue',
        runTimeoutSeconds: 1800,
        status: 'active',
        version: 1,
      })
      const path = `/v1/integrations/${created.body.apiIntegrationId}`
      const changed = await client.call(
        'PATCH',
        path,
        { defaultAgent: 'Clerk', maxTurns: 7 },
        { headers: { 'if-match': '"1"' } },
      )
      expect(changed.body).toMatchObject({ defaultAgent: 'Clerk', maxTurns: 7, version: 2, textOnlyMode: true })
      expect(changed.headers.get('etag')).toBe('"2"')
      expect((await client.call('PATCH', path, {})).status).toBe(400)
      expect((await client.call('DELETE', path, undefined, { headers: { 'if-match': '"1"' } })).status).toBe(412)
      expect((await client.call('DELETE', path)).status).toBe(204)
      expect((await client.get(path)).body.code).toBe('integration_not_found')
    })

    test.each([
      [{ agencyId: 'none' }, 'unknown_agency'],
      [{ agencyId: 'shop', defaultAgent: 'Nobody' }, 'invalid_agent'],
      [{ agencyId: 'shop', defaultAllowance: { messages: -1 } }, 'invalid_allowance'],
      [{ agencyId: 'shop', runTimeoutSeconds: 5 }, 'invalid_request'],
      [{ agencyId: 'shop', surprise: true }, 'invalid_request'],
    ])('400 for %j', async (fields, code) => {
      const answer = await (await platform.client()).post('/v1/integrations', { name: 'x', ...fields })

      expect([answer.status, answer.body.code]).toEqual([400, code])
      expect(answer.body.fields?.[0]?.path ?? '').toMatch(/^(\/\w+)*$/)
    })

    test('who names what is not there, or not allowed, learns in which field', async () => {
      const client = await platform.client()
      await client.post(membersOf(client), { consumerId: 'u' })
      const adjust = (adjustment: object) =>
        client.post(
          `${membersOf(client)}/u/allowance/adjustments`,
          { note: 'n', ...adjustment },
          { headers: { 'idempotency-key': randomUUID() } },
        )
      const integrations = '/v1/integrations'
      const upload = (file: object) =>
        client.post('/create_agency_upload', { apiIntegrationId: client.integrationId, name: 'a', size: 1, ...file })
      const refused = [
        await client.post(integrations, { name: 'x', agencyId: 'none' }),
        await client.post(integrations, { name: 'x', agencyId: 'shop', defaultAgent: 'Nobody' }),
        await client.post('/v1/api_keys', { name: 'x', expiresAt: '2020-01-01T00:00:00Z' }),
        await adjust({ kind: 'grant', messages: 1, tokens: -1 }),
        await adjust({ kind: 'grant', messages: 1, occurredAt: '2020-01-01T00:00:00Z' }),
        await adjust({ kind: 'backfill', messages: 1, occurredAt: '9999-01-01T00:00:00Z' }),
        await upload({ name: 'é'.repeat(128) }),
        await upload({ size: 2 ** 40 }),
        await upload({ size: -1 }),
        await upload({ contentType: 'text/plain\r\nx-other: 1' }),
      ]

      expect(refused.map(({ status, body }) => [status, body.code, body.fields?.[0]?.path])).toEqual([
        [400, 'unknown_agency', '/agencyId'],
        [400, 'invalid_agent', '/defaultAgent'],
        [400, 'invalid_request', '/expiresAt'],
        [400, 'invalid_adjustment', '/tokens'],
        [400, 'invalid_adjustment', '/occurredAt'],
        [400, 'invalid_adjustment', '/occurredAt'],
        [400, 'invalid_file_name', '/name'],
        [400, 'file_too_large', '/size'],
        [400, 'invalid_request', '/size'],
        [400, 'invalid_request', '/contentType'],
      ])
    })

    test('an owner has at most 1,000; of many that make the last one, one does', async () => {
      const [client, other] = [await platform.client(), await platform.client()]
      await platform.rows(`INSERT INTO integrations (id, owner_id, name, agency_id, default_agent, default_allowance, settings)
        SELECT id || n, owner_id, name, agency_id, default_agent, default_allowance, settings
        FROM integrations, generate_series(1, 998) n WHERE id = '${client.integrationId}'`)
      const create = (by = client): ReturnType<typeof client.post> =>
        by.post('/v1/integrations', { name: 'x', agencyId: 'shop' })

      const made = await Promise.all(Array.from({ length: 4 }, () => create()))

      const refused = made.filter(({ status }) => status !== 201)
      expect(refused).toHaveLength(3)
      expect(refused[0]).toMatchObject({ status: 400, body: { code: 'invalid_request' } })
      expect(refused[0]?.body.error).toContain('at most 1000')
      expect((await create(other)).status).toBe(201)
      await client.call('DELETE', `/v1/integrations/${client.integrationId}`)
      expect((await create()).status).toBe(201)
    })

    test('the settings of an integration reach its runs: another agent, fewer turns', async () => {
      const client = await platform.client({ defaultAgent: 'Clerk', maxTurns: 1 })
      platform.provider.script([toolCall('nothing_there', {})])

      const { stream } = await client.completeWhole()

      expect(stream.meta.agent).toBe('Clerk')
      expect(stream.result.error).toMatchObject({ code: 'max_turns_exceeded', class: 'limit' })
    })
  })

  test('a chat can be named, found by its alias, and deleted', async () => {
    const client = await platform.client()
    platform.provider.respond(() => text('Fine.'))
    const { stream } = await client.completeWhole({ aliasChatId: 'room 7', consumerId: 'u' })
    const path = `/v1/chats/${stream.chatId}`

    expect((await client.call('PATCH', path, { title: 'Boots' })).body).toMatchObject({
      title: 'Boots',
      messageCount: 2,
    })
    const found = await client.get(`/v1/chats?aliasChatId=${encodeURIComponent('room 7')}&consumerId=u`)
    expect(found.body.data).toMatchObject([{ chatId: stream.chatId, lastRunStatus: 'completed', chatState: 'idle' }])
    const other = await client.post('/create_new_chat', { apiIntegrationId: client.integrationId })
    const taken = await client.call('PATCH', `/v1/chats/${other.body.chatId}`, { aliasChatId: 'room 7' })
    expect(taken.body).toMatchObject({ code: 'alias_in_use', fields: [{ path: '/aliasChatId' }] })
    const newest = await client.get(`${path}/messages?order=desc&limit=1`)
    expect(newest.body.data[0].role).toBe('assistant')
    expect((await client.get(`${path}/messages?afterSeq=1`)).body.data).toHaveLength(1)
    expect((await client.call('DELETE', path)).status).toBe(204)
    expect((await client.get(path)).body.code).toBe('chat_not_found')
    expect((await client.get(`/v1/runs/${stream.runId}`)).body.status).toBe('completed')
  })

  test('usage is listed, summed and exported', async () => {
    const client = await platform.client()
    platform.provider.respond(() => text('Fine.'))
    for (const consumerId of ['a', 'b', 'a']) await client.completeWhole({ consumerId })

    const summary = await client.get('/v1/usage/summary?groupBy=consumer')
    expect(summary.body.data.map((row: { key: string; runs: number }) => [row.key, row.runs])).toEqual([
      ['a', 2],
      ['b', 1],
    ])
    const lines = (await client.get('/v1/usage/export?format=jsonl')).text.trim().split('\n')
    expect(lines.map((line) => JSON.parse(line).consumerId)).toEqual(['a', 'b', 'a'])
    expect((await client.get('/v1/usage/export?format=csv')).text.split('\r\n')).toHaveLength(5)
    for (const [range, parameter] of [
      ['from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z', 'to'],
      ['from=2020-01-01T00:00:00Z&to=2026-01-01T00:00:00Z', 'from'],
      ['timeZone=Mars', 'timeZone'],
    ]) {
      const refused = await client.get(`/v1/usage/summary?groupBy=day&${range}`)
      expect(refused.body).toMatchObject({ code: 'invalid_time_range', fields: [{ path: `/${parameter}` }] })
    }
    expect((await client.get('/v1/usage/summary?groupBy=moon')).body.code).toBe('invalid_request')
  })

  test('a key is issued once, rotated with an overlap, and revoked for good', async () => {
    const client = await platform.client()
    const issued = await client.post('/v1/api_keys', { name: 'backend', scopes: ['runs', 'integrations:read'] })
    expect(issued.body).toMatchObject({
      object: 'api_key',
      scopes: ['runs', 'integrations:read'],
      hint: issued.body.token.slice(-4),
    })
    const path = `/v1/api_keys/${issued.body.id}`

    const rotated = await client.post(`${path}/rotate`, { overlapSeconds: 60 })
    const works = async (token: string): Promise<number> => (await client.with({ token }).get('/v1/agencies')).status
    expect([await works(issued.body.token), await works(rotated.body.token)]).toEqual([200, 200])
    const [first, second] = [await client.call('DELETE', path), await client.call('DELETE', path)]
    expect(first.body.revokedAt).not.toBeNull()
    expect(second.body).toEqual(first.body)
    expect([await works(issued.body.token), await works(rotated.body.token)]).toEqual([401, 200])
    expect((await client.post('/v1/api_keys', { name: 'old', expiresAt: '2020-01-01T00:00:00Z' })).body.code).toBe(
      'invalid_request',
    )
  })

  test('a key that was rotated without an overlap is refused at once, and makes none that outlives it', async () => {
    const client = await platform.client()
    const { body: old } = await client.post('/v1/api_keys', { name: 'lost', scopes: ['keys'] })
    const thief = client.with({ token: old.token })
    expect((await thief.get('/v1/api_keys')).status).toBe(200)

    const overlapping = await client.post(`/v1/api_keys/${old.id}/rotate`, { overlapSeconds: 60 })
    const during = await thief.post('/v1/api_keys', { name: 'kept', scopes: ['keys'] })
    await client.post(`/v1/api_keys/${old.id}/rotate`)
    const after = await thief.post('/v1/api_keys', { name: 'kept', scopes: ['keys'] })

    expect([overlapping.status, during.status, after.status]).toEqual([201, 201, 401])
    expect(Date.parse(during.body.expiresAt)).toBeLessThanOrEqual(Date.now() + 60_000)
  })

  test('a key that expires makes none that lives longer, and one that may do little ends none that may do more', async () => {
    const client = await platform.client()
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString()
    const made = async (from: typeof client, body: object) => (await from.post('/v1/api_keys', body)).body
    const maker = await made(client, { name: 'maker', scopes: ['keys', 'runs'], expiresAt })
    const lasting = await made(client, { name: 'lasting', scopes: ['runs'] })
    const mighty = await made(client, { name: 'mighty' })
    const limited = client.with({ token: maker.token })

    const next = await made(limited, { name: 'next', scopes: ['keys'] })
    const later = await made(limited, { name: 'later', scopes: ['runs'], expiresAt: '2099-01-01T00:00:00Z' })
    const rotated = await limited.post(`/v1/api_keys/${lasting.id}/rotate`)
    const refused = await limited.call('DELETE', `/v1/api_keys/${mighty.id}`)
    const ended = await limited.call('DELETE', `/v1/api_keys/${later.id}`)

    expect([next.expiresAt, later.expiresAt, rotated.body.expiresAt]).toEqual([expiresAt, expiresAt, expiresAt])
    expect([refused.status, refused.body.code, ended.status]).toEqual([403, 'insufficient_scope', 200])
  })

  testRecords(platform)
})
