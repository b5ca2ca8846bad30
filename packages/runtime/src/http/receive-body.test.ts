import { connect, type Socket } from 'node:net'
import type { AddressInfo } from 'node:net'
import { ServiceError } from '@bureau/protocol'
import fastify, { type FastifyRequest } from 'fastify'
import type { Readable } from 'node:stream'
import { expect, onTestFinished, test } from 'vitest'
import { type BodyLimits, BodyReceiver } from './receive-body.ts'

type Sent = { readonly status: number; readonly body: string; readonly retryAfter: string | null }

/** A server that answers with the length of a body, for callers who say who they are. */
async function serve(limits: BodyLimits, bodyLimit = 1_000) {
  const app = fastify({ bodyLimit })
  onTestFinished(async () => {
    app.server.closeAllConnections()
    await app.close()
  })
  /** `a/b` is b, who acts for a. */
  const callersOf = ({ headers }: FastifyRequest): string[] => {
    const [first = '', second] = String(headers['x-caller']).split('/')
    return second === undefined ? [first] : [first, `${first}/${second}`]
  }
  const bodies = new BodyReceiver({ callersOf, ...limits })
  const arrivals: (() => void)[] = []
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (request: FastifyRequest, payload: Readable) => {
    payload.on('data', () => arrivals.splice(0).forEach((tell) => tell()))
    return bodies.receive(request, payload)
  })
  app.setErrorHandler((error: Error & { statusCode?: number }, _request, reply) => {
    const refused = error instanceof ServiceError
    if (refused) reply.headers(error.headers)
    return reply.code(refused ? error.status : (error.statusCode ?? 500)).send(refused ? error.code : 'error')
  })
  app.post('/', async ({ body }) => String((body as Buffer).length))
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  return {
    send: async (caller: string, body: string): Promise<Sent> => {
      const headers = { 'x-caller': caller, 'content-type': 'text/x' }
      const answer = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body, headers })
      return { status: answer.status, body: await answer.text(), retryAfter: answer.headers.get('retry-after') }
    },
    /** Sends a body that is chunked already. */
    sendRaw: (chunks: string): Promise<string> => {
      const socket = connect(port, '127.0.0.1')
      socket.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/x\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`)
      return new Promise((resolve) => socket.once('data', (chunk: Buffer) => resolve(chunk.toString())))
    },
    /** Begins a body of this length, and sends the first bytes of it; resolves when they have arrived. */
    begin: async (caller: string, length: number, first: string): Promise<Socket> => {
      const arrived = new Promise<void>((resolve) => arrivals.push(resolve))
      const socket = connect(port, '127.0.0.1')
      const head = [
        'POST / HTTP/1.1',
        'Host: x',
        `X-Caller: ${caller}`,
        'Content-Type: text/x',
        `Content-Length: ${length}`,
      ]
      socket.write(`${head.join('\r\n')}\r\n\r\n${first}`)
      await arrived
      return socket
    },
  }
}

const ok = (body: string): object => ({ status: 200, body })

test('bodies that are only announced take nothing from anybody', async () => {
  const server = await serve({ maxBytes: 1_000 })
  for (let n = 0; n < 17; n++) await server.begin('a', 1_000, 'x')

  expect(await server.send('b', 'y'.repeat(200))).toMatchObject(ok('200'))
  expect(await server.send('a', 'y'.repeat(200))).toMatchObject(ok('200'))
})

test('one caller fills a share of its own, whatever it announces, and gets it back when its requests break off', async () => {
  const server = await serve({ maxBytes: 1_000, maxBytesOfCaller: 250 })
  const slow = await server.begin('a', 1_000, 'x'.repeat(200))

  expect(await server.send('a', 'y'.repeat(100))).toEqual({ status: 429, body: 'rate_limited', retryAfter: '1' })
  expect(await server.send('b', 'y'.repeat(100))).toMatchObject(ok('100'))
  slow.destroy()
  await expect.poll(() => server.send('a', 'y'.repeat(100))).toMatchObject(ok('100'))
})

test('who acts for a caller fills a quarter of its share, and leaves the rest to it and to others', async () => {
  const server = await serve({ maxBytes: 1_600, maxBytesOfCaller: 400 })
  const slow = await server.begin('a/page', 1_000, 'x'.repeat(90))

  expect(await server.send('a/page', 'y'.repeat(20))).toMatchObject({ status: 429, body: 'rate_limited' })
  expect(await server.send('a/other', 'y'.repeat(100))).toMatchObject(ok('100'))
  expect(await server.send('a', 'y'.repeat(310))).toMatchObject(ok('310'))
  expect(await server.send('a', 'y'.repeat(320))).toMatchObject({ status: 429, body: 'rate_limited' })
  slow.destroy()
  await expect.poll(() => server.send('a/page', 'y'.repeat(100))).toMatchObject(ok('100'))
})

test('all callers together are bounded, and what has arrived makes room', async () => {
  const server = await serve({ maxBytes: 500, maxBytesOfCaller: 400 })
  const slow = [await server.begin('a', 400, 'x'.repeat(300)), await server.begin('b', 100, 'x'.repeat(99))]

  expect(await server.send('c', 'y'.repeat(200))).toEqual({ status: 503, body: 'overloaded', retryAfter: '1' })
  slow[0]!.write('x'.repeat(100))
  await expect.poll(() => server.send('c', 'y'.repeat(200))).toMatchObject(ok('200'))
  expect(await server.send('a', 'y'.repeat(399))).toMatchObject(ok('399'))
})

/** A server that reads bodies piece by piece, each after `wait`, and answers with what came or why it did not. */
async function serveStreams(limits: BodyLimits, wait: () => Promise<unknown> = async () => {}) {
  const app = fastify()
  const bodies = new BodyReceiver(limits)
  onTestFinished(async () => {
    app.server.closeAllConnections()
    await app.close()
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, payload: Readable, done) => done(null, bodies.passOn(payload)))
  app.post('/', async ({ body }, reply) => {
    let length = 0
    try {
      for await (const piece of body as AsyncIterable<Buffer>) {
        length += piece.length
        await wait()
      }
      return { length }
    } catch (error) {
      return reply.code(408).send({ length, code: (error as ServiceError).code })
    }
  })
  app.post('/unread', async () => 'unread')
  await app.listen({ host: '127.0.0.1', port: 0 })
  return (app.server.address() as AddressInfo).port
}

function beginStream(port: number, path: string, first: string): { socket: Socket; answered: Promise<string> } {
  const socket = connect(port, '127.0.0.1')
  socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: text/x\r\nContent-Length: 100000\r\n\r\n${first}`)
  const answered = new Promise<string>((resolve) => socket.once('data', (chunk: Buffer) => resolve(chunk.toString())))
  return { socket, answered }
}

