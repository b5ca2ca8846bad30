import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { hold, text, textDeltas } from '../support/fake-provider.ts'
import type { Answer, TestClient } from './support/test-client.ts'
import { ENGINES, servePlatform } from './support/test-platform.ts'

const MISSING_INTEGRATION = 'int_00000000000000000000000000'

const six = <Item>(make: () => Item): Item[] => Array.from({ length: 6 }, make)

/** A refusal: exactly the two members, and the header that says that nothing was reserved. */
function expectRefused(answer: Answer, status: number, code: string): void {
  expect([answer.status, answer.body?.code]).toEqual([status, code])
  expect(Object.keys(answer.body).toSorted()).toEqual(['code', 'error'])
  expect(answer.body.error).toEqual(expect.any(String))
  expect(answer.headers.get('x-agent-run-admitted')).toBe('false')
  expect(answer.headers.get('cache-control')).toBe('no-store')
  expect(answer.headers.get('x-request-id')).toMatch(/^[A-Za-z0-9._-]{8,64}$/)
}

describe.each(ENGINES)('refusals of POST /get_completion_v2 on %s', (engine) => {
  const platform = servePlatform(engine)

  /** A client whose integration has allowances, with one member. */
  async function allowanceClient(allowance: Record<string, unknown> = {}): Promise<TestClient> {
    const client = await platform.client({ memberAllowancesEnabled: true })
    const registered = await client.post(`/v1/integrations/${client.integrationId}/members`, {
      consumerId: 'u-1',
      allowance,
    })
    expect(registered.status).toBe(201)
    return client
  }

  const attributed = (fields: Record<string, unknown> = {}) => ({
    consumerId: 'u-1',
    usageRequestId: randomUUID(),
    ...fields,
  })

  describe('400', () => {
    test.each([
      ['a missing message', { message: undefined }, 'invalid_request'],
      ['an empty message', { message: '' }, 'invalid_request'],
      ['a message that is no text', { message: { text: 'x' } }, 'invalid_request'],
      ['a message beyond 512 KiB', { message: 'é'.repeat(262_145) }, 'invalid_request'],
      ['a missing integration', { apiIntegrationId: undefined }, 'invalid_request'],
      ['a number for an id', { apiIntegrationId: 7 }, 'invalid_request'],
      ['an agent that is null', { agent: null }, 'invalid_request'],
      ['control characters in an id', { chatId: 'chat_\r\nX-Evil: 1' }, 'invalid_request'],
      ['control characters in an alias', { aliasChatId: 'a\u0000' }, 'invalid_request'],
      ['a usageRequestId that is too long', { usageRequestId: 'x'.repeat(256) }, 'invalid_request'],
      [
        'six attachments',
        { attachments: six(() => ({ type: 'input_file', file_url: 'https://x.example.com/a.pdf' })) },
        'invalid_request',
      ],
      ['six sandbox files', { sandboxFiles: six(() => ({ name: 'x', path: '/app/mnt/x' })) }, 'invalid_request'],
      ['attachments that are no list', { attachments: {} }, 'invalid_request'],
      ['an unpaired surrogate', { message: '\ud800' }, 'invalid_request'],
      ['a user_context that is a list', { user_context: [1] }, 'invalid_request'],
      ['a user_context that is too large', { user_context: { a: 'x'.repeat(70_000) } }, 'invalid_request'],
      ['an attachment of an unknown type', { attachments: [{ type: 'input_audio' }] }, 'invalid_attachment'],
      [
        'an attachment with a member too many',
        { attachments: [{ type: 'input_file', file_url: 'https://x.example.com/a', x: 1 }] },
        'invalid_attachment',
      ],
      ['an attachment without its URL', { attachments: [{ type: 'input_file' }] }, 'invalid_attachment'],
      ['an empty image_url', { attachments: [{ type: 'input_image', image_url: '' }] }, 'invalid_attachment'],
      [
        'an unknown detail',
        { attachments: [{ type: 'input_image', image_url: 'https://x.example.com/a.png', detail: 'max' }] },
        'invalid_attachment',
      ],
      [
        'a plain HTTP attachment',
        { attachments: [{ type: 'input_file', file_url: 'http://x.example.com/a.pdf' }] },
        'invalid_attachment',
      ],
      [
        'a filename with a path',
        { attachments: [{ type: 'input_file', file_url: 'https://x.example.com/a', filename: '../a' }] },
        'invalid_attachment',
      ],
      [
        'a private address',
        { attachments: [{ type: 'input_file', file_url: 'https://127.0.0.1/a.pdf' }] },
        'invalid_attachment',
      ],
      [
        'an inline image of another type',
        {
          attachments: [
            {
              type: 'input_image',
              image_url: 'data:image/png;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7',
            },
          ],
        },
        'invalid_attachment',
      ],
      [
        'an inline image that is too large',
        { attachments: [{ type: 'input_image', image_url: `data:image/png;base64,${'A'.repeat(7_100_000)}` }] },
        'attachment_too_large',
      ],
      [
        'a refresh of a file that is not there',
        { attachmentUrlRefreshes: { 'https://x.example.com/a': 'https://x.example.com/a?s=1' } },
        'invalid_attachment_refresh',
      ],
      [
        'a refresh that is no URL',
        { attachmentUrlRefreshes: { 'https://x.example.com/a': 7 } },
        'invalid_attachment_refresh',
      ],
      ['an agent that is not an entry point', { agent: 'Nobody' }, 'invalid_agent'],
    ])('for %s', async (_name, fields, code) => {
      const client = await platform.client()
      const body = JSON.stringify({ ...client.completion({}), ...fields })

      expectRefused(await client.completeRaw(body), 400, code)
    })

    test.each([
      ['text that is not JSON', '{"message":'],
      ['a list', '[]'],
      ['a name twice', '{"message":"a","message":"b"}'],
      ['a prototype name', '{"__proto__":{"admin":true}}'],
      ['deep nesting', `{"user_context":${'{"a":'.repeat(100_000)}`],
    ])('invalid_json for %s', async (_name, body) => {
      expectRefused(await (await platform.client()).completeRaw(body), 400, 'invalid_json')
    })

    test('for an alias that belongs to another chat', async () => {
      const client = await platform.client()
      platform.provider.respond(() => text('Hello.'))
      const first = await client.completeWhole({ aliasChatId: 'room-1' })
      const second = await client.completeWhole({ aliasChatId: 'room-2' })

      const refused = await client.completeWhole({ chatId: second.stream.chatId, aliasChatId: 'room-1' })

      expectRefused(refused, 400, 'chat_alias_conflict')
      expect(first.stream.meta.aliasChatId).toBe('room-1')
    })

    test.each([{}, { consumerId: 'u-1' }, { usageRequestId: 'r-1' }])(
      'allowance_attribution_required when allowances are enabled and only %j is sent',
      async (fields) => {
        expectRefused(await (await allowanceClient()).completeWhole(fields), 400, 'allowance_attribution_required')
      },
    )
  })

  test.each([
    [{ message: undefined }, 'message: is missing'],
    [{ message: null }, 'message: must be a string, not null'],
    [{ message: 7, consumerId: false }, 'consumerId: must be a string, not a boolean'],
    [{ user_context: [1] }, 'user_context: must be an object, text or null'],
    [{ attachments: 'x' }, 'attachments: must be a list, not a string'],
    [{ agent: 'Nobody' }, 'The agency has no entry-point agent "Nobody". It has: '],
  ])('says of %j that %s', async (fields, said) => {
    const client = await platform.client()

    const answer = await client.completeRaw(JSON.stringify({ ...client.completion({}), ...fields }))

    expect(answer.body.error).toContain(said)
  })

  test('invalid_content_type for anything but plain JSON', async () => {
    const client = await platform.client()
    const body = JSON.stringify(client.completion({}))

    for (const headers of [{ 'content-type': 'text/plain' }, { 'content-encoding': 'gzip' }]) {
      const answer = await client.completeRaw(body, { headers })
      expectRefused(answer, 400, 'invalid_content_type')
    }
  })

  test('401 without a key, with a wrong one, and before anything else is looked at', async () => {
    const client = await platform.client()

    for (const token of ['', 'x', `${client.token}x`]) {
      const answer = await client.with({ token }).completeRaw('not even JSON')
      expectRefused(answer, 401, 'invalid_api_key')
      expect(answer.headers.get('www-authenticate')).toBe('Bearer')
    }
  })

  test('403 for the integration of somebody else, 404 for one that is not there', async () => {
    const [client, other] = [await platform.client(), await platform.client()]

    expectRefused(
      await client.with({ integrationId: other.integrationId }).completeWhole(),
      403,
      'integration_forbidden',
    )
    expectRefused(
      await client.with({ integrationId: MISSING_INTEGRATION }).completeWhole(),
      404,
      'integration_not_found',
    )
  })

  test('403 for a key that may not run, or not this integration', async () => {
    const client = await platform.client()
    const other = await platform.addIntegration(client.ownerId)
    const issue = async (key: object): Promise<TestClient> => {
      const issued = await client.post('/v1/api_keys', { name: 'k', ...key })
      return client.with({ token: issued.body.token })
    }

    expectRefused(await (await issue({ scopes: ['chats:read'] })).completeWhole(), 403, 'insufficient_scope')
    expectRefused(await (await issue({ integrationIds: [other] })).completeWhole(), 403, 'insufficient_scope')
  })

  test('403 while the integration is switched off, 404 once it is deleted', async () => {
    const client = await platform.client()
    const integration = `/v1/integrations/${client.integrationId}`

    await client.call('PATCH', integration, { status: 'disabled' })
    expectRefused(await client.completeWhole(), 403, 'integration_disabled')
    await client.call('DELETE', integration)
    expectRefused(await client.completeWhole(), 404, 'integration_not_found')
  })

  test('404 for a member that is not registered', async () => {
    const client = await allowanceClient()

    expectRefused(await client.completeWhole(attributed({ consumerId: 'u-2' })), 404, 'member_not_found')
  })

  test('404 for a chat that is not there, of somebody else, or of another integration', async () => {
    const [client, other] = [await platform.client(), await platform.client()]
    const foreign = await other.post('/create_new_chat', { apiIntegrationId: other.integrationId })
    const second = await platform.addIntegration(client.ownerId)
    const elsewhere = await client.post('/create_new_chat', { apiIntegrationId: second })

    for (const chatId of ['chat_00000000000000000000000000', foreign.body.chatId, elsewhere.body.chatId]) {
      expectRefused(await client.completeWhole({ chatId }), 404, 'chat_not_found')
    }
  })

  test('405 for another method', async () => {
    const client = await platform.client()

    const answer = await client.get('/get_completion_v2')

    expectRefused(answer, 405, 'method_not_allowed')
    expect(answer.headers.get('allow')).toBe('POST')
  })

  test('409 while the previous run is active', async () => {
    const client = await platform.client()
    const gate = platform.provider.gate()
    platform.provider.script([textDeltas(['a', hold(gate), 'b'])])
    const active = await client.complete({ aliasChatId: 'room' })
    await active.untilText('"delta":"a"')

    const answer = await client.completeWhole({ aliasChatId: 'room' })

    expectRefused(answer, 409, 'run_active')
    expect(answer.headers.get('x-agent-active-run-id')).toBe(active.runId)
    expect(answer.headers.get('retry-after')).toBe('2')
    gate.release()
    await active.all()
  })

  test('422 without the header when the id belongs to another request', async () => {
    const client = await platform.client()
    platform.provider.respond(() => text('Hello.'))
    const usageRequestId = randomUUID()
    await client.completeWhole({ usageRequestId })

    const answer = await client.completeWhole({ usageRequestId, message: 'Something else' })

    expect([answer.status, answer.body]).toEqual([
      422,
      {
        error: 'usageRequestId is already used by another request. Check the chat status.',
        code: 'usage_request_id_reused',
      },
    ])
    expect(answer.headers.has('x-agent-run-admitted')).toBe(false)
  })

  test('without allowances: 429 for an inactive member; a consumer that is not registered is answered', async () => {
    const client = await platform.client()
    const members = `/v1/integrations/${client.integrationId}/members`
    await client.post(members, { consumerId: 'u-1', status: 'inactive' })
    platform.provider.respond(() => text('Hi.'))

    expectRefused(await client.completeWhole({ consumerId: 'u-1' }), 429, 'consumer_inactive')
    expect((await client.completeWhole({ consumerId: 'u-2' })).status).toBe(200)
    expect((await client.completeWhole()).status).toBe(200)

    await client.call('PATCH', `${members}/u-1`, { status: 'active' })
    expect((await client.completeWhole({ consumerId: 'u-1' })).status).toBe(200)
    await client.call('PATCH', `${members}/u-1`, { status: 'inactive' })
    await client.call('DELETE', `${members}/u-1`)
    expect((await client.completeWhole({ consumerId: 'u-1' })).status).toBe(200)
  })

  test('membersRequired: 404 for a consumer that is not registered, 400 for none, 429 for an inactive one', async () => {
    const client = await platform.client()
    const integration = `/v1/integrations/${client.integrationId}`
    expect((await client.get(integration)).body.membersRequired).toBe(false)
    const changed = await client.call('PATCH', integration, { membersRequired: true })
    expect(changed.body).toMatchObject({ membersRequired: true, memberAllowancesEnabled: false })
    await client.post(`${integration}/members/batch`, {
      members: [{ consumerId: 'u-1' }, { consumerId: 'u-2', status: 'inactive' }],
    })
    platform.provider.respond(() => text('Hi.'))

    const nobody = await client.completeWhole()
    expectRefused(nobody, 400, 'allowance_attribution_required')
    expect(nobody.body.error).toContain('consumerId')
    expectRefused(await client.completeWhole({ consumerId: 'u-9' }), 404, 'member_not_found')
    expectRefused(await client.completeWhole({ consumerId: 'u-2' }), 429, 'consumer_inactive')
    expect((await client.completeWhole({ consumerId: 'u-1' })).status).toBe(200)

    await client.call('PATCH', integration, { membersRequired: false })
    expect((await client.completeWhole({ consumerId: 'u-9' })).status).toBe(200)
  })

  test('a retry of what was admitted is answered, although the consumer is inactive by now', async () => {
    const client = await platform.client()
    const members = `/v1/integrations/${client.integrationId}/members`
    await client.post(members, { consumerId: 'u-1' })
    platform.provider.respond(() => text('Hi.'))
    const request = { consumerId: 'u-1', usageRequestId: randomUUID() }
    await client.completeWhole(request)
    await client.call('PATCH', `${members}/u-1`, { status: 'inactive' })

    expect((await client.completeWhole(request)).headers.get('x-agent-run-replayed')).toBe('true')
  })

  test('429 for a consumer that is inactive', async () => {
    const client = await allowanceClient()
    await client.call('PATCH', `/v1/integrations/${client.integrationId}/members/u-1`, { status: 'inactive' })

    const answer = await client.completeWhole(attributed())

    expectRefused(answer, 429, 'consumer_inactive')
    expect(answer.headers.has('retry-after')).toBe(false)
  })

  test('429 for a consumer that has used up its allowance, with the seconds until the next period', async () => {
    const client = await allowanceClient({ messages: 1, period: 'day' })
    platform.provider.respond(() => text('Hello.'))

    const last = await client.completeWhole(attributed())
    const refused = await client.completeWhole(attributed())

    expect(last.headers.get('ratelimit')).toMatch(/, "consumer-messages";r=0;t=\d+$/)
    expect(last.headers.get('ratelimit-policy')).toMatch(/^"key";q=\d+;w=60, "consumer-messages";q=1$/)
    expectRefused(refused, 429, 'consumer_allowance_exhausted')
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(86_400)
  })

  test('429 for a consumer with too many responses in progress', async () => {
    const client = await allowanceClient({ maxConcurrentRuns: 1 })
    const gate = platform.provider.gate()
    platform.provider.script([textDeltas(['a', hold(gate), 'b'])])
    const active = await client.complete(attributed())
    await active.untilText('"delta":"a"')

    expectRefused(await client.completeWhole(attributed()), 429, 'consumer_concurrency_exceeded')
    gate.release()
    await active.all()
  })

  test('what was refused left nothing behind', async () => {
    const client = await platform.client({ memberAllowancesEnabled: true })

    await client.completeWhole({})
    await client.completeWhole(attributed())

    expect((await client.get('/v1/chats')).body.data).toEqual([])
    expect((await client.get('/v1/runs')).body.data).toEqual([])
    expect(await platform.violations()).toEqual([])
  })
})

