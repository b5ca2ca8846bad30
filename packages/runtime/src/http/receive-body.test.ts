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
  const bodies = new BodyReceiver({ callerOf: ({ headers }) => String(headers['x-caller']), ...limits })
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

test('all callers together are bounded, and what has arrived makes room', async () => {
  const server = await serve({ maxBytes: 500, maxBytesOfCaller: 400 })
  const slow = [await server.begin('a', 400, 'x'.repeat(300)), await server.begin('b', 100, 'x'.repeat(99))]

  expect(await server.send('c', 'y'.repeat(200))).toEqual({ status: 503, body: 'overloaded', retryAfter: '1' })
  slow[0]!.write('x'.repeat(100))
  await expect.poll(() => server.send('c', 'y'.repeat(200))).toMatchObject(ok('200'))
  expect(await server.send('a', 'y'.repeat(399))).toMatchObject(ok('399'))
})

test('a body that does not go on is cut with 408', async () => {
  const server = await serve({ windowMs: 20, minBytes: 10 })
  const slow = await server.begin('a', 1_000, 'x')
  let answer = ''
  slow.on('data', (chunk: Buffer) => (answer += chunk.toString()))
  await new Promise((resolve) => slow.once('close', resolve))

  expect(answer).toMatch(/^HTTP\/1\.1 408 .*body_too_slow$/s)
})
