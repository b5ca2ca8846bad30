import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { runServer } from '@bureau/server'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { closeAfterTest, type Json, soloAgency, startTestServer } from '../support/test-server.ts'

type Answer = { readonly status: number; readonly headers: Json; readonly body: Json }

/** A request with headers that `fetch` would not let through. */
async function ask(url: string, headers: Record<string, string>): Promise<Answer> {
  const sent = get(url, { headers, agent: false })
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  const body = await text(response)
  return { status: response.statusCode!, headers: response.headers, body: body === '' ? null : JSON.parse(body) }
}

const PATH = '/solo/get_metadata'

test.each([
  ['of blanks', '  ', 'must not be blank'],
  ['that is a sentence, of which each word would be one', 'correct horse battery staple', 'must not have spaces'],
])('a token %s is a mistake that is told at the start', async (_what, token, problem) => {
  const started = startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: token } })
  await expect(started).rejects.toThrow(`APP_TOKEN: ${problem}`)
})

test('a token with other letters than those of ASCII is the same in the two ways to send it', async () => {
  const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'pässwort' } })
  const statusWith = async (token: string) => (await server.get(PATH, { authorization: `Bearer ${token}` })).status

  const asUtf8 = Buffer.from('pässwort').toString('latin1')

  expect([await statusWith('pässwort'), await statusWith(asUtf8), await statusWith('passwort')]).toEqual([
    200, 200, 401,
  ])
})

