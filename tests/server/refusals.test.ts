import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { text as readText } from 'node:stream/consumers'
import { Agency, Agent, MCPServerOAuth } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import { soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

const BOTH = ['/solo/get_response', '/solo/get_response_stream'] as const

describe.each(BOTH)('POST %s', (path) => {
  test.each([
    ['an empty object', {}, [{ type: 'missing', loc: ['body', 'message'], msg: 'Field required' }]],
    [
      'a number as message',
      { message: 5 },
      [
        { type: 'string_type', loc: ['body', 'message', 'str'] },
        { type: 'list_type', loc: ['body', 'message', 'list[dict[str,any]]'] },
      ],
    ],
    ['an empty list', { message: [] }, [{ type: 'value_error', loc: ['body', 'message'], ctx: { error: {} } }]],
    ['an empty message', { message: '' }, [{ type: 'value_error', loc: ['body', 'message'] }]],
    [
      'a list of texts',
      { message: ['x'] },
      [{ type: 'string_type' }, { type: 'dict_type', loc: ['body', 'message', 'list[dict[str,any]]', 0] }],
    ],
    [
      'an unknown recipient',
      { message: 'hi', recipient_agent: 'Nobody' },
      [{ type: 'value_error', loc: ['body', 'recipient_agent'], msg: expect.stringContaining('Solo') }],
    ],
    [
      'the output of a call that nobody has made',
      {
        message: [
          { role: 'user', content: 'hi' },
          { type: 'function_call_output', call_id: 'x', output: 'y' },
        ],
      },
      [{ type: 'value_error', loc: ['body', 'message', 1], msg: expect.stringContaining('chat_history') }],
    ],
    [
      'a history entry that is no object',
      { message: 'hi', chat_history: ['x'] },
      [{ type: 'dict_type', loc: ['body', 'chat_history', 0] }],
    ],
    [
      'a context that is no object',
      { message: 'hi', user_context: [] },
      [{ type: 'dict_type', loc: ['body', 'user_context'] }],
    ],
    ['malformed JSON', '{"message": "hi"', [{ type: 'json_invalid', loc: ['body', 16] }]],
    ['a byte order mark', '\ufeff{"message":"hi"}', [{ type: 'json_invalid', loc: ['body', 0] }]],
    [
      'bytes that are no UTF-8',
      Buffer.from([...Buffer.from('{"message":"'), 0xe9, 0x22, 0x7d]),
      [{ type: 'json_invalid' }],
    ],
    ['a prototype member', '{"message":"hi","user_context":{"__proto__":{"x":1}}}', [{ type: 'json_invalid' }]],
    ...['\\u005f', '\\u005F'].map((low): [string, string, object[]] => [
      `a prototype member that is written ${low}`,
      `{"message":"hi","user_context":{"${low}_proto__":{"x":1}}}`,
      [{ type: 'json_invalid' }],
    ]),
    [
      'deep nesting',
      `{"message":"hi","user_context":${'{"a":'.repeat(200_000)}1${'}'.repeat(200_000)}}`,
      [{ type: 'json_invalid' }],
    ],
    ['a list instead of an object', '[]', [{ type: 'model_attributes_type', loc: ['body'] }]],
  ])('422 names the field: %s', async (_, body, entries) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await server.post(path, body)

    expect(answer.status).toBe(422)
    expect(answer.body.detail).toMatchObject(entries)
    expect(answer.body.error).toEqual(expect.any(String))
    expect(['invalid_json', 'invalid_request']).toContain(answer.body.code)
    expect(server.provider.requests).toEqual([])
  })

  test.each(['text/plain', 'text/json', 'json', ';', 'multipart/form-data; boundary=x'])(
    '422 for a body that is not sent as JSON: %s',
    async (type) => {
      const server = await startTestServer({ agencies: soloAgency() })

      const answer = await server.post(path, '{"message":"hi"}', { 'content-type': type })

      expect(answer.status).toBe(422)
      expect(answer.body.detail[0].type).toBe('model_attributes_type')
    },
  )

  test('413 for a body above the limit', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await server.post(path, { message: 'x'.repeat(50_000_000) })

    expect(answer.status).toBe(413)
    expect(answer.body.error).toBe('The body is too large.')
  })

  test.each([
    ['no token', {}, 'Not authenticated', 'not_authenticated'],
    ['another scheme', { authorization: 'Basic abc' }, 'Not authenticated', 'not_authenticated'],
    ['an empty token', { authorization: 'Bearer ' }, 'Not authenticated', 'not_authenticated'],
    ['a wrong token', { authorization: 'Bearer wrong' }, 'Unauthorized', 'unauthorized'],
  ])('401 before anything else is looked at: %s', async (_, headers, detail, code) => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })

    const answer = await server.post(path, '{broken', headers)

    expect(answer.status).toBe(401)
    expect(answer.headers.get('www-authenticate')).toBe('Bearer')
    const error = expect.stringContaining(code === 'unauthorized' ? 'is not valid' : 'Authorization: Bearer')
    expect(answer.body).toEqual({ detail, error, code })
  })

  test('200 with the token, whatever the case of the scheme and the spaces', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })
    server.provider.script([text('ok')])

    const answer = await server.post(path, { message: 'hi' }, { authorization: 'bearer   right' })

    expect(answer.status).toBe(200)
  })
})

