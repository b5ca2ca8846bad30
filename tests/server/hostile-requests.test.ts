import { describe, expect, test } from 'vitest'
import { writeBeforeReading } from '../support/broken-connections.ts'
import { text } from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer } from '../support/test-server.ts'

const BOTH = ['/solo/get_response', '/solo/get_response_stream'] as const

/** A body with a list of so many entries, as text: tests must not hold what the server must not hold. */
const listBody = (field: string, entry: string, count: number): string =>
  `{"message":"hi","${field}":[${`${entry},`.repeat(count - 1)}${entry}]}`

describe('lists of many wrong entries', () => {
  test.each([
    ['numbers instead of history items', listBody('chat_history', '1', 20_000), ['body', 'chat_history', 0]],
    ['items with a wrong id', listBody('chat_history', '{"id":1}', 20_000), ['body', 'chat_history', 0, 'id']],
    ['numbers instead of file ids', listBody('file_ids', '1', 400_000), ['body', 'file_ids', 0]],
    [
      'a wrong one far back',
      listBody('chat_history', '{}', 20_000).replace(/\{\}\]/, '1]'),
      ['body', 'chat_history', 19_999],
    ],
    ['message items', `{"message":[${'1,'.repeat(999)}1]}`, ['body', 'message', 0]],
  ])('422 without looking at all of them: %s', async (_, body, loc) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await server.post('/solo/get_response', body)

    expect(answer.status).toBe(422)
    expect(answer.body.detail[0].loc).toEqual(loc)
    expect(answer.body.detail.length).toBeLessThanOrEqual(100)
    expect(answer.text.length).toBeLessThan(100_000)
  })

  test.each([
    ['values', listBody('chat_history', '1', 4_000_000), 'chat_history', 'limit_exceeded'],
    ['names', listBody('chat_history', '{"role":"user"}', 1_000_000), 'chat_history', 'limit_exceeded'],
    ['items of a history', listBody('chat_history', '{}', 20_001), 'chat_history', 'value_error'],
    ['items of a message', `{"message":[${'{},'.repeat(1_000)}{}]}`, 'message', 'value_error'],
  ])('422 names the field that has too many %s', async (_, body, field, type) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await server.post('/solo/get_response', body)

    expect(answer.status).toBe(422)
    expect(answer.body.detail[0]).toMatchObject({ type, msg: expect.stringMatching(/more than|at most/) })
    expect(answer.body.detail[0].loc.slice(0, 2)).toEqual(['body', field])
    expect(answer.text.length).toBeLessThan(65_536)
  })

  test.each([
    ['keys', { thirdparty_keys: 1 }],
    ['keys that cannot be sent', { thirdparty_keys: 'x\n' }],
    ['headers', { default_headers: 'x\n' }],
  ])('422 for maps of them, too: %s', async (_, kinds) => {
    const server = await startTestServer({ agencies: soloAgency() })
    const [[field, value]] = Object.entries(kinds) as [[string, unknown]]
    const map = Object.fromEntries(Array.from({ length: 200_000 }, (_, n) => [`k${n}`, value]))

    const answer = await server.post('/solo/get_response', { message: 'hi', client_config: { [field]: map } })

    expect(answer.status).toBe(422)
    expect(answer.body.detail[0].loc.slice(0, 3)).toEqual(['body', 'client_config', field])
    expect(answer.body.detail.length).toBeLessThanOrEqual(100)
  })

  test('422 with AG-UI, further in as well', async () => {
    const server = await startTestServer({ agencies: soloAgency(), enableAgui: true })
    const content = `[${'1,'.repeat(900)}1]`
    const message = `{"id":"a","role":"user","content":${content}}`
    const body = `{"threadId":"t","runId":"r","messages":[${`${message},`.repeat(20)}${message}]}`

    const answer = await server.post('/solo/get_response_stream', body)

    expect(answer.status).toBe(422)
    expect(answer.body.detail[0].loc.slice(0, 3)).toEqual(['body', 'messages', 0])
    expect(answer.body.detail.length).toBeLessThanOrEqual(100)
  })
})

