import { readdir } from 'node:fs/promises'
import { Agency, Agent, MCPServerOAuth, Tool, tool, type ToolContext } from '@bureau/framework'
import { ConfigError } from '@bureau/protocol'
import { createApp, jwtAuthenticate, loadConfig, type User } from '@bureau/server'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { startHttpServer } from '../support/http-server.ts'
import { startIdentityProvider } from '../oauth/support/identity-provider.ts'
import { hold, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'

/** `x-user: ada` is Ada. */
const byHeader = ({ headers }: { headers: Record<string, unknown> }): User | null =>
  typeof headers['x-user'] === 'string' ? { id: headers['x-user'], role: 'tester' } : null

const ada = { 'x-user': 'ada' }
const bob = { 'x-user': 'bob' }

describe('authenticate', () => {
  test('says who may call, on every route but those for probes and browsers that come back', async () => {
    const server = await startTestServer({ agencies: soloAgency(), authenticate: byHeader })
    server.provider.respond(() => text('Hi.'))

    expect((await server.post('/solo/get_response', { message: 'x' }, ada)).body.response).toBe('Hi.')
    for (const path of ['/solo/get_metadata', '/openapi.json', '/docs', '/openai/v1/models']) {
      expect([path, (await server.get(path)).status]).toEqual([path, 401])
      expect([path, (await server.get(path, ada)).status]).toEqual([path, 200])
    }
    expect((await server.post('/solo/get_response', { message: 'x' })).status).toBe(401)
    expect((await server.get('/healthz')).status).toBe(200)
  })

  test('401 carries the reason and the scheme', async () => {
    const server = await startTestServer({ agencies: soloAgency(), authenticate: byHeader })

    const none = await server.get('/solo/get_metadata')
    const wrong = await server.get('/solo/get_metadata', { authorization: 'Bearer x' })

    expect([none.body.detail, wrong.body.detail]).toEqual(['Not authenticated', 'Unauthorized'])
    expect(none.headers.get('www-authenticate')).toBe('Bearer')
  })

  test.each([
    { name: 'throws', answer: () => Promise.reject(new Error('the database of sessions is away')) },
    { name: 'returns no user', answer: () => ({ name: 'ada' }) as never },
  ])('500, and not a word of why, when it $name', async ({ answer }) => {
    const server = await startTestServer({ agencies: soloAgency(), authenticate: answer })

    const refused = await server.get('/solo/get_metadata', ada)

    expect([refused.status, refused.body.error]).toEqual([500, 'Something failed on our side.'])
  })

  test.each([
    [{ statusCode: 403 }, 403, 'forbidden', 'This user may not do that here.'],
    [{ statusCode: 403, expose: true }, 403, 'forbidden', 'The account is suspended.'],
    [{ statusCode: 401, expose: true }, 401, 'not_authenticated', 'The account is suspended.'],
    [{ statusCode: 402, expose: true }, 402, 'invalid_request', 'The request is not valid.'],
  ])('a refusal with %j', async (members, status, code, sentence) => {
    const authenticate = (): never => {
      throw Object.assign(new Error('The account is suspended.'), members)
    }
    const server = await startTestServer({ agencies: soloAgency(), authenticate })

    const refused = await server.get('/solo/get_metadata')

    expect([refused.status, refused.body.code, refused.body.error]).toEqual([status, code, sentence])
  })

  // Browsers apply no CORS to WebSockets, and send their cookies along.
  test('by a cookie, opens realtime connections to pages that are named or its own, not to any page that a user visits', async () => {
    const byCookie = ({ headers }: { headers: Record<string, unknown> }): User | null =>
      headers['cookie'] === 'session=1' ? { id: 'ada' } : null
    const options = { agencies: soloAgency(), authenticate: byCookie, enableRealtime: true }
    const open = await startTestServer(options)
    const listed = await startTestServer({ ...options, corsOrigins: ['https://app.example'] })
    // What is let in is 404, because it is no handshake.
    const statusOf = async ({ get }: typeof open, origin?: string): Promise<number> =>
      (await get('/solo/realtime', { cookie: 'session=1', ...(origin !== undefined && { origin }) })).status

    expect([await statusOf(open), await statusOf(open, open.url)]).toEqual([404, 404])
    expect([await statusOf(open, 'https://evil.example'), await statusOf(open, 'null')]).toEqual([401, 401])
    expect([await statusOf(listed), await statusOf(listed, 'https://app.example')]).toEqual([404, 404])
    expect(await statusOf(listed, 'https://evil.example')).toBe(403)
  })

  test('whoever tries too often is slowed down', async () => {
    const env = { BUREAU_WRONG_KEYS_PER_MINUTE: '2' }
    const server = await startTestServer({ agencies: soloAgency(), authenticate: byHeader, env })
    const statuses: number[] = []
    for (let attempt = 0; attempt < 4; attempt++) {
      statuses.push((await server.get('/solo/get_metadata', { authorization: 'Bearer x' })).status)
    }

    expect(statuses).toEqual([401, 401, 429, 429])
  })

  test('is asked before the body is read', async () => {
    const server = await startTestServer({ agencies: soloAgency(), authenticate: byHeader })

    expect((await server.post('/solo/get_response', '{"not json')).status).toBe(401)
  })

  test('does not go together with appTokenEnv', async () => {
    const options = { agencies: soloAgency(), authenticate: byHeader, appTokenEnv: 'TOKEN' }

    await expect(createApp(options, loadConfig({}))).rejects.toThrow(ConfigError)
  })
})

describe('the user', () => {
  const seen: unknown[] = []
  const whoAmI = tool({
    name: 'who_am_i',
    description: 'Tells who asks.',
    parameters: z.object({}),
    execute: (_input, { userContext }) => void seen.push(userContext),
  })

  test.each(['/solo/get_response', '/solo/get_response_stream', '/openai/v1/chat/completions', '/openai/v1/responses'])(
    'is in the context of tools, and cannot be claimed in a request: %s',
    async (path) => {
      const server = await startTestServer({ agencies: soloAgency({ tools: [whoAmI] }), authenticate: byHeader })
      server.provider.respond(({ toolOutputs }) => (toolOutputs.length === 0 ? toolCall('who_am_i') : text('ok')))
      seen.length = 0

      await server.post(
        path,
        {
          message: 'x',
          input: 'x',
          messages: [{ role: 'user', content: 'x' }],
          user_context: { user_id: 'eve', user: { id: 'eve' }, plan: 'pro' },
        },
        ada,
      )

      expect(seen).toEqual([{ user_id: 'ada', user: { id: 'ada', role: 'tester' }, plan: 'pro' }])
    },
  )

  test('is in the context of tools that are served on their own', async () => {
    class WhoAmI extends Tool {
      readonly description = 'Tells who asks.'
      readonly parameters = z.object({})
      run(_input: object, { userContext }: ToolContext): unknown {
        return userContext['user_id']
      }
    }
    const server = await startTestServer({ tools: [WhoAmI], authenticate: byHeader })

    expect((await server.post('/tool/WhoAmI', {}, ada)).body.response).toBe('ada')
  })

  test('owns the run: another user cannot cancel it', async () => {
    const server = await startTestServer({ agencies: soloAgency(), authenticate: byHeader })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['One', hold(gate), ' two'])])
    const stream = await server.stream('/solo/get_response_stream', { message: 'x' }, { headers: ada })
    await stream.untilText('One')
    const body = { run_id: stream.runId }

    const byBob = await server.post('/solo/cancel_response_stream', body, bob)
    const byAda = await server.post('/solo/cancel_response_stream', body, ada)

    expect([byBob.status, byAda.status, byAda.body.cancelled]).toEqual([404, 200, true])
  })

  test('does not see what others do in the console', async () => {
    const server = await startTestServer({ agencies: soloAgency(), authenticate: byHeader, keepRecentRuns: true })
    server.provider.respond(() => text('Hi.'))
    await server.post('/solo/get_response', { message: 'x' }, ada)

    expect((await server.get('/console/runs', bob)).status).toBe(404)
  })

  test('owns the activity logs, whatever ids others choose', async () => {
    const logsDir = await temporaryFolder()
    const options = { agencies: soloAgency(), authenticate: byHeader, enableLogging: true, logsDir }
    const server = await startTestServer(options)
    await server.get('/solo/get_metadata', { ...ada, 'x-agency-log-id': 'mine' })
    const read = async (headers: Record<string, string>): Promise<number> =>
      (await server.get('/get_logs?log_id=mine', headers)).status

    await expect.poll(() => readdir(logsDir)).toHaveLength(1)
    expect([await read({ 'x-user': 'eve' }), await read(ada)]).toEqual([404, 200])
  })

  test('owns the responses that are kept', async () => {
    const openai = { keepResponsesMs: 60_000 }
    const server = await startTestServer({ agencies: soloAgency(), authenticate: byHeader, openai })
    server.provider.respond(() => text('Hi.'))
    const { body } = await server.post('/openai/v1/responses', { input: 'x' }, ada)
    const next = { input: 'y', previous_response_id: body.id }

    expect((await server.get(`/openai/v1/responses/${body.id}`, bob)).status).toBe(404)
    expect((await server.post('/openai/v1/responses', next, bob)).status).toBe(404)
    expect((await server.get(`/openai/v1/responses/${body.id}`, ada)).status).toBe(200)
    expect((await server.post('/openai/v1/responses', next, ada)).status).toBe(200)
  })

  test('is the one who signs in to protected tool servers, without oauthUserId', async () => {
    const mcpServers = [new MCPServerOAuth({ name: 'notes', url: 'https://notes.example/mcp' })]
    const agency = new Agency({ entryPoint: new Agent({ name: 'Solo', model: 'gpt-test', mcpServers }) })
    const server = await startTestServer({ agencies: { solo: agency }, authenticate: byHeader })
    server.provider.respond(() => text('Hi.'))

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'x' }, { headers: ada })).all()

    expect(stream.outline.at(-1)).toBe('end')
    expect((await server.post('/solo/get_response', { message: 'x' }, ada)).status).toBe(400)
  })
})