describe('authentication', () => {
  test.each(['/solo/get_metadata', '/openapi.json', '/docs', '/redoc', '/docs/assets/swagger-ui.css'])(
    '401 for %s too: every endpoint needs the token',
    async (path) => {
      const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })

      expect((await server.get(path)).status).toBe(401)
      expect((await server.get(path, { authorization: 'Bearer right' })).status).toBe(200)
    },
  )

  test.each(['/healthz', '/readyz'])('200 for %s without a token', async (path) => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })

    expect((await server.get(path)).status).toBe(200)
  })

  test('200 for the documents without a token when they are made public', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' }, publicDocs: true })

    expect((await server.get('/openapi.json')).status).toBe(200)
    expect((await server.get('/docs')).status).toBe(200)
    expect((await server.get('/solo/get_metadata')).status).toBe(401)
  })

  test('the token is read from the variable that appTokenEnv names', async () => {
    const server = await startTestServer({
      agencies: soloAgency(),
      appTokenEnv: 'MY_TOKEN',
      env: { MY_TOKEN: 'mine', APP_TOKEN: 'other' },
    })

    expect((await server.get('/solo/get_metadata', { authorization: 'Bearer other' })).status).toBe(401)
    expect((await server.get('/solo/get_metadata', { authorization: 'Bearer mine' })).status).toBe(200)
  })
})

describe('unknown paths and methods', () => {
  test.each([
    ['GET', '/', 404, 'Not Found'],
    ['GET', '/nobody/get_metadata', 404, 'Not Found'],
    ['POST', '/tool/nothing', 404, 'Not Found'],
    ['GET', '/solo/get_response', 405, 'Method Not Allowed'],
    ['POST', '/solo/get_metadata', 405, 'Method Not Allowed'],
  ])('%s %s is %d', async (method, path, status, detail) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await fetch(server.url + path, { method })

    const code = status === 404 ? 'route_not_found' : 'method_not_allowed'
    expect(answer.status).toBe(status)
    const unknown = new RegExp(`There is no route ${method} ${path}\\..* GET /openapi\\.json lists all routes\\.`)
    const help = status === 404 ? unknown : new RegExp(`, not ${method}\\.$`)
    expect(await answer.json()).toEqual({ detail, error: expect.stringMatching(help), code })
  })

  test('whatever is sent to them', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await server.post('/nobody/get_response', '{message: 1}')

    expect([answer.status, answer.body.code]).toEqual([404, 'route_not_found'])
  })
})

describe('a body that is not JSON', () => {
  test.each([
    ['', 'the body is empty'],
    ['{message: 1}', 'line 1, column 2'],
    ['{\n  "message": "hi",\n}', 'line 3, column 1'],
    ['{"message": None}', 'line 1, column 13'],
    ['{"message":\n\'hi\'}', 'line 2, column 1'],
    ['{"message": "é,\\"[", "x": NaN}', 'line 1, column 27'],
    ['{"message": "hi", "file_ids": [[], ]}', 'line 1, column 36'],
    ['undefined', 'line 1, column 1'],
    ['{"message": "hi"', 'the body ends too early'],
  ])('422 that says where: %j', async (body, where) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await server.post('/solo/get_response', body)

    expect([answer.status, answer.body.code]).toEqual([422, 'invalid_json'])
    expect(answer.body.error).toContain(where)
  })
})

describe('a model without a key', () => {
  test.each([
    ['gpt-5-mini', 'OPENAI_API_KEY'],
    ['thirdparty/anthropic/claude-sonnet-4-5', 'ANTHROPIC_API_KEY'],
  ])('500 for %s names %s', async (model, variable) => {
    const env = { OPENAI_API_KEY: '', OPENAI_BASE_URL: 'https://api.openai.com/v1' }
    const server = await startTestServer({ agencies: soloAgency({ model }), env })

    const { status, body } = await server.post('/solo/get_response', { message: 'hi' })

    expect([status, body.code]).toEqual([500, 'upstream_auth_failed'])
    expect(body.error).toContain(`set ${variable}`)
  })
})

describe('addresses that cannot be read', () => {
  test.each(['/%', '/%zz', '/solo/%E0%A4%A/get_metadata'])('400 in the usual form: %s', async (path) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await server.get(path)

    expect(answer.status).toBe(400)
    expect(answer.body).toEqual({
      detail: 'The request is not valid.',
      error: 'The request is not valid.',
      code: 'invalid_request',
    })
  })
})

