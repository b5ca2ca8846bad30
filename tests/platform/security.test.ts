import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { decodeJwt, decodeProtectedHeader, importPKCS8, type JWTPayload, SignJWT } from 'jose'
import { beforeAll, describe, expect, test } from 'vitest'
import { status, text } from '../support/fake-provider.ts'
import type { Answer, Json, TestClient } from './support/test-client.ts'
import { ENGINES, servePlatform } from './support/test-platform.ts'

/** What an attacker would do, one test for each. Tenants have a file of their own; so have SSRF and files. */
describe.each(ENGINES)('security on %s', (engine) => {
  const platform = servePlatform(engine, {
    config: {
      corsOrigins: ['https://app.example.com'],
      rates: { perMinute: 100_000, burst: 100_000 },
      wrongKeysPerMinute: 100_000,
    },
  })
  let client: TestClient
  beforeAll(async () => {
    client = await platform.client()
  })

  const as = (authorization: string): Promise<Answer> =>
    client.with({ token: '' }).get('/v1/agencies', { headers: { authorization } })

  /** Sends bytes as they are, reads until the connection is closed. */
  async function raw(bytes: string, leaveOpen = false): Promise<string> {
    const socket = connect(Number(new URL(platform.url).port), '127.0.0.1')
    if (leaveOpen) socket.write(bytes)
    else socket.end(bytes)
    let answer = ''
    socket.on('data', (chunk: Buffer) => (answer += chunk.toString()))
    socket.on('error', () => {})
    await once(socket, 'close')
    return answer
  }

  describe('tokens', () => {
    test.each([
      '',
      'Basic dTpw',
      'Bearer',
      'Bearer ',
      'Token x',
      'Bearer a.b',
      'Bearer a b',
      `Bearer ${'x'.repeat(8_000)}`,
    ])('401 for %j', async (header) => {
      const answer = await as(header)
      expect([answer.status, answer.body.code]).toEqual([401, 'invalid_api_key'])
      expect(answer.body.requestId).toBe(answer.headers.get('x-request-id'))
    })

    test('431 for a token of 100 KB, 401 for two Authorization headers', async () => {
      const long = await raw(
        `GET /v1/agencies HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${'x'.repeat(100_000)}\r\n\r\n`,
      )
      const lines = `Authorization: Bearer ${client.token}\r\n`
      const twice = await raw(`GET /v1/agencies HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${lines}${lines}\r\n`)

      expect(long).toMatch(/^HTTP\/1\.1 431 /)
      expect(twice).toMatch(/^HTTP\/1\.1 401 /)
    })

    /** A token that says what ours say, or something else, signed by a key of the attacker. */
    async function forge(header: Record<string, unknown>, claims: JWTPayload = {}): Promise<string> {
      const { privateKey } = generateKeyPairSync('ed25519')
      const key = await importPKCS8(privateKey.export({ type: 'pkcs8', format: 'pem' }) as string, 'EdDSA')
      const known = decodeProtectedHeader(client.token)
      return new SignJWT({ ...decodeJwt(client.token), ...claims })
        .setProtectedHeader({ ...known, alg: 'EdDSA', ...header })
        .sign(key)
    }

    test.each([
      ['our kid, another key', {}],
      ['an unknown kid', { kid: 'k9' }],
      ['a kid with a path', { kid: '../../etc/passwd' }],
      ['a kid with SQL', { kid: "k1' OR 1=1 --" }],
      ['jku', { jku: 'https://evil.example.com/keys' }],
      ['x5u', { x5u: 'https://evil.example.com/cert' }],
      ['a jwk', { jwk: { kty: 'OKP' } }],
      ['another typ', { typ: 'JWT' }],
    ])('401 for a forged token with %s', async (_name, header) => {
      expect((await as(`Bearer ${await forge(header)}`)).status).toBe(401)
    })

    test('401 for alg none, and for our token with anything changed', async () => {
      const [header, payload, signature] = client.token.split('.') as [string, string, string]
      const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
      const none = `${encode({ ...decodeProtectedHeader(client.token), alg: 'none' })}.${payload}.`
      const claims = decodeJwt(client.token)
      const other = await platform.addTenant()
      const changed = [
        none,
        `${header}.${encode({ ...claims, sub: other.ownerId })}.${signature}`,
        `${header}.${encode({ ...claims, jti: other.key.id })}.${signature}`,
        `${header}.${encode({ ...claims, exp: '9999999999' })}.${signature}`,
        `${header}.${payload}.${signature.slice(0, -1)}${signature.endsWith('A') ? 'B' : 'A'}`,
        `${header}.${payload}.${signature}=`,
      ]
      for (const token of changed) expect((await as(`Bearer ${token}`)).status).toBe(401)
    })

    test('a key that was revoked is refused at once, also in its cache', async () => {
      const issued = await client.post('/v1/api_keys', { name: 'short' })
      const other = client.with({ token: issued.body.token })
      expect((await other.get('/v1/agencies')).status).toBe(200)

      await client.call('DELETE', `/v1/api_keys/${issued.body.id}`)

      expect((await other.get('/v1/agencies')).status).toBe(401)
    })

    test('a token in the query or a cookie is ignored', async () => {
      const nobody = client.with({ token: '' })
      expect((await nobody.get(`/v1/agencies?token=${client.token}&access_token=${client.token}`)).status).toBe(401)
      expect((await nobody.get('/v1/agencies', { headers: { cookie: `token=${client.token}` } })).status).toBe(401)
    })

    test('a key gives away no more than it has', async () => {
      const issued = await client.post('/v1/api_keys', { name: 'limited', scopes: ['keys', 'chats:read'] })
      const limited = client.with({ token: issued.body.token })

      for (const key of [{ scopes: ['*'] }, { scopes: ['runs'] }, {}]) {
        expect((await limited.post('/v1/api_keys', { name: 'more', ...key })).body.code).toBe('insufficient_scope')
      }
      expect((await limited.get('/v1/integrations')).body.code).toBe('insufficient_scope')
      expect((await client.get(`/v1/api_keys/${issued.body.id}`)).text).not.toContain(issued.body.token)
    })

    test('a key for one integration reaches no other of the same owner', async () => {
      const second = await platform.addIntegration(client.ownerId)
      const issued = await client.post('/v1/api_keys', { name: 'one', integrationIds: [client.integrationId] })
      const limited = client.with({ token: issued.body.token })

      expect((await limited.get(`/v1/integrations/${second}`)).body.code).toBe('insufficient_scope')
      expect((await limited.get(`/v1/integrations/${second}/members`)).body.code).toBe('insufficient_scope')
      expect((await limited.get('/v1/integrations')).body.data).toHaveLength(1)
      expect((await limited.post('/v1/integrations', { name: 'x', agencyId: 'shop' })).status).toBe(403)
    })
  })

  describe('bodies', () => {
    test('a key for some integrations manages only the keys that reach no further', async () => {
      const client = await platform.client()
      const other = await platform.addIntegration(client.ownerId)
      const own = client.integrationId
      const issue = async (issuer: TestClient, integrationIds: readonly string[] | null): Promise<Json> =>
        (await issuer.post('/v1/api_keys', { name: 'k', integrationIds })).body
      const delegate = await issue(client, [own])
      const restricted = client.with({ token: delegate.token })
      const outside = [await issue(client, null), await issue(client, [other]), await issue(client, [own, other])]
      const inside = await issue(restricted, [own])

      const listed = async (caller: TestClient): Promise<string[]> =>
        ((await caller.get('/v1/api_keys')).body.data as Json[]).map(({ id }) => id)
      expect(await listed(restricted)).toEqual([inside.id, delegate.id])
      expect(await listed(client)).toHaveLength(6)

      for (const { id } of outside) {
        const answers = [
          await restricted.get(`/v1/api_keys/${id}`),
          await restricted.post(`/v1/api_keys/${id}/rotate`, {}),
          await restricted.call('DELETE', `/v1/api_keys/${id}`),
        ]
        expect(answers.map(({ body }) => body.code)).toEqual(answers.map(() => 'api_key_not_found'))
      }
      for (const { token } of outside) expect((await client.with({ token }).get('/v1/agencies')).status).toBe(200)

      expect((await restricted.post(`/v1/api_keys/${inside.id}/rotate`, {})).status).toBe(201)
      expect((await restricted.call('DELETE', `/v1/api_keys/${inside.id}`)).body.revokedAt).toEqual(expect.any(String))
    })

    test('without a key nobody makes us read a body, not even after Expect: 100-continue', async () => {
      const head =
        'POST /get_completion_v2 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n'

      const answer = await raw(`${head}Content-Length: 33000000\r\nExpect: 100-continue\r\n\r\n`, true)
      const welcome = await raw(
        `${head}Authorization: Bearer ${client.token}\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n{}`,
        true,
      )

      expect(answer).toMatch(/^HTTP\/1\.1 401 /)
      expect(welcome).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 400 /)
    })

    test.each([
      ['two lengths', 'Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}'],
      ['a length and chunks', 'Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
      ['a length that is no number', 'Content-Length: two\r\n\r\n{}'],
    ])('400 and a closed connection for %s', async (_name, rest) => {
      const answer = await raw(
        `POST /get_completion_v2 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${client.token}\r\n${rest}`,
        true,
      )

      expect(answer).toMatch(/^HTTP\/1\.1 400 /)
      expect(answer).toContain('X-Agent-Run-Admitted: false')
    })

    test('prototype names are refused, in user_context they are data', async () => {
      platform.provider.script([text('Fine.')])
      const members = `/v1/integrations/${client.integrationId}/members`

      const top = await client.completeRaw('{"__proto__":{"polluted":true},"message":"x"}')
      const metadata = await client.post(members, '{"consumerId":"u","metadata":{"constructor":"x"}}')
      const context = await client.completeRaw(
        JSON.stringify(client.completion({})).replace(
          '}',
          ',"user_context":{"__proto__":{"polluted":true},"constructor":1}}',
        ),
      )

      expect([top.status, metadata.status, context.status]).toEqual([400, 400, 200])
      expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
    })

    test.each([
      ['PATCH', '', { ownerId: 'own_x' }],
      ['PATCH', '', { version: 9 }],
      ['POST', '/members', { consumerId: 'u', activeRuns: 5 }],
      ['POST', '/members', { consumerId: 'u', used: { messages: 0 } }],
    ])('%s …%s refuses members that it does not know: %j', async (method, path, body) => {
      expect((await client.call(method, `/v1/integrations/${client.integrationId}${path}`, body)).status).toBe(400)
      expect((await client.post('/v1/api_keys', { name: 'x', ...body })).status).toBe(400)
    })

    test('a method override is not honoured', async () => {
      const headers = { 'x-http-method-override': 'DELETE', 'x-method-override': 'DELETE' }
      expect((await client.get(`/v1/integrations/${client.integrationId}?_method=DELETE`, { headers })).status).toBe(
        200,
      )
    })

    test.each(['-1', '0.5', '9007199254740992', '1e309', '"5"'])('allowances of %s are refused', async (messages) => {
      const body = `{"consumerId":"u-2","allowance":{"messages":${messages}}}`
      const answer = await client.post(`/v1/integrations/${client.integrationId}/members`, body)
      expect([answer.status, answer.body.code]).toEqual([400, 'invalid_allowance'])
    })

    test('a cost with seven decimals is refused', async () => {
      const allowance = { costUsd: 0.000_000_1 }
      const answer = await client.post(`/v1/integrations/${client.integrationId}/members`, {
        consumerId: 'u-2',
        allowance,
      })
      expect(answer.body.code).toBe('invalid_allowance')
    })
  })

  describe('addresses', () => {
    test.each([
      'http://files.example.com/a.pdf',
      'ftp://files.example.com/a.pdf',
      'file:///etc/passwd',
      'gopher://files.example.com/',
      'data:text/html,<script>',
      'javascript:alert(1)',
      '//files.example.com/a.pdf',
      'https://[::1]/a.pdf',
      'https://[::ffff:127.0.0.1]/a.pdf',
      'https://[::127.0.0.1]/a.pdf',
      'https://[64:ff9b::7f00:1]/a.pdf',
      'https://[2002:7f00:1::]/a.pdf',
      'https://[fe80::1]/a.pdf',
      'https://[fd00:ec2::254]/a.pdf',
      'https://169.254.169.254/latest/meta-data',
      'https://2130706433/a.pdf',
      'https://0x7f.1/a.pdf',
      'https://localhost./a.pdf',
      'https://db.internal/a.pdf',
      'https://user:password@files.example.com/a.pdf',
      'https://files.example.com:22/a.pdf',
      'https://files.example.com:6379/a.pdf',
      'https://files.example.com:5432/a.pdf',
      'https://files.example.com:25/a.pdf',
    ])('an attachment at %s is refused before anything is reserved', async (address) => {
      for (const attachment of [
        { type: 'input_file', file_url: address },
        { type: 'input_image', image_url: address },
      ]) {
        const answer = await client.completeWhole({ attachments: [attachment] })
        expect([answer.status, answer.body.code]).toEqual([400, 'invalid_attachment'])
        expect(answer.headers.get('x-agent-run-admitted')).toBe('false')
      }
    })

    test.each([
      ['another host', 'https://evil.example.com/r.pdf'],
      ['another path', 'https://files.example.com/other.pdf'],
      ['another port', 'https://files.example.com:8443/r.pdf'],
      ['another scheme', 'http://files.example.com/r.pdf'],
      ['a private address', 'https://127.0.0.1/r.pdf'],
    ])('a refresh to %s is refused', async (_name, fresh) => {
      const attachmentUrlRefreshes = { 'https://files.example.com/r.pdf': fresh }
      const answer = await client.completeWhole({ attachmentUrlRefreshes })
      expect([answer.status, answer.body.code]).toEqual([400, 'invalid_attachment_refresh'])
    })
  })

  describe('cursors', () => {
    test('of another owner, another list, other filters, or altered ones are refused', async () => {
      const owner = await platform.client()
      for (let count = 0; count < 3; count++) await platform.addIntegration(owner.ownerId)
      const page = await owner.get('/v1/integrations?limit=2')
      const cursor: string = page.body.nextCursor
      const next = await owner.get(`/v1/integrations?limit=2&cursor=${cursor}`)
      expect(next.body.data).toHaveLength(2)

      const other = await platform.client()
      const flipped = cursor.slice(0, -2) + (cursor.at(-2) === 'A' ? 'B' : 'A') + cursor.at(-1)
      const refused = [
        await other.get(`/v1/integrations?cursor=${cursor}`),
        await owner.get(`/v1/api_keys?cursor=${cursor}`),
        await owner.get(`/v1/integrations?cursor=${flipped}`),
        await owner.get('/v1/integrations?cursor=WzAsMF0'),
        await owner.get('/v1/integrations?cursor='),
      ]
      for (const answer of refused) expect([answer.status, answer.body.code]).toEqual([400, 'invalid_cursor'])
    })
  })

  describe('answers', () => {
    test('upstream errors, keys and stack traces never come out', async () => {
      platform.provider.script([
        status(401, { message: 'Incorrect API key provided: sk-canary-1234 at /srv/app.ts:7' }),
      ])

      const { stream } = await client.completeWhole()
      const run = await client.get(`/v1/runs/${stream.runId}?include=output`)

      for (const part of [stream.text, run.text]) expect(part).not.toMatch(/canary|app\.ts|platform-key/)
    })

    test('request ids of callers are taken when harmless, and no header can be injected', async () => {
      const given = await client.get('/v1/agencies', { headers: { 'x-request-id': 'my-request-1' } })
      const strange = await client.get('/v1/agencies', { headers: { 'x-request-id': 'x y"><' } })

      expect(given.headers.get('x-request-id')).toBe('my-request-1')
      expect(strange.headers.get('x-request-id')).toMatch(/^req_/)
    })

    test('claims in user_context change nothing', async () => {
      const [other] = [await platform.client()]
      const user_context = { role: 'admin', owner_id: other.ownerId, ownerId: other.ownerId }
      const answer = await client.with({ integrationId: other.integrationId }).completeWhole({ user_context })
      expect([answer.status, answer.body.code]).toEqual([403, 'integration_forbidden'])
    })

    test('exports quote what a spreadsheet would take for a formula', async () => {
      const owner = await platform.client()
      platform.provider.respond(() => text('Fine.'))
      await owner.completeWhole({ usageRequestId: '=cmd|calc' })

      const csv = await owner.get('/v1/usage/export?format=csv')

      expect(csv.text).toContain("'=cmd|calc")
      expect(csv.headers.get('content-disposition')).toBe('attachment; filename="usage.csv"')
    })
  })

  describe('origins', () => {
    const preflight = (origin: string): Promise<Response> =>
      fetch(`${platform.url}/get_completion_v2`, {
        method: 'OPTIONS',
        headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' },
      })

    test('its pages see the headers that clients of every protocol need', async () => {
      const { headers } = await fetch(`${platform.url}/readyz`, { headers: { origin: 'https://app.example.com' } })

      expect(headers.get('access-control-expose-headers')!.split(', ')).toEqual(
        expect.arrayContaining([
          'Mcp-Session-Id',
          'Retry-After',
          'WWW-Authenticate',
          'X-Agent-Run-Admitted',
          'X-Chat-Id',
        ]),
      )
    })

    test('a configured one may call with credentials, others are told nothing, and never everybody', async () => {
      const allowed = await preflight('https://app.example.com')
      const denied = await preflight('https://evil.example.com')

      expect(allowed.status).toBe(200)
      expect(allowed.headers.get('access-control-allow-origin')).toBe('https://app.example.com')
      expect(allowed.headers.get('access-control-allow-credentials')).toBe('true')
      expect(denied.headers.get('access-control-allow-origin')).not.toBe('*')
      expect(denied.headers.get('access-control-allow-origin')).not.toBe('https://evil.example.com')
    })

    test('what is no preflight, or one of a page that may not call, is refused as every other request', async () => {
      const denied = await preflight('https://evil.example.com')
      const plain = await fetch(`${platform.url}/v1/runs`, { method: 'OPTIONS' })

      const error = 'The API key is missing or not valid. Send it in the header Authorization: Bearer <key>.'
      const refusal = { error, code: 'invalid_api_key' }
      for (const answer of [denied, plain]) {
        expect({ status: answer.status, body: await answer.json() }).toMatchObject({ status: 401, body: refusal })
      }
    })
  })

  test('what no route has is 404, also what is internal', async () => {
    for (const path of ['/internal/runs', '/metrics', '/v1', '/v1/', '/v1/nothing', '/%2e%2e/etc/passwd']) {
      expect((await client.get(path)).status).toBe(404)
    }
    const bad = await client.get('/v1/runs/%zz')
    expect([bad.status, bad.headers.get('content-type')]).toEqual([400, 'application/json; charset=utf-8'])
    expect((await client.with({ token: '' }).get('/v1/nothing')).status).toBe(401)
  })

  test.each([
    ['/integrations/int_1/sign_ins', '/v1/integrations/{integrationId}/sign_ins'],
    ['/v1/run/run_1/text', '/v1/runs/{runId}/text'],
    ['/v1/completion/get_completion_v2', '/get_completion_v2'],
  ])('the 404 of %s names the route that it ends as: %s', async (path, meant) => {
    const { body } = await client.get(path)

    expect(body.error).toBe(
      `There is no route GET ${path}. Did you mean ${meant}? GET /v1/openapi.json lists all routes.`,
    )
  })

  test('U+0000 in an address is refused, not a failure of ours', async () => {
    const paths = [
      '/v1/runs/%00',
      '/v1/chats?consumerId=a%00',
      '/v1/usage/summary?groupBy=day&timeZone=%00',
      '/v1/chats/a%00b/status',
    ]
    for (const path of paths) expect((await client.get(path)).status).toBe(400)
  })

  test('a consumer with one message left opens many chats at once: one is admitted', async () => {
    const owner = await platform.client({ memberAllowancesEnabled: true })
    await owner.post(`/v1/integrations/${owner.integrationId}/members`, { consumerId: 'u', allowance: { messages: 1 } })
    platform.provider.respond(() => text('Hello.'))

    const storm = Array.from({ length: 40 }, () =>
      owner.completeWhole({ consumerId: 'u', usageRequestId: randomUUID() }),
    )
    const answers = await Promise.all(storm)

    expect(answers.filter((answer) => answer.status === 200)).toHaveLength(1)
    expect(answers.filter((answer) => answer.body?.code === 'consumer_allowance_exhausted')).toHaveLength(39)
    expect(await platform.violations()).toEqual([])
  })
})

test('without configured origins nothing is said of them', async () => {
  // The other files run without; this one states it.
  const { loadPlatformConfig } = await import('@bureau/platform')
  expect(loadPlatformConfig({}).corsOrigins).toEqual([])
  expect(() => loadPlatformConfig({ PLATFORM_CORS_ORIGINS: '*' })).toThrow('not an origin')
})
