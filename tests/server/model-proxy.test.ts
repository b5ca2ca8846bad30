import { once } from 'node:events'
import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { startFakeProvider, text } from '../support/fake-provider.ts'
import { closeAfterTest, soloAgency, startTestServer } from '../support/test-server.ts'

/** A proxy of a company, and the hosts that it was asked for. */
async function startProxy(): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = []
  const server = createServer((request, response) => {
    const url = new URL(request.url!)
    const { method = '', headers } = request
    asked.push(url.host)
    const onwards = httpRequest(url, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(response)
    })
    request.pipe(onwards)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closeAfterTest(async () => server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
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
