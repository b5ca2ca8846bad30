import { readFile, stat } from 'node:fs/promises'
import path from 'node:path'
import { get, type IncomingMessage } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { once } from 'node:events'
import { ensureFirstOwner, sharePort } from '@bureau/platform'
import { createApp, loadConfig } from '@bureau/server'
import OpenAI from 'openai'
import { expect, test } from 'vitest'
import { hold, text, textDeltas } from '../support/fake-provider.ts'
import { closeAfterTest } from '../support/test-server.ts'
import { type Json, TestClient } from './support/test-client.ts'
import { shopAgency, startPlatform } from './support/test-platform.ts'

/** The self-hosted server and the platform on one port, as `npm start` has them. */
async function startBoth(serverToken = 'server-token') {
  const platform = await startPlatform('pglite', {}, { listen: false })
  const { provider } = platform
  closeAfterTest(() => provider.close())
  const config = loadConfig({ OPENAI_API_KEY: 'sk', OPENAI_BASE_URL: provider.baseUrl, APP_TOKEN: serverToken })
  const host = await createApp({ agencies: { shop: shopAgency() }, logLevel: 'silent' }, config)
  await sharePort(host, platform)
  await host.listen({ host: '127.0.0.1', port: 0 })
  const url = `http://127.0.0.1:${(host.server.address() as AddressInfo).port}`
  const close = async (): Promise<void> => {
    host.server.closeAllConnections()
    await host.close()
    await platform.close()
  }
  closeAfterTest(close)
  return { platform, provider, host, url }
}

test('each answers its own paths, with its own keys and origins', async () => {
  const { platform, provider, url } = await startBoth()
  provider.respond(() => text('Hello.'))
  const { ownerId, key } = await platform.addTenant()
  const client = new TestClient({
    url,
    token: key.token,
    ownerId,
    integrationId: await platform.addIntegration(ownerId),
  })
  const origin = { origin: 'https://evil.example.com' }

  const hosted = await client.completeWhole({}, { headers: origin })
  const selfHosted = await client
    .with({ token: 'server-token' })
    .fetch('POST', '/shop/get_response', { message: 'Hi' }, { headers: origin })

  expect(hosted.stream.spoken).toBe('Hello.')
  expect(hosted.headers.has('access-control-allow-origin')).toBe(false)
  expect(await selfHosted.json()).toMatchObject({ response: 'Hello.' })
  expect(selfHosted.headers.get('access-control-allow-origin')).toBe('*')
  expect((await client.with({ token: 'server-token' }).get('/v1/runs')).status).toBe(401)
  expect((await client.fetch('POST', '/shop/get_response', { message: 'Hi' })).status).toBe(401)
  const agui = { threadId: 't', runId: 'r', messages: [{ id: 'u', role: 'user', content: 'Hi' }] }
  expect((await client.fetch('POST', `/agui/${client.integrationId}`, agui)).status).toBe(200)
  for (const page of ['/v1/openapi.json', '/v1/docs']) expect((await fetch(url + page)).status).toBe(200)
  expect((await client.with({ token: 'server-token' }).fetch('GET', '/openapi.json')).status).toBe(200)
  expect((await fetch(`${url}/readyz`)).status).toBe(200)
})

test('protocols that both speak are answered by the one whose credential comes', async () => {
  const { platform, provider, url } = await startBoth()
  provider.respond(() => text('Hello.'))
  const { ownerId, key } = await platform.addTenant()
  const integrationId = await platform.addIntegration(ownerId)
  const owner = new TestClient({ url, token: key.token, ownerId, integrationId })
  const issued = await owner.post('/v1/consumer_tokens', { apiIntegrationId: integrationId, consumerId: 'ada' })
  const modelsOf = async (token: string): Promise<string | undefined> => {
    const openai = new OpenAI({ baseURL: `${url}/openai/v1`, apiKey: token, maxRetries: 0 })
    return (await openai.models.list()).data[0]?.id
  }
  const toolsOf = async (token: string): Promise<string> => {
    const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
    const headers = { accept: 'application/json, text/event-stream' }
    return (await owner.with({ token }).fetch('POST', '/mcp', list, { headers })).text()
  }

  expect(await modelsOf('server-token')).toBe('shop')
  expect(await toolsOf('server-token')).toContain('ask_shop')
  for (const token of [key.token, issued.body.token as string]) {
    expect(await modelsOf(token)).toBe(integrationId)
    expect(await toolsOf(token)).toMatch(/ask_(?:shop|int_)/)
  }
  await expect(modelsOf('eyJhbGciOiJFZERTQSIsInR5cCI6ImFwaWtleStqd3Qi.forged.x')).rejects.toMatchObject({ status: 401 })
  await expect(modelsOf('wrong')).rejects.toMatchObject({ status: 401 })
  const cardOf = async (path: string, token: string): Promise<string> => {
    const card = await owner.with({ token }).fetch('GET', `${path}/.well-known/agent-card.json`)
    return ((await card.json()) as Json).supportedInterfaces[0].url
  }
  for (const path of [`/a2a/${integrationId}`, '']) {
    expect(await cardOf(path, key.token)).toBe(`${url}/a2a/${integrationId}`)
  }
  for (const path of ['/a2a/shop', '']) expect(await cardOf(path, 'server-token')).toBe(`${url}/a2a/shop`)
})

