import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { MCPServerOAuth, type MCPServerOAuthOptions, settingsOf } from '@bureau/framework'
import { afterEach, expect, test } from 'vitest'
import type { EgressPolicyOptions } from '../egress/address-policy.ts'
import { guardedFetch } from './guarded-fetch.ts'

const opened: (() => unknown)[] = []
afterEach(async () => {
  await Promise.all(opened.splice(0).map((close) => close()))
})

/** A server on loopback; the origin at which it answers `hello`, and how often somebody has connected. */
async function serve(): Promise<{ origin: string; port: number; connections: number }> {
  const server = createServer((_request, response) => response.end('hello')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  opened.push(
    () => server.close(),
    () => server.closeAllConnections(),
  )
  const { port } = server.address() as AddressInfo
  const seen = { origin: `http://127.0.0.1:${port}`, port, connections: 0 }
  server.on('connection', () => seen.connections++)
  return seen
}

type Declared = Pick<MCPServerOAuthOptions, 'url' | 'authServerUrl'>

/** Requests on behalf of a declared server, in a network whose names all lead to loopback. */
function fetchFor(declared: Declared, egress: EgressPolicyOptions = {}): (url: string) => Promise<Response> {
  const guarded = guardedFetch(egress, { resolve: async () => [{ address: '127.0.0.1', family: 4 }] })
  opened.push(guarded.close)
  const settings = settingsOf(new MCPServerOAuth({ name: 'notes', ...declared }), () => undefined)
  return guarded.fetchFor(settings)
}

const refused = (reason: string): unknown =>
  expect.objectContaining({ name: 'TypeError', cause: expect.objectContaining({ name: 'EgressError', reason }) })

test.each(['127.0.0.1', 'localhost', 'notes', 'notes.internal'])(
  'a server declared at the private host %s is reached at its port, and at no other',
  async (host) => {
    const [declared, neighbour] = [await serve(), await serve()]
    const fetch = fetchFor({ url: `http://${host}:${declared.port}/mcp` })

    expect(await (await fetch(`http://${host}:${declared.port}/anything`)).text()).toBe('hello')
    await expect(fetch(`http://${host}:${neighbour.port}/`)).rejects.toEqual(refused('unsupported_scheme'))
    await expect(fetch(`https://${host}:${neighbour.port}/`)).rejects.toEqual(refused('blocked'))
    expect(neighbour.connections).toBe(0)
  },
)

test('a declared name that looks public does not lead to a private address', async () => {
  const server = await serve()
  const url = `http://notes.example.com:${server.port}/mcp`
  await expect(fetchFor({ url })(url)).rejects.toEqual(refused('blocked'))
  expect(server.connections).toBe(0)

  const allowed = fetchFor({ url }, { allow: [`notes.example.com:${server.port}`] })
  expect((await allowed(url)).status).toBe(200)
})

test('addresses that a server names are https and public, whatever host the server itself has', async () => {
  const [declared, other] = [await serve(), await serve()]
  const fetch = fetchFor({ url: `${declared.origin}/mcp` })
  await expect(fetch(`http://login.example.com:${other.port}/`)).rejects.toEqual(refused('unsupported_scheme'))
  await expect(fetch(`https://login.example.com:${other.port}/`)).rejects.toEqual(refused('blocked'))
  await expect(fetch(`${other.origin}/`)).rejects.toEqual(refused('unsupported_scheme'))
  expect(other.connections).toBe(0)
})

test('the declared authorization server and the list of the operator are exceptions; a denial wins over both', async () => {
  const [server, login] = [await serve(), await serve()]
  const declared = { url: `${server.origin}/mcp`, authServerUrl: login.origin }
  expect((await fetchFor(declared)(login.origin)).status).toBe(200)

  const found = fetchFor({ url: declared.url }, { allow: [`127.0.0.1:${login.port}`] })
  expect((await found(login.origin)).status).toBe(200)

  await expect(fetchFor(declared, { deny: ['127.0.0.0/8'] })(login.origin)).rejects.toEqual(refused('blocked'))
})

test('a server does not inherit the exceptions of another one', async () => {
  const [mine, others] = [await serve(), await serve()]
  const guarded = guardedFetch({})
  opened.push(guarded.close)
  const [mineOnly, othersOnly] = [mine, others].map(({ origin }) =>
    guarded.fetchFor(settingsOf(new MCPServerOAuth({ name: 'notes', url: origin }), () => undefined)),
  )
  expect((await othersOnly!(others.origin)).status).toBe(200)
  await expect(mineOnly!(others.origin)).rejects.toThrow(/https addresses only.*BUREAU_ALLOWED_HOSTS/)
})

test('a redirect to an address that is not allowed is refused', async () => {
  const secret = await serve()
  const server = createServer((_request, response) => response.writeHead(302, { location: secret.origin }).end())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  opened.push(
    () => server.close(),
    () => server.closeAllConnections(),
  )
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  await expect(fetchFor({ url: origin })(origin)).rejects.toEqual(refused('unsupported_scheme'))
  expect(secret.connections).toBe(0)
})
