import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createSocketServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterEach, describe, expect, test } from 'vitest'
import { createEgressPolicy } from './address-policy.ts'
import { ByteBudget } from './byte-budget.ts'
import type { EgressError } from './egress-error.ts'
import { GuardedDispatcher } from './guarded-dispatcher.ts'
import { safeFetch, type SafeFetchOptions } from './safe-fetch.ts'

const cleanUp: (() => unknown)[] = []
afterEach(async () => {
  await Promise.all(cleanUp.splice(0).map((task) => task()))
})

async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  cleanUp.push(() => server.close())
  return `http://files.example.com:${(server.address() as AddressInfo).port}`
}

const serve = (listener: RequestListener): Promise<string> => listen(createServer(listener))

/** A peer that speaks no proper HTTP: `answer` gets the socket once the request head has arrived. */
function serveRaw(answer: (socket: Socket) => void): Promise<string> {
  return listen(
    createSocketServer((socket) => {
      cleanUp.push(() => socket.destroy())
      socket.on('error', () => {}).once('data', () => answer(socket))
    }),
  )
}

/** `files.example.com` is the only peer on this machine that may be reached. */
function limits(changes: Partial<SafeFetchOptions> = {}): SafeFetchOptions {
  const dispatcher = new GuardedDispatcher({
    policy: createEgressPolicy({ allow: ['files.example.com'] }),
    resolve: async () => [{ address: '127.0.0.1', family: 4 }],
  })
  cleanUp.push(() => dispatcher.destroy())
  return { dispatcher, schemes: ['http', 'https'], maxBytes: 1024 * 1024, ...changes }
}

async function failureOf(promise: Promise<unknown>): Promise<{ reason: string; message: string; status?: number }> {
  const error = (await promise.then(
    () => expect.unreachable('the download succeeded'),
    (thrown: unknown) => thrown,
  )) as EgressError
  const { reason, message, status } = error
  return { reason, message, ...(status !== undefined && { status }) }
}