describe('without a token', () => {
  test.each(['http://localhost:3000', 'http://app.localhost:3000', 'https://127.0.0.1', 'http://[::1]:8080'])(
    'pages of this machine may call: %s',
    async (origin) => {
      const server = await startTestServer({ agencies: soloAgency() })
      const { status, headers } = await server.get(PATH, { origin })
      expect([status, headers.get('access-control-allow-origin')]).toEqual([200, origin])
      expect(headers.get('access-control-allow-credentials')).toBeNull()
    },
  )

  test.each(['https://evil.example', 'http://localhost.evil.example', 'http://127.0.0.1.evil.example', 'null'])(
    '403 for pages of %s, which are told how to be let in and get no headers that let them read it',
    async (origin) => {
      const server = await startTestServer({ agencies: soloAgency() })
      const { status, headers, body } = await server.get(PATH, { origin })
      expect(status).toBe(403)
      expect(body).toEqual({
        detail: expect.stringContaining(`"${origin}"`),
        error: expect.stringContaining('corsOrigins'),
        code: 'origin_not_allowed',
      })
      expect(headers.get('access-control-allow-origin')).toBeNull()

      const preflight = { origin, 'access-control-request-method': 'POST' }
      const allowed = await fetch(server.url + PATH, { method: 'OPTIONS', headers: preflight })
      expect(allowed.headers.get('access-control-allow-origin')).toBeNull()
    },
  )

  test.each(['localhost', 'localhost.:80', 'app.localhost:8000', '127.0.0.1:1', '127.9.9.9', '[::1]:8000'])(
    'it answers under the loopback host %s',
    async (host) => {
      const server = await startTestServer({ agencies: soloAgency() })
      expect((await ask(server.url + PATH, { host })).status).toBe(200)
    },
  )

  test.each(['evil.example', 'evil.example:8000', 'localhost.evil.example', '10.1.2.3', 'bureau', '0.0.0.0:8000', '['])(
    '403 under the host %j, to which a page could have pointed a name of its own',
    async (host) => {
      const server = await startTestServer({ agencies: soloAgency() })
      const { status, body } = await ask(server.url + PATH, { host })
      expect(status).toBe(403)
      for (const remedy of ['APP_TOKEN', 'serverUrl', 'corsOrigins']) expect(body.error).toContain(remedy)
    },
  )

  test('a very long host is not repeated in full', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { body } = await ask(server.url + PATH, { host: `${'a.'.repeat(4_000)}example` })
    expect(body.error.length).toBeLessThan(400)
  })

  test.each([
    ['serverUrl', { serverUrl: 'https://Agents.example.com/bureau' }, ['agents.example.com', '127.0.0.1']],
    ['host', { host: 'agents.lan.example' }, ['agents.lan.example:8000', '10.1.2.3', 'bureau', 'bureau.internal']],
    [
      'a host for a network',
      { host: '0.0.0.0' },
      ['192.168.1.5:8000', '[fd00::1]', 'bureau:8000', 'bureau.default.svc'],
    ],
    ['a host for every network', { host: '::' }, ['192.168.1.5:8000']],
    ['any origin', { corsOrigins: ['*'] }, ['agents.example.com']],
    ['a public origin', { corsOrigins: ['https://app.example.com'] }, ['api.example.com']],
  ])('%s lets callers in', async (_what, options, hosts) => {
    const server = await startTestServer({ agencies: soloAgency(), ...options })
    const answers = await Promise.all(hosts.map((host) => ask(server.url + PATH, { host })))
    expect(answers.map(({ status }) => status)).toEqual(hosts.map(() => 200))
  })

  test.each([
    ['a host for a network', { host: '0.0.0.0' }],
    ['a loopback host', { host: '127.0.0.1' }],
    ['an origin of this machine', { corsOrigins: ['http://localhost:3000'] }],
    ['the address of another server', { serverUrl: 'https://agents.example.com' }],
  ])('%s does not let in public names', async (_what, options) => {
    const server = await startTestServer({ agencies: soloAgency(), ...options })
    expect((await ask(server.url + PATH, { host: 'evil.example' })).status).toBe(403)
  })

  test('pages that the server itself has served may call it', async () => {
    const server = await startTestServer({ agencies: soloAgency(), serverUrl: 'https://agents.example.com' })
    const own = { host: 'agents.example.com', origin: 'https://agents.example.com' }
    expect((await ask(server.url + PATH, own)).status).toBe(200)
    expect((await ask(server.url + PATH, { ...own, origin: 'https://other.example.com' })).status).toBe(403)
  })

  test('listed origins are the only ones that may call', async () => {
    const server = await startTestServer({ agencies: soloAgency(), corsOrigins: ['https://app.example'] })
    expect((await server.get(PATH, { origin: 'https://app.example' })).status).toBe(200)
    expect((await server.get(PATH, { origin: 'https://evil.example' })).status).toBe(403)
    expect((await server.get(PATH, { origin: 'http://localhost:3000' })).status).toBe(403)
    // A page that has pointed its own name here.
    const rebound = { host: 'evil.example', origin: 'http://evil.example' }
    expect((await ask(server.url + PATH, rebound)).status).toBe(403)
  })

  test('health and sign-in callbacks are open to every host', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    for (const path of ['/healthz', '/readyz']) {
      expect((await ask(server.url + path, { host: 'evil.example' })).status).toBe(200)
    }
    expect((await ask(`${server.url}/auth/callback`, { host: 'agents.example.com' })).status).toBe(404)
  })

  test('metrics on a port of their own have the same rule', async () => {
    const port = await freePort()
    await startTestServer({ agencies: soloAgency(), metrics: { port } })
    expect((await ask(`http://127.0.0.1:${port}/metrics`, { host: 'evil.example' })).status).toBe(403)
  })
})

describe('with a token', () => {
  test('any page and any host may call, and the token decides', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })
    const headers = { host: 'agents.example.com', origin: 'https://app.example' }
    const { status, headers: answered } = await ask(server.url + PATH, { ...headers, authorization: 'Bearer right' })
    expect([status, answered['access-control-allow-origin']]).toEqual([200, '*'])
    expect((await ask(server.url + PATH, headers)).status).toBe(401)
  })
})

describe('runServer', () => {
  test.each([
    ['this machine without a token', {}, '', false],
    ['all addresses when host says so', { host: '0.0.0.0' }, '', true],
    ['all addresses with a token', {}, 'right', true],
    ['this machine when host says so', { host: '127.0.0.1' }, 'right', false],
  ])('listens on %s', async (_what, options, token, everywhere) => {
    vi.stubEnv('OPEN_SERVER_TOKEN', token)
    onTestFinished(() => void vi.unstubAllEnvs())
    const common = { agencies: soloAgency(), appTokenEnv: 'OPEN_SERVER_TOKEN', logLevel: 'silent' as const, port: 0 }
    const server = await runServer({ ...common, ...options })
    closeAfterTest(server.close)
    const other = server.url.replace(/\/\/[^:]+:/, '//127.0.0.2:')
    const answered = await fetch(`${other}/healthz`).then(
      () => true,
      () => false,
    )
    expect(answered).toBe(everywhere)
  })
})
