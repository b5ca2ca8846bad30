import { expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import { soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

const TOKEN = { authorization: 'Bearer secret' }
const WRONG = { authorization: 'Bearer guess' }

const start = (env: Record<string, string> = {}): Promise<TestServer> =>
  startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'secret', ...env } })

async function statuses(times: number, ask: () => Promise<{ readonly status: number }>): Promise<number[]> {
  const answers: number[] = []
  for (let n = 0; n < times; n++) answers.push((await ask()).status)
  return answers
}

test('wrong server tokens are slowed after twenty a minute; the right one from the same address is not', async () => {
  const server = await start()
  server.provider.respond(() => text('Hi.'))

  expect(await statuses(20, () => server.get('/solo/get_metadata', WRONG))).toEqual(
    Array.from({ length: 20 }, () => 401),
  )
  const refused = await server.post('/solo/get_response', { message: 'hi' }, WRONG)
  expect([refused.status, refused.body]).toEqual([
    429,
    { detail: 'Too many requests.', error: 'Too many requests.', code: 'rate_limited' },
  ])
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)

  expect((await server.get('/solo/get_metadata')).status).toBe(401)
  expect((await server.get('/healthz')).status).toBe(200)
  expect(await statuses(3, () => server.post('/solo/get_response', { message: 'hi' }, TOKEN))).toEqual([200, 200, 200])
})

test('tokens that are tried at the realtime route count like others', async () => {
  const server = await startTestServer({
    agencies: soloAgency(),
    enableRealtime: true,
    env: { APP_TOKEN: 'secret', BUREAU_WRONG_KEYS_PER_MINUTE: '2' },
  })

  expect(await statuses(3, () => server.get('/solo/realtime', WRONG))).toEqual([401, 401, 429])
  expect(await statuses(1, () => server.get('/solo/get_metadata', WRONG))).toEqual([429])
})

test('X-Forwarded-For names the client only when it comes from a trusted proxy', async () => {
  const ask = (server: TestServer, address: string): Promise<number[]> =>
    statuses(2, () => server.get('/solo/get_metadata', { ...WRONG, 'x-forwarded-for': address }))
  const limited = { BUREAU_WRONG_KEYS_PER_MINUTE: '1' }

  const open = await start(limited)
  expect([await ask(open, '192.0.2.1'), await ask(open, '192.0.2.2')]).toEqual([
    [401, 429],
    [429, 429],
  ])
  const behind = await start({ ...limited, BUREAU_TRUSTED_PROXIES: '10.0.0.1, 127.0.0.0/8' })
  expect([await ask(behind, '192.0.2.1'), await ask(behind, '192.0.2.2')]).toEqual([
    [401, 429],
    [401, 429],
  ])
})

test.each(['proxy.internal', '10.0.0.0/33', '10.0.0.0/', '1.2.3.4/8/8', 'true'])(
  'BUREAU_TRUSTED_PROXIES=%s is a mistake that is named at start',
  async (proxies) => {
    await expect(start({ BUREAU_TRUSTED_PROXIES: proxies })).rejects.toThrow('BUREAU_TRUSTED_PROXIES')
  },
)