describe('what is no HTTP request', () => {
  test.each([
    ['nonsense', 'NONSENSE\r\n\r\n', 400, 'Bad Request'],
    ['an unknown method', 'FOO / HTTP/1.1\r\nhost: a\r\n\r\n', 400, 'Bad Request'],
    [
      'two lengths',
      'POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n',
      400,
      'Bad Request',
    ],
    ['endless headers', `GET / HTTP/1.1\r\nx: ${'y'.repeat(40_000)}\r\n\r\n`, 431, 'Request Header Fields Too Large'],
  ])('%s is refused in the usual form', async (_, bytes, status, reason) => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1', () => socket.write(bytes))

    const [head, body] = (await readText(socket)).split('\r\n\r\n')

    expect(head).toContain(`HTTP/1.1 ${status} ${reason}`)
    expect(JSON.parse(body!)).toEqual({ detail: reason, error: reason, code: 'invalid_request' })
    expect((await server.get('/healthz')).status).toBe(200)
  })
})

describe('CORS', () => {
  test('any origin with a token, without credentials, on refusals too', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })

    const answer = await server.post('/solo/get_response', {}, { origin: 'https://app.example' })

    expect(answer.headers.get('access-control-allow-origin')).toBe('*')
    expect(answer.headers.get('access-control-allow-credentials')).toBeNull()
  })

  test('listed origins are echoed with credentials; others get no allow-origin', async () => {
    const server = await startTestServer({ agencies: soloAgency(), corsOrigins: ['https://app.example'] })
    server.provider.respond(() => text('hi'))

    const known = await server.post('/solo/get_response', { message: 'hi' }, { origin: 'https://app.example' })
    const other = await server.post('/solo/get_response', { message: 'hi' }, { origin: 'https://evil.example' })

    expect(known.headers.get('access-control-allow-origin')).toBe('https://app.example')
    expect(known.headers.get('access-control-allow-credentials')).toBe('true')
    expect(other.headers.get('access-control-allow-origin')).not.toBe('https://evil.example')
  })

  test('a list that holds * is any origin, without credentials', async () => {
    const server = await startTestServer({ agencies: soloAgency(), corsOrigins: ['https://app.example', '*'] })

    const { headers } = await server.get('/solo/get_metadata', { origin: 'https://other.example' })

    expect(headers.get('access-control-allow-origin')).toBe('*')
    expect(headers.get('access-control-allow-credentials')).toBeNull()
  })

  test('answers to listed origins vary by origin', async () => {
    const server = await startTestServer({ agencies: soloAgency(), corsOrigins: ['https://app.example'] })

    const answer = await server.get('/solo/get_metadata', { origin: 'https://app.example' })

    expect(answer.headers.get('vary')).toContain('Origin')
  })

  test('an OPTIONS request that asks for nothing is no error', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })

    const answer = await fetch(`${server.url}/solo/get_response`, { method: 'OPTIONS' })

    expect([answer.status, await answer.text()]).toEqual([200, ''])
  })

  test('defects of the server carry the headers too, and tell nothing of themselves', async () => {
    const notes = new MCPServerOAuth({ name: 'notes', url: 'https://tools.example/mcp' })
    const agent = new Agent({ name: 'Solo', instructions: 'x', model: 'gpt-test', mcpServers: [notes] })
    const server = await startTestServer({
      agencies: { solo: new Agency({ entryPoint: agent }) },
      oauthTokenPath: tmpdir(),
      corsOrigins: ['*'],
      oauthUserId: () => {
        throw new Error('the secret defect')
      },
    })

    const answer = await server.post('/solo/get_response_stream', { message: 'hi' }, { origin: 'https://app.example' })

    expect(answer.status).toBe(500)
    expect(answer.headers.get('access-control-allow-origin')).toBe('*')
    expect(answer.text).not.toContain('secret')
  })

  test('streams carry the headers, and a preflight needs no token', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })
    server.provider.script([text('hi')])

    const headers = { origin: 'https://app.example', authorization: 'Bearer right' }
    const stream = await server.stream('/solo/get_response_stream', { message: 'hi' }, { headers })
    const preflight = await fetch(`${server.url}/solo/get_response_stream`, {
      method: 'OPTIONS',
      headers: {
        origin: 'https://app.example',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,x-anything',
      },
    })

    expect((await stream.all()).response.headers.get('access-control-allow-origin')).toBe('*')
    expect(preflight.status).toBe(200)
    expect(preflight.headers.get('access-control-allow-headers')).toContain('x-anything')
    expect(preflight.headers.get('access-control-max-age')).toBe('600')
  })
})

describe('health', () => {
  test('a half-open request does not stop others from being answered', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const stuck = openRequest(server)

    expect((await server.get('/healthz')).status).toBe(200)
    stuck.destroy()
  })
})

/** A POST whose body never comes. */
function openRequest(server: TestServer): ReturnType<typeof httpRequest> {
  const open = httpRequest(`${server.url}/solo/get_response`, { method: 'POST', headers: { 'content-length': '100' } })
  open.on('error', () => {})
  open.flushHeaders()
  return open
}
