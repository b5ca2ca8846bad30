import { ServiceError } from '@bureau/protocol'
import { describe, expect, test } from 'vitest'
import { ENGINES, servePlatform } from './support/test-platform.ts'

const REQUIRED = 'Your JSON payload is missing required fields. Please consult the documentation.'

describe.each(ENGINES)('POST /create_new_chat on %s', (engine) => {
  const platform = servePlatform(engine)

  test('200 creates a chat that a completion can name', async () => {
    const client = await platform.client()

    const answer = await client.post('/create_new_chat', { apiIntegrationId: client.integrationId })

    expect(answer.status).toBe(200)
    expect(answer.body).toEqual({ chatId: expect.stringMatching(/^chat_[0-9a-z]{26}$/) })
    expect((await client.get(`/v1/chats/${answer.body.chatId}`)).body.messageCount).toBe(0)
  })

  test.each([
    ['an empty object', {}],
    ['another type', { apiIntegrationId: 7 }],
    ['no JSON', '{"apiIntegrationId":'],
    ['a list', []],
  ])('400 for %s', async (_name, body) => {
    const client = await platform.client()

    const answer = await client.post('/create_new_chat', body)

    expect(answer.status).toBe(400)
    expect(answer.body).toEqual({ detail: REQUIRED })
  })

  test('400 that says so for a body of another content type', async () => {
    const client = await platform.client()
    const headers = { 'content-type': 'application/x-www-form-urlencoded' } // what curl says by itself

    const answer = await client.call(
      'POST',
      '/create_new_chat',
      JSON.stringify({ apiIntegrationId: client.integrationId }),
      { headers },
    )

    expect(answer.status).toBe(400)
    expect(answer.body.detail).toContain('application/json')
  })

  test('401 without a key', async () => {
    const client = (await platform.client()).with({ token: '' })

    const answer = await client.post('/create_new_chat', { apiIntegrationId: client.integrationId })

    expect(answer.status).toBe(401)
    expect(answer.body).toEqual({ detail: 'Invalid or missing authorization token.' })
    expect(answer.headers.get('www-authenticate')).toBe('Bearer')
  })

  test("404 alike for what is not there and for what is not the caller's", async () => {
    const client = await platform.client()
    const other = await platform.client()

    const missing = await client.post('/create_new_chat', { apiIntegrationId: 'int_00000000000000000000000000' })
    const foreign = await client.post('/create_new_chat', { apiIntegrationId: other.integrationId })

    expect(missing.status).toBe(404)
    expect(missing.body).toEqual({ detail: 'Integration not found.' })
    expect([foreign.status, foreign.text]).toEqual([missing.status, missing.text])
  })

  test('400 for an Idempotency-Key that is none says so', async () => {
    const client = await platform.client()
    const headers = { 'idempotency-key': 'x'.repeat(256) }

    const answer = await client.post('/create_new_chat', { apiIntegrationId: client.integrationId }, { headers })

    expect(answer.status).toBe(400)
    expect(answer.body).toEqual({ detail: 'Idempotency-Key must be 1 to 255 printable ASCII characters.' })
  })

  test('a repeated Idempotency-Key gets the first chat, with another body 422', async () => {
    const client = await platform.client()
    const send = (body: object) => client.post('/create_new_chat', body, { headers: { 'idempotency-key': 'k-1' } })

    const first = await send({ apiIntegrationId: client.integrationId })
    const second = await send({ apiIntegrationId: client.integrationId })
    const third = await send({ apiIntegrationId: 'int_other' })

    expect(second.body).toEqual(first.body)
    expect(second.headers.get('idempotent-replayed')).toBe('true')
    expect(third.status).toBe(422)
  })
})

/** What the database is to fail with next. */
let fault: Error | undefined

describe('POST /create_new_chat when it cannot', () => {
  const platform = servePlatform('pglite', {
    config: { rates: { perMinute: 60, burst: 2 } },
    intercept: (operation) => (operation === 'createChat' ? fault : undefined),
  })

  test.each([
    [500, 'An unexpected error occurred while processing your request.', new Error('a defect with a canary')],
    [503, 'Service temporarily unavailable.', new ServiceError('database_unavailable')],
  ])('%i says nothing but %j', async (status, detail, error) => {
    const client = await platform.client()
    fault = error

    const answer = await client.post('/create_new_chat', { apiIntegrationId: client.integrationId })

    fault = undefined
    expect([answer.status, answer.body]).toEqual([status, { detail }])
    expect(answer.headers.has('retry-after')).toBe(status === 503)
  })

  test('429 beyond the rate of the key', async () => {
    const client = await platform.client()
    const create = () => client.post('/create_new_chat', { apiIntegrationId: client.integrationId })

    const answers = [await create(), await create(), await create()]

    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429])
    expect(answers[2]!.body).toEqual({ detail: 'Too many requests.' })
    expect(answers[2]!.headers.has('retry-after')).toBe(true)
  })
})
