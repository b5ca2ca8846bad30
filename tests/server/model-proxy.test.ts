import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, request as httpRequest, type ServerResponse } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, connect, type Server } from 'node:net'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { expect, test } from 'vitest'
import { startFakeProvider, text } from '../support/fake-provider.ts'
import { closeAfterTest, soloAgency, startTestServer } from '../support/test-server.ts'

/** @returns Its port. */
async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closeAfterTest(async () => server.close())
  return (server.address() as AddressInfo).port
}

/** A proxy of a company, and the hosts that it was asked for. Tunnels lead to the port `tunnelTo`, whatever their host. */
async function startProxy(tunnelTo = 0): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = []
  const server = createServer((request, response) => {
    const url = new URL(request.url!)
    asked.push(url.host)
    passOn(url, request, response)
  })
  server.on('connect', ({ url }, socket) => {
    asked.push(url!)
    const tunnel = connect(tunnelTo, '127.0.0.1', () => socket.write('HTTP/1.1 200 Connected\r\n\r\n'))
    socket.pipe(tunnel).pipe(socket)
  })
  return { url: `http://127.0.0.1:${await listen(server)}`, asked }
}

function passOn(url: URL, request: IncomingMessage, response: ServerResponse): void {
  const { method = '', headers } = request
  const onwards = httpRequest(url, { method, headers }, (answer) => {
    response.writeHead(answer.statusCode!, answer.headers)
    answer.pipe(response)
  })
  request.pipe(onwards)
}

test.each([
  ['HTTP_PROXY', {}, true],
  ['http_proxy', {}, true],
  ['HTTP_PROXY', { NO_PROXY: '127.0.0.1' }, false],
  ['HTTP_PROXY', { NODE_USE_ENV_PROXY: '' }, false],
])('the proxy of %s, with %j: asked is %s', async (name, env, isAsked) => {
  const proxy = await startProxy()
  const server = await startTestServer({
    agencies: soloAgency(),
    env: { NODE_USE_ENV_PROXY: '1', [name]: proxy.url, ...env },
  })
  server.provider.script([text('Hello.')])

  const { body } = await server.post('/solo/get_response', { message: 'hi' })

  expect(body.response).toBe('Hello.')
  expect(proxy.asked).toEqual(isAsked ? [new URL(server.provider.baseUrl).host] : [])
})

const CERTIFICATE = new URL('../../packages/runtime/src/egress/__fixtures__/files.example.com.pem', import.meta.url)

/** The provider over HTTPS, as `files.example.com`. @returns Its port. */
async function startEncrypted(provider: { readonly baseUrl: string }): Promise<number> {
  const pem = await readFile(CERTIFICATE, 'utf8')
  setDefaultCACertificates([...getCACertificates(), pem])
  closeAfterTest(async () => setDefaultCACertificates(getCACertificates('bundled')))
  const { origin } = new URL(provider.baseUrl)
  return listen(
    createHttpsServer({ key: pem, cert: pem }, (request, response) =>
      passOn(new URL(request.url!, origin), request, response),
    ),
  )
}

test.each([
  ['HTTPS_PROXY', {}, true],
  ['https_proxy', {}, true],
  ['HTTP_PROXY', {}, true],
  ['HTTPS_PROXY', { NO_PROXY: 'example.org' }, true],
  ['HTTPS_PROXY', { NO_PROXY: '.example.com' }, false],
])('the proxy of %s, with %j, for a provider over HTTPS: asked is %s', async (name, env, isAsked) => {
  const provider = await startFakeProvider()
  closeAfterTest(() => provider.close())
  provider.respond(() => text('Hello.'))
  const proxy = await startProxy(await startEncrypted(provider))
  const server = await startTestServer({
    agencies: soloAgency(),
    env: { NODE_USE_ENV_PROXY: '1', OPENAI_BASE_URL: 'https://files.example.com/v1', [name]: proxy.url, ...env },
  })

  const { body } = await server.post('/solo/get_response', { message: 'hi' })

  expect(body.response).toBe(isAsked ? 'Hello.' : undefined)
  expect(proxy.asked).toEqual(isAsked ? ['files.example.com:443'] : [])
})

test('an address that a caller names is connected to and checked here', async () => {
  const proxy = await startProxy()
  const named = await startFakeProvider()
  closeAfterTest(() => named.close())
  named.respond(() => text('Named.'))
  const env = { NODE_USE_ENV_PROXY: '1', HTTP_PROXY: proxy.url, HTTPS_PROXY: proxy.url }
  const server = await startTestServer({
    agencies: soloAgency(),
    env: { ...env, BUREAU_ALLOWED_HOSTS: new URL(named.baseUrl).host },
  })
  const config = { base_url: named.baseUrl, api_key: 'sk-callers' }

  const { body } = await server.post('/solo/get_response', { message: 'hi', client_config: config })

  expect([body.response, proxy.asked]).toEqual(['Named.', []])
})