describe('limits of the process', () => {
  const platform = servePlatform('pglite', {
    config: { rates: { perMinute: 60, burst: 3 }, maxActiveRuns: 1 },
  })

  test('429 beyond the rate of the key, with the seconds to wait', async () => {
    const client = await platform.client()
    platform.provider.respond(() => text('Hello.'))

    const answers: Answer[] = []
    for (let request = 0; request < 4; request++) answers.push(await client.get('/v1/agencies'))
    const refused = await client.completeWhole()

    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429])
    expect(answers[0]!.headers.get('ratelimit-policy')).toBe('"key";q=60;w=60')
    expect(answers[0]!.headers.get('ratelimit')).toBe('"key";r=2;t=1')
    expectRefused(refused, 429, 'rate_limited')
    expect(refused.headers.get('retry-after')).toBe('1')
  })

  test('failed look-ups count tenfold', async () => {
    const client = await platform.client()

    const answers = [await client.get('/v1/runs/run_x'), await client.get('/v1/agencies')]

    expect(answers.map(({ status }) => status)).toEqual([404, 429])
  })

  test('503 while the process executes as many runs as it can', async () => {
    const client = await platform.client()
    const gate = platform.provider.gate()
    platform.provider.script([textDeltas(['a', hold(gate), 'b'])])
    const active = await client.complete()
    await active.untilText('"delta":"a"')

    const refused = await client.completeWhole()

    expectRefused(refused, 503, 'overloaded')
    expect(refused.headers.get('retry-after')).toBe('1')
    gate.release()
    await active.all()
  })

  test('413 beyond 32 MiB, and the connection is closed', async () => {
    const client = await platform.client()

    const answer = await client.completeRaw(JSON.stringify({ message: 'x'.repeat(33 * 1024 * 1024) }))

    expectRefused(answer, 413, 'body_too_large')
    expect(answer.headers.get('connection')).toBe('close')
  })
})