test('browsers guess no type of any answer, whoever gives it', async () => {
  const { platform, provider, url } = await startBoth()
  provider.respond(() => text('Hello.'))
  const { ownerId, key } = await platform.addTenant()
  const integrationId = await platform.addIntegration(ownerId)
  const client = new TestClient({ url, token: key.token, ownerId, integrationId })
  const stream = await (await client.complete()).all()
  const paths = [
    '/readyz',
    '/v1/runs',
    '/v1/nothing',
    '/v1/%zz',
    '/v1/docs',
    '/v1/docs/assets/swagger-ui.css',
    '/nothing',
  ]

  const answers = await Promise.all(paths.map((path) => client.fetch('GET', path)))
  answers.push(
    stream.response,
    await client.fetch('POST', '/get_completion_v2', '{'),
    await client.fetch('OPTIONS', '/v1/runs'),
  )

  expect(answers.map(({ headers }) => headers.get('x-content-type-options'))).toEqual(answers.map(() => 'nosniff'))
})

test('without a server token a foreign host is refused, except for the platform, whose keys no page has', async () => {
  const { platform, url } = await startBoth('')
  const { key } = await platform.addTenant()
  const ask = async (path: string, headers = {}): Promise<number | undefined> => {
    const sent = get(url + path, { headers: { host: 'evil.example', ...headers }, agent: false })
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    return answer.resume().statusCode
  }
  expect(await ask('/shop/get_metadata')).toBe(403)
  expect(await ask('/v1/runs')).toBe(401)
  expect(await ask('/v1/runs', { authorization: `Bearer ${key.token}` })).toBe(200)
})

test('closing lets runs finish; meanwhile no new run is taken, and what became of others can be asked', async () => {
  const { platform, provider, host, url } = await startBoth()
  const gate = provider.gate()
  provider.script([textDeltas(['One ', hold(gate), 'two.'])])
  const { ownerId, key } = await platform.addTenant()
  const client = new TestClient({
    url,
    token: key.token,
    ownerId,
    integrationId: await platform.addIntegration(ownerId),
  })
  const stream = await client.complete()
  await stream.untilText('One')

  const closing = host.close()
  await expect.poll(() => platform.platform.executor.draining).toBe(true)
  const refused = await client.completeWhole()
  const asked = await client.get(`/v1/runs/${stream.runId}`)
  const ready = await fetch(`${url}/readyz`)
  gate.release()
  await stream.all()
  await closing

  expect([refused.status, refused.body.code]).toEqual([503, 'server_draining'])
  expect(refused.headers.get('x-agent-run-admitted')).toBe('false')
  expect(asked.body.status).toBe('running')
  expect(ready.status).toBe(503)
  expect(stream.result.status).toBe('completed')
  expect(stream.spoken).toBe('One two.')
})

test('the first start makes an owner with a key and an integration of each agency, once', async () => {
  const { platform, provider, url } = await startBoth()
  provider.respond(() => text('Welcome.'))

  const made = await ensureFirstOwner(platform.platform)
  const again = await ensureFirstOwner(platform.platform)

  expect(again).toBeUndefined()
  const file = path.join(platform.dataFolder, 'credentials.json')
  expect(JSON.parse(await readFile(file, 'utf8'))).toEqual(made)
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  expect(made).toEqual({
    apiKey: expect.stringMatching(/^eyJ/),
    apiIntegrationId: expect.stringMatching(/^int_/),
    ownerId: expect.stringMatching(/^own_/),
  })
  const client = new TestClient({ url, token: made!.apiKey, ownerId: '', integrationId: made!.apiIntegrationId })
  expect((await client.completeWhole()).stream.spoken).toBe('Welcome.')
})

test('what is not HTTP is refused with the header of the completion', async () => {
  const { url } = await startBoth()
  const send = async (bytes: string): Promise<string> => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.end(bytes)
    let answer = ''
    socket.on('data', (chunk: Buffer) => (answer += chunk.toString()))
    await once(socket, 'close')
    return answer
  }

  for (const [bytes, status] of [
    ['GARBAGE\r\n\r\n', 400],
    [`GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
    ['POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello', 400],
    ['POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', 400],
  ] as const) {
    const answer = await send(bytes)
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    expect(answer).toContain('X-Agent-Run-Admitted: false')
    expect(answer).toContain('x-content-type-options: nosniff')
  }
})