test('a streamed body that does not go on is cut with 408, and what came of it was read', async () => {
  const port = await serveStreams({ windowMs: 20, minBytes: 10 })

  const { answered } = beginStream(port, '/', 'x'.repeat(50))

  expect(await answered).toMatch(/^HTTP\/1\.1 408 .*{"length":50,"code":"body_too_slow"}$/s)
})

test('a streamed body that waits for its reader is not late', async () => {
  const port = await serveStreams({ windowMs: 20, minBytes: 10 }, () => new Promise((done) => setTimeout(done, 70)))
  const length = 400_000

  const answer = await fetch(`http://127.0.0.1:${port}/`, {
    method: 'POST',
    headers: { 'content-type': 'text/x' },
    body: 'x'.repeat(length),
  })

  expect(await answer.json()).toEqual({ length })
})

test('a streamed body that nobody reads harms nobody, whether it goes on or breaks off', async () => {
  const port = await serveStreams({ windowMs: 20, minBytes: 10 })
  const { socket, answered } = beginStream(port, '/unread', 'x')

  expect(await answered).toMatch(/^HTTP\/1\.1 200 .*unread$/s)
  const second = new Promise<string>((resolve) => socket.once('data', (chunk: Buffer) => resolve(chunk.toString())))
  socket.write(`${'x'.repeat(99_999)}POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`)
  expect(await second).toMatch(/^HTTP\/1\.1 200 .*unread$/s)
  socket.destroy()
  expect(await (await fetch(`http://127.0.0.1:${port}/unread`, { method: 'POST' })).text()).toBe('unread')
})

test('a body in more than 200,000 pieces is refused with 413, however short it is', async () => {
  const server = await serve({ minBytes: 0 }, 1_000_000)
  const sendPieces = (count: number): Promise<string> => server.sendRaw(`${'1\r\nx\r\n'.repeat(count)}0\r\n\r\n`)

  expect(await sendPieces(200_000)).toMatch(/^HTTP\/1\.1 200 .*200000$/s)
  expect(await sendPieces(200_001)).toMatch(/^HTTP\/1\.1 413 .*body_too_large$/s)
})

test('a body that does not go on is cut with 408', async () => {
  const server = await serve({ windowMs: 20, minBytes: 10 })
  const slow = await server.begin('a', 1_000, 'x')
  let answer = ''
  slow.on('data', (chunk: Buffer) => (answer += chunk.toString()))
  await new Promise((resolve) => slow.once('close', resolve))

  expect(answer).toMatch(/^HTTP\/1\.1 408 .*body_too_slow$/s)
})