describe('jwtAuthenticate', () => {
  /** An issuer whose tokens the test signs itself. */
  async function startIssuer() {
    const { privateKey, publicKey } = await generateKeyPair('ES256')
    const keys = { keys: [{ ...(await exportJWK(publicKey)), kid: 'k1', alg: 'ES256' }] }
    let isAway = false
    let claimed = ''
    const issuer = await startHttpServer((request, response) => {
      if (isAway) return void response.writeHead(500).end()
      const isKeys = request.url === '/keys'
      const discovery = { issuer: claimed || issuer, jwks_uri: `${issuer}/keys` }
      response.setHeader('content-type', 'application/json').end(JSON.stringify(isKeys ? keys : discovery))
    })
    const sign = (claims: object = {}, { alg = 'ES256', key = privateKey as never, expires = '5m' } = {}) =>
      new SignJWT({ iss: issuer, aud: 'agents', sub: 'ada', ...claims })
        .setProtectedHeader({ alg, kid: 'k1' })
        .setExpirationTime(expires)
        .sign(key)
    return {
      issuer,
      sign,
      goAway: () => void (isAway = true),
      claimToBe: (other: string) => void (claimed = other),
    }
  }

  const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` })

  test('lets in who has a valid token, and knows its claims', async () => {
    const seen: unknown[] = []
    const look = tool({
      name: 'look',
      description: 'Looks.',
      parameters: z.object({}),
      execute: (_input, { userContext }) => void seen.push(userContext['user']),
    })
    const { issuer, sign } = await startIssuer()
    const authenticate = jwtAuthenticate({ issuer, audience: 'agents' })
    const server = await startTestServer({ agencies: soloAgency({ tools: [look] }), authenticate })
    server.provider.respond(({ toolOutputs }) => (toolOutputs.length === 0 ? toolCall('look') : text('ok')))

    const answer = await server.post('/solo/get_response', { message: 'x' }, bearer(await sign({ email: 'a@b.c' })))

    expect(answer.status).toBe(200)
    expect(seen).toMatchObject([{ id: 'ada', claims: { iss: issuer, email: 'a@b.c' } }])
  })

  test('takes the keys from jwksUri and the id from idClaim, where those are given', async () => {
    const { issuer, sign, claimToBe } = await startIssuer()
    claimToBe('https://other.example')
    const options = { issuer, audience: 'agents', jwksUri: `${issuer}/keys`, idClaim: 'email' }
    const server = await startTestServer({
      agencies: soloAgency({ instructions: ({ context }) => `You help ${String(context.userContext['user_id'])}.` }),
      authenticate: jwtAuthenticate(options),
    })
    server.provider.respond(() => text('ok'))
    const ask = async (claims: object) =>
      (await server.post('/solo/get_response', { message: 'x' }, bearer(await sign(claims)))).status

    expect([await ask({ email: 'a@b.c' }), await ask({})]).toEqual([200, 401])
    expect(server.provider.modelRequests.map(({ body }) => body['instructions'])).toEqual(['You help a@b.c.'])
  })

  test('401 for everything else', async () => {
    const { issuer, sign } = await startIssuer()
    const server = await startTestServer({
      agencies: soloAgency(),
      authenticate: jwtAuthenticate({ issuer, audience: 'agents' }),
      env: { BUREAU_WRONG_KEYS_PER_MINUTE: '100' },
    })
    const stranger = await generateKeyPair('ES256')
    const good = await sign()
    const tokens = {
      'of another audience': await sign({ aud: 'others' }),
      'of another issuer': await sign({ iss: 'https://other.example' }),
      'that has expired': await sign({}, { expires: '-1m' }),
      'without a subject': await sign({ sub: undefined }),
      'with a blank subject': await sign({ sub: ' ' }),
      'whose subject is a number': await sign({ sub: 7 }),
      'with a wrong signature': `${good.slice(0, -4)}AAAA`,
      'signed by a stranger': await sign({}, { key: stranger.privateKey as never }),
      'signed with a shared secret': await sign({}, { alg: 'HS256', key: new Uint8Array(32) as never }),
      'without a signature': `${btoa('{"alg":"none"}')}.${good.split('.')[1]}.`,
      'that is no token': 'nonsense',
    }

    for (const [name, token] of Object.entries(tokens)) {
      expect([name, (await server.get('/solo/get_metadata', bearer(token))).status]).toEqual([name, 401])
    }
    expect((await server.get('/solo/get_metadata')).status).toBe(401)
    expect((await server.get('/solo/get_metadata', bearer(good))).status).toBe(200)
  })

  test.each(['is away', 'is another one'])('503 when the issuer %s', async (what) => {
    const issuer = await startIssuer()
    if (what === 'is away') issuer.goAway()
    else issuer.claimToBe('https://other.example')
    const authenticate = jwtAuthenticate({ issuer: issuer.issuer, audience: 'agents' })
    const lines: string[] = []
    const logDestination = { write: (line: string) => void lines.push(line) }
    const server = await startTestServer({ agencies: soloAgency(), authenticate, logLevel: 'warn', logDestination })

    const answer = await server.get('/solo/get_metadata', bearer(await issuer.sign()))

    expect(answer.status).toBe(503)
    expect(answer.headers.get('retry-after')).toBe('5')
    expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({
      code: 'issuer_unavailable',
      err: { type: expect.any(String) },
    })
  })

  test('a token that is refused says so to its client, and why to the operator', async () => {
    const { issuer, sign } = await startIssuer()
    const lines: string[] = []
    const server = await startTestServer({
      agencies: soloAgency(),
      authenticate: jwtAuthenticate({ issuer, audience: 'agents' }),
      logLevel: 'info',
      logDestination: { write: (line: string) => void lines.push(line) },
    })
    const token = await sign({ aud: 'others' })

    const answer = await server.get('/solo/get_metadata', bearer(token))

    expect(answer.headers.get('www-authenticate')).toBe('Bearer error="invalid_token"')
    expect(lines.find((line) => line.includes('a token was refused'))).toContain('\\"aud\\"')
    expect(lines.join('')).not.toContain(token)
  })

  test('an issuer cannot make the server call into its network', async () => {
    const victim = await startIssuer()
    const issuer: string = await startHttpServer((_request, response) =>
      response.end(JSON.stringify({ issuer, jwks_uri: `${victim.issuer}/keys` })),
    )
    const server = await startTestServer({
      agencies: soloAgency(),
      authenticate: jwtAuthenticate({ issuer, audience: 'agents' }),
    })

    const token = bearer(await victim.sign({ iss: issuer }))

    expect((await server.get('/solo/get_metadata', token)).status).toBe(503)
  })

  test('takes the tokens of a real OpenID Connect server', async () => {
    const client = {
      client_id: 'backend',
      client_secret: 'secret',
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
    }
    const provider = await startIdentityProvider({ clients: [client], accessTokenFormat: 'jwt' })
    const audience = 'https://agents.example'
    const server = await startTestServer({
      agencies: soloAgency(),
      authenticate: jwtAuthenticate({ issuer: provider.issuer, audience }),
    })
    const granted = await fetch(`${provider.issuer}/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa('backend:secret')}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', resource: audience }),
    })
    const { access_token: token } = (await granted.json()) as { access_token: string }

    expect((await server.get('/solo/get_metadata', bearer(token))).status).toBe(200)
  })

  test.each([
    { issuer: 'not a url', audience: 'a' },
    { issuer: 'https://a.example', audience: '' },
    { issuer: 'https://a.example', audience: 'a', algorithms: ['HS256'] },
  ])('ConfigError for options that cannot be: %j', (options) => {
    expect(() => jwtAuthenticate(options)).toThrow(ConfigError)
  })
})