describe('histories', () => {
  const user = (content: string, more: object = {}): Json => ({ role: 'user', content, ...more })

  test('200 for as many items as a history may have, all of which reach the model', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('ok')])

    const { status } = await server.post(
      '/solo/get_response',
      listBody('chat_history', '{"role":"user","content":"x"}', 20_000),
    )

    expect(status).toBe(200)
    expect(server.provider.modelRequests[0]!.items).toHaveLength(20_001)
  })

  test('200 for many items that share one id: each stays, without comparing all of them with all', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('ok')])
    const chat_history = Array.from({ length: 20_000 }, (_, n) => user(`number ${n}`, { type: 'message', id: 'msg_1' }))

    const { status } = await server.post('/solo/get_response', { message: 'hi', chat_history })

    expect(status).toBe(200)
    expect(server.provider.modelRequests[0]!.items).toHaveLength(20_001)
  })

  test('200 when clients write null for what an item does not have', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('ok')])
    const nulls = {
      id: null,
      call_id: null,
      timestamp: null,
      agent_run_id: null,
      parent_run_id: null,
      run_trace_id: null,
    }

    const { status } = await server.post('/solo/get_response', {
      message: 'hi',
      chat_history: [user('earlier', { ...nulls, type: null, agent: null, callerAgent: null, message_origin: null })],
    })

    expect(status).toBe(200)
    expect(server.provider.modelRequests[0]!.items).toEqual([user('earlier'), user('hi')])
  })

  test.each([
    ['timestamp', 'yesterday', 'float_type'],
    ['agent', 5, 'string_type'],
    ['callerAgent', ['x'], 'string_type'],
    ['id', {}, 'string_type'],
    ['type', 7, 'string_type'],
    ['run_trace_id', false, 'string_type'],
  ])('422 names the member of the wrong kind: %s', async (member, value, type) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const { status, body } = await server.post('/solo/get_response', {
      message: 'hi',
      chat_history: [user('fine'), user('x', { [member]: value })],
    })

    expect(status).toBe(422)
    expect(body.detail).toMatchObject([{ loc: ['body', 'chat_history', 1, member], type }])
  })

  test('200 for agents that nobody knows, call themselves, or call each other in a circle: they are other conversations', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('ok')])
    const chat_history = [
      user('of the user', { agent: 'Gone', callerAgent: null }),
      user('itself', { agent: 'Solo', callerAgent: 'Solo' }),
      user('circle', { agent: 'A', callerAgent: 'B' }),
      user('circle', { agent: 'B', callerAgent: 'A' }),
      user('odd', { agent: '__proto__', callerAgent: 'constructor' }),
    ]

    const { body } = await server.post('/solo/get_response', { message: 'hi', chat_history })

    expect(body.response).toBe('ok')
    expect(server.provider.modelRequests[0]!.items).toEqual([user('of the user'), user('hi')])
  })

  test.each(['constructor', 'toString', '__proto__', 'hasOwnProperty'])(
    'an item of the type %j is sent as it is; what the provider says to it is told as its refusal',
    async (type) => {
      const server = await startTestServer({ agencies: soloAgency() })
      server.provider.respond(() => text('ok'))

      const { status, body } = await server.post('/solo/get_response', { message: 'hi', chat_history: [{ type }] })

      expect([status, body.error]).toEqual([500, 'The model provider refused the request as not valid (HTTP 400).'])
      expect(server.provider.modelRequests[0]!.items[0]).toEqual({ type })
    },
  )
})

test('200 metadata on items of the message is the run’s to give, and none of it reaches the model', async () => {
  const server = await startTestServer({ agencies: soloAgency() })
  server.provider.script([text('ok')])
  const claimed = {
    agent: 'Evil',
    callerAgent: 'Boss',
    timestamp: 1,
    run_trace_id: 'x',
    message_origin: 'handoff_reminder',
  }

  const { body } = await server.post('/solo/get_response', { message: [{ role: 'user', content: 'hi', ...claimed }] })

  expect(server.provider.modelRequests[0]!.items).toEqual([{ role: 'user', content: 'hi' }])
  expect(body.new_messages[0]).toMatchObject({ content: 'hi', agent: 'Solo', callerAgent: null })
  expect(body.new_messages[0]).not.toHaveProperty('message_origin')
  expect(body.new_messages[0].timestamp).toBeGreaterThan(1_700_000_000_000_000)
})

