import { ApiKeyScope } from '@bureau/protocol'
import { patternOf, type Route, ROUTES } from '@bureau/platform/testing'
import { beforeAll, describe, expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import { addOneOfEach, BODIES, type Ids, namesIn, oneOfEach, requestOf, send } from './support/one-of-each.ts'
import type { Answer, TestClient } from './support/test-client.ts'
import { ENGINES, servePlatform } from './support/test-platform.ts'

const titled = (routes: readonly Route[]) => routes.map((route) => [`${route.method} ${route.url}`, route] as const)

const guarded = ROUTES.filter(({ scope }) => scope !== null)
const withBody = ROUTES.filter(({ body }) => body)
const lists = guarded.filter(({ query }) =>
  JSON.stringify(query?.toJSONSchema({ io: 'input' }) ?? {}).includes('"cursor"'),
)

/** The parameters of the query that are points in time. */
const timesOf = ({ query }: Route): string[] => {
  const { properties = {} } = (query?.toJSONSchema({ io: 'input' }) ?? {}) as {
    properties?: Record<string, { format?: string }>
  }
  return Object.keys(properties).filter((name) => properties[name]?.format === 'date-time')
}
const timed = ROUTES.flatMap((route) =>
  timesOf(route).map((name) => [`${route.method} ${route.url}?${name}`, route, name] as const),
)

/** Bodies of these may hold what nobody knows; a misspelt limit of the others would mean "no limit". */
const LENIENT = new Set(['getCompletionV2', 'createNewChat', 'create_agency_upload'])

/** What every route refuses alike, and what every list, every change and every creation does alike. */
describe.each(ENGINES)('every route on %s', (engine) => {
  const platform = servePlatform(engine)
  let client: TestClient
  let ids: Ids

  beforeAll(async () => {
    platform.provider.respond(() => text('Hello.'))
    ;({ client, ids } = await addOneOfEach(platform, 'mine'))
  })

  const codeOf = ({ status, body }: Answer): unknown[] => [status, body?.code ?? body?.detail]
  const withQuery = (route: Route, query: string): string => {
    const { path } = requestOf(route, ids)
    return `${path}${path.includes('?') ? '&' : '?'}${query}`
  }

  test.each(titled(guarded))('%s is 401 without a key, before its body is looked at', async (_title, route) => {
    const { method, path } = requestOf(route, ids)

    const answer = await client.with({ token: '' }).call(method, path, route.body ? 'no JSON' : undefined)

    expect(answer.status).toBe(401)
    expect(answer.headers.get('www-authenticate')).toBe('Bearer')
    expect(answer.headers.get('x-agent-run-admitted')).toBe(route.id === 'getCompletionV2' ? 'false' : null)
  })

  test.each(titled(guarded))('%s is 403 for a key with every scope but its own', async (_title, route) => {
    const scopes = ApiKeyScope.options.filter((scope) => scope !== '*' && scope !== route.scope)
    const issued = await client.post('/v1/api_keys', { name: 'all but one', scopes })

    const answer = await send(client.with({ token: issued.body.token }), requestOf(route, ids))

    expect(answer.status).toBe(403)
    if (route.id !== 'createNewChat') expect(answer.body.code).toBe('insufficient_scope')
  })

  test.each(
    titled(
      guarded.filter(
        (route) =>
          route.scope === 'webhooks' || // which get the events of every integration
          namesIn(route).some((name) => ['integrationId', 'agency', 'chatId', 'runId', 'keyId'].includes(name)),
      ),
    ),
  )('%s shows and does nothing to a key for another integration of the same owner', async (_title, route) => {
    const other = await platform.addIntegration(client.ownerId)
    const issued = await client.post('/v1/api_keys', { name: 'elsewhere', integrationIds: [other] })

    const answer = await send(client.with({ token: issued.body.token }), requestOf(route, ids))

    expect([403, 404]).toContain(answer.status)
  })

  test.each(titled(withBody))('%s takes one JSON object and nothing else', async (_title, route) => {
    const { method, path, headers } = requestOf(route, ids)
    const refused = async (body: string | Uint8Array, more: Record<string, string> = {}): Promise<void> => {
      const answer = await client.call(method, path, body, { headers: { ...headers, ...more } })
      expect(answer.status).toBe(400)
    }

    for (const body of [
      '[]',
      '"x"',
      '7',
      '{',
      '{"a":1,"a":1}',
      '{"a":{"constructor":1}}',
      '{}{}',
      '{"a":"\ud800"}',
      '{"a":1e}',
    ]) {
      await refused(body)
    }
    await refused(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])) // not UTF-8
    await refused('['.repeat(100_000))
    await refused('{}', { 'content-type': 'text/plain' })
    await refused('{}', { 'content-type': 'application/x-www-form-urlencoded' })
    await refused('{}', { 'content-encoding': 'gzip' })
  })

  test.each(titled(withBody.filter(({ id }) => !LENIENT.has(id))))(
    '%s refuses members that it does not know',
    async (_title, route) => {
      const request = requestOf(route, ids)
      for (const extra of [
        { ownerId: 'own_x' },
        { owner_id: 'own_x' },
        { activeRuns: 0 },
        { used: {} },
        { version: 1 },
        { messagse: 5 },
      ]) {
        const answer = await send(client, { ...request, body: { ...(request.body as object), ...extra } })
        expect(answer.status).toBe(400)
      }
    },
  )

  test.each(titled(ROUTES.filter(({ idempotent }) => idempotent)))(
    '%s answers a repeated Idempotency-Key with its first answer, without the secrets in it',
    async (_title, route) => {
      const request = requestOf(route, ids)
      const headers = { 'idempotency-key': `${route.id} "1"` }
      const send1 = (path: string): Promise<Answer> => client.call(request.method, path, request.body, { headers })

      const [first, second] = [await send1(request.path), await send1(request.path)]
      const third = await send1(`${request.path}?other`)

      expect(first.headers.get('idempotent-replayed')).toBeNull()
      expect(second.headers.get('idempotent-replayed')).toBe('true')
      const secrets = (route.shownOnce ?? []).map((name) => [name, null])
      expect([second.status, second.body]).toEqual([first.status, { ...first.body, ...Object.fromEntries(secrets) }])
      for (const name of route.shownOnce ?? []) expect(first.body[name]).toEqual(expect.any(String))
      expect(third.status).toBe(422)
      expect(
        codeOf(
          await client.call(request.method, request.path, request.body, {
            headers: { 'idempotency-key': 'x'.repeat(256) },
          }),
        )[0],
      ).toBe(400)
    },
  )

  test.each(titled(lists))('%s has pages of 1 to 100, and cursors of its own', async (_title, route) => {
    for (const query of [
      'limit=0',
      'limit=101',
      'limit=-1',
      'limit=1.5',
      'limit=x',
      'limit=',
      'limit=1&limit=2',
      'limit=1e1',
    ]) {
      expect(codeOf(await client.get(withQuery(route, query)))).toEqual([400, 'invalid_request'])
    }
    for (const cursor of ['x', '', 'WyJhIiwiYiJd', '%00'.repeat(3)]) {
      expect((await client.get(withQuery(route, `cursor=${cursor}`))).status).toBe(400)
    }
    const { body } = await client.get(withQuery(route, 'limit=1'))
    expect(body).toEqual({
      object: 'list',
      data: expect.any(Array),
      hasMore: expect.any(Boolean),
      nextCursor: body.hasMore ? expect.any(String) : null,
    })
    expect(body.data.length).toBeLessThanOrEqual(1)
  })

  describe('with more than one row', () => {
    let client: TestClient
    let ids: Ids

    beforeAll(async () => {
      ;({ client, ids } = await addOneOfEach(platform, 'first'))
      const { endpointId, consumerId, integrationId } = ids
      await oneOfEach(client, 'second')
      for (const key of ['one', 'two']) {
        const grant = BODIES['adjustAllowance']!(ids)
        const ledger = `/v1/integrations/${integrationId}/members/${consumerId}/allowance/adjustments`
        await client.post(ledger, grant, { headers: { 'idempotency-key': key } })
        await client.post('/v1/consumer_tokens/revoke', { apiIntegrationId: integrationId, consumerId: key })
        await client.post('/v1/integrations', { name: key, agencyId: 'shop' })
        await platform.rows(`INSERT INTO webhook_deliveries (endpoint_id, event_id, owner_id, topic, payload, announced_at, state, done_at)
          VALUES ('${endpointId}', 'evt_${key}', '${client.ownerId}', 'run.failed', '{}', now(), 'delivered', now())`)
      }
    })

    test.each(titled(lists))('%s has the same rows page by page', async (_title, route) => {
      const [path] = requestOf(route, ids).path.split('?')
      const whole = (await client.get(`${path}?limit=100`)).body.data
      const found: unknown[] = []
      for (let cursor = ''; found.length <= whole.length;) {
        const { body } = await client.get(`${path}?limit=1${cursor}`)
        found.push(...body.data)
        if (!body.hasMore) break
        cursor = `&cursor=${encodeURIComponent(body.nextCursor)}`
      }
      expect(whole.length).toBeGreaterThan(1)
      expect(found).toEqual(whole)
    })
  })

  test.each(titled(lists))('%s refuses a filter that does not exist, and names it', async (_title, route) => {
    const answer = await client.get(withQuery(route, 'stauts=failed'))
    expect(codeOf(answer)).toEqual([400, 'invalid_request'])
    expect(answer.body.error).toContain('"stauts" does not exist here')
  })

  test.each(timed)('%s takes a time or refuses it, whatever it is', async (_title, route, name) => {
    for (const time of [
      '2026-02-30T00:00:00Z',
      'now',
      'infinity',
      '1',
      '',
      "2026-01-01T00:00:00Z' OR 1=1",
      '2026-01-01',
    ]) {
      expect((await client.get(withQuery(route, `${name}=${encodeURIComponent(time)}`))).status).toBe(400)
    }
    for (const time of [
      '0000-01-01T00:00:00Z',
      '0001-01-01T00:00:00Z',
      '9999-12-31T23:59:59.999Z',
      '2026-01-01T00:00:00+23:59',
      '2026-01-01T00:00:00.123456789Z',
      '2026-01-01T00:00:00-15:59',
    ]) {
      const answer = await client.get(withQuery(route, `${name}=${encodeURIComponent(time)}`))
      expect([200, 400]).toContain(answer.status)
    }
  })

  test.each(titled(guarded.filter(({ url }) => url.includes(':'))))(
    '%s finds nothing under strange names',
    async (_title, route) => {
      for (const name of [
        "' OR 1=1 --",
        '..',
        '%',
        '*',
        'x'.repeat(500),
        '\u202e',
        'ſ',
        '__proto__',
        'null',
        '-1',
        '😀',
      ]) {
        const strange = Object.fromEntries(Object.keys(ids).map((key) => [key, name])) as Ids
        const answer = await send(client, requestOf(route, strange, BODIES[route.id]?.(ids)))
        expect([400, 403, 404, 414]).toContain(answer.status)
      }
    },
  )

  test.each(titled(ROUTES))('%s is 405 for a method that its path does not have', async (_title, route) => {
    const { path } = requestOf(route, ids)
    const have = ROUTES.filter((each) => patternOf(each.url).test(path.split('?')[0]!)).map(({ method }) => method)
    const method = ['DELETE', 'PUT', 'PATCH', 'POST'].find((each) => !have.includes(each as Route['method']))!

    const answer = await client.call(method, path)

    expect(answer.status).toBe(405)
    expect(answer.headers.get('allow')!.split(', ')).toEqual(expect.arrayContaining(have))
  })
})