describe('safeFetch', () => {
  test('returns the bytes, asked for uncompressed', async () => {
    const bytes = randomBytes(200_000)
    const url = await serve((request, response) => {
      expect(request.headers).toMatchObject({ 'accept-encoding': 'identity', 'user-agent': 'Bureau' })
      response.writeHead(200, { 'content-type': 'application/pdf' }).end(bytes)
    })

    expect(Buffer.from(await safeFetch(`${url}/a.pdf?key=1`, limits())).equals(bytes)).toBe(true)
  })

  test.each<[string, number, Record<string, string>]>([
    ['a redirect', 302, { location: '/end' }],
    ['a failure', 500, {}],
    ['something compressed', 200, { 'content-encoding': 'gzip' }],
    ['something too large', 200, { 'content-length': '2000000' }],
  ])('keeps no connection to a peer that sends %s without an end', async (_what, status, headers) => {
    const closed = Promise.withResolvers<void>()
    const url = await serve((request, response) => {
      if (request.url === '/end') return void response.end('ok')
      response.on('close', closed.resolve).writeHead(status, headers).write('never ends')
    })

    await safeFetch(`${url}/`, limits()).catch(() => {})

    await expect(closed.promise).resolves.toBeUndefined()
  })

  test.each(['http://127.0.0.1/', 'http://[::1]/', 'http://localhost/', 'http://u:p@files.example.com/'])(
    'blocks %s without asking anybody',
    async (url) => expect(await failureOf(safeFetch(url, limits()))).toMatchObject({ reason: 'blocked' }),
  )

  test('blocks a name that resolves to a private address', async () => {
    const failure = await failureOf(safeFetch('http://other.example.com/', limits()))
    expect(failure).toMatchObject({ reason: 'blocked' })
    expect(failure.message).not.toContain('127')
  })

  test.each(['file:///etc/passwd', 'ftp://files.example.com/', 'data:text/plain,x'])('refuses %s', async (url) => {
    expect(await failureOf(safeFetch(url, limits()))).toMatchObject({ reason: 'unsupported_scheme' })
  })

  test.each([201, 204, 206, 400, 404, 500])('status %i is a failure', async (status) => {
    const url = await serve((_request, response) => response.writeHead(status).end())
    expect(await failureOf(safeFetch(url, limits()))).toMatchObject({ reason: 'failed', status })
  })

  test('a closed port fails without a word about the network', async () => {
    const failure = await failureOf(safeFetch('http://files.example.com:1/', limits()))
    expect(failure).toEqual({ reason: 'failed', message: 'The download failed.' })
  })

  describe('redirects', () => {
    /** `/3` redirects to `/2`, and so on; `/0` is the file. */
    const countdown: RequestListener = ({ url = '' }, response) => {
      const left = Number(url.slice(1))
      if (left === 0) response.end('the file')
      else response.writeHead(302, { location: `/${left - 1}` }).end('moved')
    }

    test('three are followed', async () => {
      const url = await serve(countdown)
      expect(String(await safeFetch(`${url}/3`, limits()))).toBe('the file')
    })

    test.each([
      ['four', '/4', {}],
      ['one, where none is allowed', '/1', { maxRedirects: 0 }],
    ])('%s are not', async (_count, path, changes) => {
      const url = await serve(countdown)
      expect(await failureOf(safeFetch(url + path, limits(changes)))).toMatchObject({ reason: 'failed', status: 302 })
    })

    test('a loop ends', async () => {
      const url = await serve((_request, response) => response.writeHead(301, { location: '/' }).end())
      expect(await failureOf(safeFetch(url, limits()))).toMatchObject({ reason: 'failed', status: 301 })
    })

    test.each([
      'http://127.0.0.1/',
      'http://2130706433/',
      'http://[::ffff:7f00:1]/',
      'http://169.254.169.254/latest/meta-data/',
      'http://localhost:6379/',
      'http://rebound.example.com/',
      'http://user:secret@files.example.com/',
      'file:///etc/passwd',
      '//10.0.0.1/',
    ])('to %s are blocked', async (location) => {
      const url = await serve((_request, response) => response.writeHead(302, { location }).end())
      expect(await failureOf(safeFetch(url, limits()))).toMatchObject({ reason: 'blocked' })
    })

    test('to a scheme that is not allowed are blocked', async () => {
      const url = await serve((_request, response) => response.writeHead(302, { location: 'https://a.example/' }).end())
      expect(await failureOf(safeFetch(url, limits({ schemes: ['http'] })))).toMatchObject({ reason: 'blocked' })
    })

    test.each([{}, { location: 'http://[' }])('with the headers %j fail', async (headers) => {
      const url = await serve((_request, response) => response.writeHead(302, headers).end())
      expect(await failureOf(safeFetch(url, limits()))).toMatchObject({ reason: 'failed' })
    })
  })

  describe('size', () => {
    test('exactly the limit passes, one byte more does not', async () => {
      const url = await serve((_request, response) => response.end('x'.repeat(1000)))
      expect(await safeFetch(url, limits({ maxBytes: 1000 }))).toHaveLength(1000)
      expect(await failureOf(safeFetch(url, limits({ maxBytes: 999 })))).toMatchObject({ reason: 'too_large' })
    })

    test('a body without end is cut off and its connection closed', async () => {
      const closed = Promise.withResolvers<void>()
      const url = await serve((_request, response) => {
        response.on('close', () => closed.resolve())
        const pump = (): void => {
          while (response.write(Buffer.alloc(64 * 1024)));
          response.once('drain', pump)
        }
        pump()
      })
      expect(await failureOf(safeFetch(url, limits({ maxBytes: 300_000 })))).toMatchObject({ reason: 'too_large' })
      await expect(closed.promise).resolves.toBeUndefined()
    })

    test('a declared size is refused before the body is read', async () => {
      const url = await serveRaw((socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9999999999\r\n\r\n'))
      expect(await failureOf(safeFetch(url, limits()))).toMatchObject({ reason: 'too_large' })
    })

    test('a budget is shared by all downloads that use it', async () => {
      const url = await serve((_request, response) => response.end('x'.repeat(600)))
      const budget = new ByteBudget(1000)
      await safeFetch(url, limits({ budget }))
      expect(await failureOf(safeFetch(url, limits({ budget })))).toMatchObject({ reason: 'too_large' })
    })
  })

  describe('broken and hostile bodies', () => {
    const bomb = gzipSync(Buffer.alloc(10_000_000))

    test.each([
      { 'content-encoding': 'gzip' },
      { 'content-encoding': 'br, gzip' },
      { 'transfer-encoding': 'gzip, chunked' },
    ])('a body with %j is refused', async (headers) => {
      const url = await serve((_request, response) => response.writeHead(200, headers).end(bomb))
      expect(await failureOf(safeFetch(url, limits()))).toMatchObject({ reason: 'failed' })
    })

    test.each([
      ['fewer bytes than declared', 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort'],
      ['a cut chunk', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n40\r\nshort'],
      ['no HTTP at all', '220 mail.example.com ESMTP\r\n'],
      ['two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!'],
      ['an endless head', `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(100_000)}`],
    ])('%s is a failure', async (_what, answer) => {
      const url = await serveRaw((socket) => socket.end(answer))
      expect(await failureOf(safeFetch(url, limits()))).toMatchObject({ reason: 'failed' })
    })

    test('more bytes than declared are ignored', async () => {
      const url = await serveRaw((socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello and more'))
      expect(String(await safeFetch(url, limits()))).toBe('hello')
    })
  })

  describe('time', () => {
    test('a silent peer runs into the limit for the head', async () => {
      const url = await serveRaw(() => {})
      expect(await failureOf(safeFetch(url, limits({ headersTimeoutMs: 20 })))).toMatchObject({ reason: 'timeout' })
    })

    test('a head that trickles in runs into the total limit', async () => {
      const url = await serveRaw((socket) => {
        socket.write('HTTP/1.1 200 OK\r\n')
        const trickle = setInterval(() => socket.write('x'), 5)
        socket.on('close', () => clearInterval(trickle))
      })
      expect(await failureOf(safeFetch(url, limits({ totalTimeoutMs: 60 })))).toMatchObject({ reason: 'timeout' })
    })

    test('a body that trickles in runs into the total limit', async () => {
      const url = await serve((_request, response) => {
        const trickle = setInterval(() => response.write('x'), 5)
        response.on('close', () => clearInterval(trickle))
      })
      const failure = await failureOf(safeFetch(url, limits({ totalTimeoutMs: 60 })))
      expect(failure).toMatchObject({ reason: 'timeout', message: 'The download took too long.' })
    })

    test('a body below the lowest rate is given up early', async () => {
      const url = await serve((_request, response) => {
        response.write('x')
      })
      const failure = await failureOf(safeFetch(url, limits({ minRateAfterMs: 20 })))
      expect(failure).toMatchObject({ reason: 'timeout', message: 'The download was too slow.' })
    })

    test('a name server that never answers is a timeout', async () => {
      const policy = createEgressPolicy()
      const dispatcher = new GuardedDispatcher({ policy, connectTimeoutMs: 20, resolve: () => new Promise(() => {}) })
      cleanUp.push(() => dispatcher.destroy())
      const failure = await failureOf(safeFetch('https://a.example.com/', limits({ dispatcher })))
      expect(failure).toMatchObject({ reason: 'timeout' })
    })

    test('an abort throws its own reason', async () => {
      const abort = new AbortController()
      const url = await serve((_request, response) => {
        response.write('x')
        abort.abort(new Error('the user left'))
      })
      await expect(safeFetch(url, limits({ signal: abort.signal }))).rejects.toThrow('the user left')
    })
  })
})