describe.each(BOTH)('keys that cannot be sent in a header: POST %s', (path) => {
  test.each([
    ['api_key', 'line\nbreak'],
    ['api_key', 'x\r\nx-evil: 1'],
    ['api_key', 'ключ'],
    ['thirdparty_keys.anthropic', 'a\0b'],
    ['litellm_keys.mistral', 'a\tb'],
  ])('422 for %s %j, which is not repeated', async (field, key) => {
    const server = await startTestServer({ agencies: soloAgency() })
    const [member = '', provider] = field.split('.')
    const client_config = { [member]: provider === undefined ? key : { [provider]: key } }

    const answer = await server.post(path, { message: 'hi', client_config })

    expect(answer.status).toBe(422)
    expect(answer.body.detail).toMatchObject([
      { loc: ['body', 'client_config', ...field.split('.')], type: 'value_error' },
    ])
    expect(answer.body.detail[0].input).toBe('')
    expect(server.provider.requests).toEqual([])
  })
})

test('413 also for a client that is still writing, which is cut when it does not stop', async () => {
  const server = await startTestServer({ agencies: soloAgency() })

  const answer = await writeBeforeReading('POST', `${server.url}/solo/get_response`, {
    'content-type': 'application/json',
  })

  expect(answer).toMatch(/^HTTP\/1\.1 413 .*body_too_large/s)
})

test('422 for ids of a megabyte, which no answer repeats', async () => {
  const server = await startTestServer({ agencies: soloAgency() })
  const id = 'x'.repeat(1_000_000)

  const cancelled = await server.post('/solo/cancel_response_stream', { run_id: id })
  const asked = await server.post('/solo/get_response', { message: 'hi', recipient_agent: id, file_ids: [id] })

  expect([cancelled.status, asked.status]).toEqual([422, 422])
  expect(cancelled.body.detail[0]).toMatchObject({ loc: ['body', 'run_id'], msg: expect.stringContaining('256') })
  expect(cancelled.text.length + asked.text.length).toBeLessThan(20_000)
})

test('an error for two hundred thousand file_urls in no time, because their number is looked at first', async () => {
  const server = await startTestServer({ agencies: soloAgency() })

  const answer = await server.post('/solo/get_response', listBody('file_urls', '"a"', 200_000))

  expect(answer.body).toMatchObject({ error: expect.stringContaining('At most 50 files are allowed.') })
})

describe('names that JavaScript knows', () => {
  test.each(['__proto__', 'constructor', 'toString'])('422 for the recipient %j', async (recipient_agent) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const { status, body } = await server.post('/solo/get_response', { message: 'hi', recipient_agent })

    expect([status, body.detail[0].loc]).toEqual([422, ['body', 'recipient_agent']])
  })

  test.each(['__proto__', 'constructor', 'a\r\nx-evil: 1', 'x'.repeat(256)])(
    '404 for the run %j, in JSON and without a header of its making',
    async (run_id) => {
      const server = await startTestServer({ agencies: soloAgency() })

      const answer = await server.post('/solo/cancel_response_stream', { run_id })

      expect(answer.status).toBe(404)
      expect(answer.body.detail).toBe(`Run '${run_id}' not found or already completed`)
      expect(answer.headers.get('x-evil')).toBeNull()
    },
  )

  test.each(['thirdparty/constructor/x', 'thirdparty/__proto__/x', 'litellm/toString/x'])(
    'the model %j has no provider, and that is told',
    async (model) => {
      const server = await startTestServer({ agencies: soloAgency() })

      const { status, body } = await server.post('/solo/get_response', { message: 'hi', client_config: { model } })

      expect([status, body.error]).toEqual([422, expect.stringContaining('client_config.model')])
      expect(body.error).toContain('there is no provider')
    },
  )

  test.each(['.', '..'])('an agency cannot be named %j', async (name) => {
    await expect(startTestServer({ agencies: { [name]: soloAgency().solo } })).rejects.toThrow(
      'may hold letters, digits',
    )
  })
})
