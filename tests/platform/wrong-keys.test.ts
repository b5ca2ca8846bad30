import { expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import { closeAfterTest } from '../support/test-server.ts'
import type { Answer, TestClient } from './support/test-client.ts'
import { type Served, startPlatform } from './support/test-platform.ts'

async function start(
  config: Parameters<typeof startPlatform>[1] = {},
): Promise<{ platform: Served; client: TestClient }> {
  const platform = await startPlatform('pglite', config)
  closeAfterTest(() => platform.close())
  return { platform, client: await platform.client() }
}

const inTurn = async (times: number, ask: () => Promise<Answer>): Promise<Answer[]> => {
  const answers: Answer[] = []
  for (let n = 0; n < times; n++) answers.push(await ask())
  return answers
}

const statusesOf = (answers: readonly Answer[]): number[] => answers.map(({ status }) => status)

test('wrong API keys are slowed after twenty a minute; a right one from the same address is not', async () => {
  const { platform, client } = await start()
  platform.provider.respond(() => text('Hi.'))
  const wrong = client.with({ token: `${client.token.slice(0, -4)}AAAA` })

  const answers = await inTurn(22, () => wrong.get('/v1/agencies'))
  expect(statusesOf(answers)).toEqual([...Array.from({ length: 20 }, () => 401), 429, 429])
  expect(answers.at(-1)!.body.code).toBe('rate_limited')
  expect(Number(answers.at(-1)!.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)

  const refused = await wrong.completeWhole()
  expect([refused.status, refused.body]).toEqual([429, { error: expect.any(String), code: 'rate_limited' }])
  expect(refused.headers.get('x-agent-run-admitted')).toBe('false')
  expect((await wrong.post('/create_new_chat', {})).body).toEqual({ detail: 'Too many requests.' })

  expect((await client.with({ token: '' }).get('/v1/agencies')).status).toBe(401)
  expect(statusesOf(await inTurn(5, () => client.get('/v1/agencies')))).toEqual([200, 200, 200, 200, 200])
  const { key } = await platform.addTenant()
  expect((await client.with({ token: key.token }).get('/v1/agencies')).status).toBe(200)
  expect((await client.completeWhole()).status).toBe(200)
})

test('wrong upload tokens are slowed too; the right one is taken', async () => {
  const { client } = await start()
  const { body } = await client.post('/create_agency_upload', {
    apiIntegrationId: client.integrationId,
    name: 'a.txt',
    size: 2,
  })
  const { pathname, search } = new URL(body.uploadUrl)
  const put = (query: string): Promise<Answer> =>
    client.with({ token: '' }).call('PUT', pathname + query, 'ok', { headers: { 'content-type': 'text/plain' } })

  const answers = await inTurn(22, () => put('?token=guess'))

  expect(statusesOf(answers)).toEqual([...Array.from({ length: 20 }, () => 401), 429, 429])
  expect(answers.at(-1)!.headers.get('retry-after')).toMatch(/^\d+$/)
  expect((await put('')).status).toBe(401)
  expect((await put(search)).status).toBe(200)
})

test('X-Forwarded-For names the client only when it comes from a trusted proxy', async () => {
  const limited = { wrongKeysPerMinute: 1 }
  const from = (client: TestClient, address: string): Promise<Answer> =>
    client.with({ token: 'a.b.c' }).get('/v1/agencies', { headers: { 'x-forwarded-for': address } })

  const { client } = await start({ config: limited })
  expect(statusesOf([await from(client, '192.0.2.1'), await from(client, '192.0.2.2')])).toEqual([401, 429])

  const { client: behind } = await start({ config: { ...limited, trustedProxies: ['127.0.0.0/8'] } })
  expect(
    statusesOf([
      await from(behind, '192.0.2.1'),
      await from(behind, '192.0.2.2'),
      await from(behind, '192.0.2.1'),
      await from(behind, '192.0.2.9, 192.0.2.2'), // the first is what the client says of itself
    ]),
  ).toEqual([401, 401, 429, 429])
})
