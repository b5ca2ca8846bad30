import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { fetch, request } from 'undici'
import { afterEach, describe, expect, test } from 'vitest'
import { createEgressPolicy, type EgressPolicyOptions } from './address-policy.ts'
import { EgressError } from './egress-error.ts'
import { GuardedDispatcher, type GuardedDispatcherOptions, type ResolvedAddress } from './guarded-dispatcher.ts'

const LOOPBACK: ResolvedAddress = { address: '127.0.0.1', family: 4 }
const PUBLIC: ResolvedAddress = { address: '93.184.216.34', family: 4 }

const open: { close(): unknown }[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((thing) => thing.close()))
})

async function serve(listener: RequestListener, server: Server = createServer()) {
  server.on('request', listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  open.push(server)
  const seen = { port: (server.address() as AddressInfo).port, connections: 0 }
  server.on('connection', () => seen.connections++)
  return seen
}

type Changes = Omit<Partial<GuardedDispatcherOptions>, 'policy'> & EgressPolicyOptions

function guarded({ allow, deny, ...options }: Changes = {}): GuardedDispatcher {
  const policy = createEgressPolicy({ ...(allow && { allow }), ...(deny && { deny }) })
  const dispatcher = new GuardedDispatcher({ policy, ...options })
  open.push({ close: () => dispatcher.destroy() })
  return dispatcher
}

const blocked = expect.objectContaining({ name: 'EgressError', reason: 'blocked' })

describe('GuardedDispatcher', () => {
  test.each([
    '127.0.0.1',
    '2130706433',
    '0x7f.1',
    '0177.0.0.1',
    '127.1',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '[64:ff9b::7f00:1]',
  ])('never connects to the literal %s', async (host) => {
    const server = await serve((_request, response) => response.end('secret'))
    await expect(request(`http://${host}:${server.port}/`, { dispatcher: guarded() })).rejects.toEqual(blocked)
    expect(server.connections).toBe(0)
  })

  test('never connects to localhost, as the system resolves it', async () => {
    const server = await serve((_request, response) => response.end('secret'))
    await expect(request(`http://localhost:${server.port}/`, { dispatcher: guarded() })).rejects.toEqual(blocked)
    expect(server.connections).toBe(0)
  })

  test.each([
    ['a private address', [LOOPBACK]],
    ['a public and a private address', [PUBLIC, LOOPBACK]],
    ['the metadata service', [{ address: '169.254.169.254', family: 4 }]],
    ['a mapped address', [{ address: '::ffff:127.0.0.1', family: 6 }]],
  ])('refuses a name that resolves to %s', async (_what, addresses) => {
    const server = await serve((_request, response) => response.end('secret'))
    const dispatcher = guarded({ resolve: async () => addresses })
    const refusal = request(`http://files.example.com:${server.port}/`, { dispatcher })
    await expect(refusal).rejects.toEqual(blocked)
    expect(server.connections).toBe(0)
  })

  test('keeps resolved addresses out of the message', async () => {
    const dispatcher = guarded({ resolve: async () => [{ address: '10.11.12.13', family: 4 }] })
    const error = await request('http://files.example.com/', { dispatcher }).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(EgressError)
    expect((error as EgressError).message).not.toContain('10.11.12.13')
    expect((error as EgressError).detail).toContain('10.11.12.13')
  })

  // A name server that answers differently the second time gains nothing, because there is no second time.
  test('resolves once per connection and connects to that address', async () => {
    const server = await serve((_request, response) => response.end('hello'))
    const answers = [[LOOPBACK], [PUBLIC]]
    const asked: string[] = []
    const resolve = async (host: string): Promise<ResolvedAddress[]> => {
      asked.push(host)
      return answers.shift() ?? []
    }
    const dispatcher = guarded({ allow: ['127.0.0.1'], resolve })

    const response = await request(`http://files.example.com:${server.port}/`, { dispatcher })

    expect(await response.body.text()).toBe('hello')
    expect(asked).toEqual(['files.example.com'])
    expect(server.connections).toBe(1)
  })

  test('an exception holds for its port only', async () => {
    const server = await serve((_request, response) => response.end('hello'))
    const other = await serve((_request, response) => response.end('secret'))
    const dispatcher = guarded({ allow: [`127.0.0.1:${server.port}`] })

    const response = await request(`http://127.0.0.1:${server.port}/`, { dispatcher })
    expect(await response.body.text()).toBe('hello')
    await expect(request(`http://127.0.0.1:${other.port}/`, { dispatcher })).rejects.toEqual(blocked)
  })

  test('a denied block wins over an exception for the name', async () => {
    const server = await serve((_request, response) => response.end('secret'))
    const dispatcher = guarded({ allow: ['files.example.com'], deny: ['127.0.0.0/8'], resolve: async () => [LOOPBACK] })
    await expect(request(`http://files.example.com:${server.port}/`, { dispatcher })).rejects.toEqual(blocked)
    expect(server.connections).toBe(0)
  })

  test('a redirect that fetch follows is guarded as well', async () => {
    const secret = await serve((_request, response) => response.end('secret'))
    const server = await serve((_request, response) => {
      response.writeHead(302, { location: `http://127.0.0.1:${secret.port}/` }).end()
    })
    const dispatcher = guarded({ allow: ['files.example.com'], resolve: async () => [LOOPBACK] })
    const refusal = fetch(`http://files.example.com:${server.port}/`, { dispatcher })
    await expect(refusal).rejects.toMatchObject({ cause: blocked })
    expect(secret.connections).toBe(0)
  })

  test('streams: what the peer has written arrives before the response ends', async () => {
    let finish = (): void => {}
    const server = await serve((_request, response) => {
      response.write('data: 1\n\n')
      finish = () => response.end('data: 2\n\n')
    })
    const { body } = await request(`http://127.0.0.1:${server.port}/`, {
      dispatcher: guarded({ allow: ['127.0.0.1'] }),
    })
    const received: string[] = []
    for await (const chunk of body) {
      received.push(String(chunk))
      finish()
    }
    expect(received).toEqual(['data: 1\n\n', 'data: 2\n\n'])
  })

  test('over TLS the certificate must be for the name, although the connection goes to an address', async () => {
    const pem = await readFile(new URL('__fixtures__/files.example.com.pem', import.meta.url), 'utf8')
    const tlsServer = createTlsServer({ key: pem, cert: pem })
    const server = await serve((_request, response) => response.end('hello'), tlsServer)
    const dispatcher = guarded({ allow: ['127.0.0.1'], resolve: async () => [LOOPBACK], ca: pem })

    const response = await request(`https://files.example.com:${server.port}/`, { dispatcher })
    expect(await response.body.text()).toBe('hello')
    const wrongName = request(`https://other.example.com:${server.port}/`, { dispatcher })
    await expect(wrongName).rejects.toMatchObject({ code: 'ERR_TLS_CERT_ALTNAME_INVALID' })
  })

  test('the connect limit covers a name server that never answers', async () => {
    const dispatcher = guarded({ connectTimeoutMs: 20, resolve: () => new Promise(() => {}) })
    const attempt = request('http://files.example.com/', { dispatcher })
    await expect(attempt).rejects.toMatchObject({ code: 'UND_ERR_CONNECT_TIMEOUT' })
  })

  test('a name without any address fails', async () => {
    const dispatcher = guarded({ resolve: async () => [] })
    await expect(request('http://files.example.com/', { dispatcher })).rejects.toMatchObject({ reason: 'failed' })
  })
})
