import { once } from 'node:events'
import { connect } from 'node:net'
import { text as textOf } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'

const RAW = {
  'what is not HTTP': 'GARBAGE\r\n\r\n',
  'headers that are too long': `GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${'x'.repeat(20_000)}\r\n\r\n`,
  'an address that cannot be read': 'GET /%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
  'a refused WebSocket':
    'GET /solo/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\n',
}

test('browsers guess no type of any answer of the self-hosted server', async () => {
  const server = await startTestServer({
    agencies: soloAgency(),
    env: { APP_TOKEN: 'right' },
    publicDocs: true,
    enableRealtime: true,
  })
  server.provider.script([text('hi')])
  const authorization = 'Bearer right'
  const preflight = { origin: 'https://app.example', 'access-control-request-method': 'POST' }
  const message = { method: 'POST', body: '{"message":"hi"}', headers: { 'content-type': 'application/json' } }
  const asked: readonly [string, RequestInit][] = [
    ['/readyz', {}],
    ['/solo/get_metadata', {}],
    ['/solo/get_metadata', { headers: { authorization } }],
    ['/nothing', { headers: { authorization } }],
    ['/solo/get_response', { method: 'PUT', headers: { authorization } }],
    ['/solo/get_response', { ...message, headers: { authorization, 'content-type': 'application/json' }, body: '{' }],
    ['/solo/get_response_stream', { ...message, headers: { ...message.headers, authorization } }],
    ['/solo/get_response_stream', { method: 'OPTIONS', headers: preflight }],
    ['/docs', {}],
    ['/docs/assets/swagger-ui.css', {}],
    ['/openapi.json', {}],
  ]

  const answers = await Promise.all(asked.map(([path, init]) => fetch(server.url + path, init)))
  const without = answers.filter(({ headers }) => headers.get('x-content-type-options') !== 'nosniff')

  expect(without.map(({ url, status }) => [url, status])).toEqual([])
  expect(answers.map(({ status }) => status)).toEqual([200, 401, 200, 404, 405, 422, 200, 200, 200, 200, 200])
  await Promise.all(answers.map((answer) => answer.text()))
})

test.each(Object.entries(RAW))('%s is refused with it too', async (_name, bytes) => {
  const server = await startTestServer({
    agencies: soloAgency(),
    env: { APP_TOKEN: 'right' },
    enableRealtime: true,
  })
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
  await once(socket, 'connect')
  socket.write(bytes)

  expect(await textOf(socket)).toMatch(/^HTTP\/1\.1 4\d\d [^]*\r\nx-content-type-options: nosniff\r\n/i)
})
