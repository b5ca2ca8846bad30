import { once } from 'node:events'
import { createServer as createHttpServer, type ServerResponse } from 'node:http'
import { createServer as createHttp2Server } from 'node:http2'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { Agent, Client } from 'undici'
import { afterEach, expect, test } from 'vitest'
import { startHttpServer } from '../../../../tests/support/http-server.ts'
import { type AnswerReader, postStream, type StreamingPost } from './post-stream.ts'
import { ModelError } from './model-error.ts'

const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
const END = '0\r\n\r\n'

const closing: (() => unknown)[] = []

afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

/** A provider that answers every request with these bytes in one packet, and says how often it was asked. */
async function startProvider(
  answer: string | Buffer,
  { cut = false } = {},
): Promise<{ url: URL; asked: () => number }> {
  let asked = 0
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => socket.destroy())
    socket.on('data', () => {
      asked++
      if (cut) socket.end(answer)
      else socket.write(answer)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closing.push(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/responses`), asked: () => asked }
}

type PostOptions = { readonly signal?: AbortSignal; readonly ended?: boolean }

function post(
  url: URL,
  onText: AnswerReader['push'],
  { signal = new AbortController().signal, ended = true }: PostOptions = {},
): Promise<void> {
  const dispatcher = new Agent()
  closing.push(() => dispatcher.destroy())
  return postStream({
    dispatcher,
    url,
    headers: {},
    body: '{}',
    signal,
    reader: { ended, push: onText, end: () => {} },
  })
}

const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`

test('chunks that arrive together are handed on together, and a character that is cut in two stays whole', async () => {
  const [first, second] = [Buffer.from('a: ä\n').subarray(0, 4), Buffer.from('a: ä\n').subarray(4)]
  const parts = [first, second].map((part) => `${part.length.toString(16)}\r\n${part.toString('latin1')}\r\n`)
  const { url } = await startProvider(Buffer.from(HEAD + parts.join('') + END, 'latin1'))
  const texts: string[] = []

  await post(url, (text) => void texts.push(text))

  expect(texts).toEqual(['a: ä\n'])
})

test.each([
  ['text/event-stream; charset=utf-8', 'the stream ended too early'],
  ['text/html; charset=utf-8', 'the answer is text/html; charset=utf-8, not text/event-stream'],
])('the log says what came instead of an answer: %s without an end', async (contentType, detail) => {
  const head = `HTTP/1.1 200 OK\r\ncontent-type: ${contentType}\r\ntransfer-encoding: chunked\r\n\r\n`
  const { url } = await startProvider(`${head}${chunk('<p>Sign in.</p>')}${END}`)

  const answer = post(url, () => undefined, { ended: false })

  await expect(answer).rejects.toMatchObject({ code: 'upstream_invalid_response', detail })
})

type Reply = Pick<ServerResponse, 'write' | 'end'>
type Answer = (request: Readable, response: Reply) => Promise<void>

const overHttp1 = (answer: Answer): Server => createHttpServer((request, response) => void answer(request, response))
const overHttp2 = (answer: Answer): Server =>
  createHttp2Server((request, response) => void answer(request, response.stream as unknown as Reply))

test.each<[string, (answer: Answer) => Server, Client.Options]>([
  ['HTTP/1.1', overHttp1, {}],
  ['HTTP/2', overHttp2, { h2Options: { useH2c: true } }],
])('a long body arrives whole over %s, and is not kept while the answer comes', async (_version, start, options) => {
  const received = Promise.withResolvers<string>()
  const begun = Promise.withResolvers<Reply>()
  const server = start(async (request, response) => {
    received.resolve(await text(request))
    response.write('one')
    begun.resolve(response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const dispatcher = new Client(origin, options)
  closing.push(async () => {
    await dispatcher.destroy()
    server.close()
  })
  const body = JSON.stringify({ input: 'ä'.repeat(3_000_000) })
  const first = Promise.withResolvers<void>()
  const posting: StreamingPost = {
    dispatcher,
    url: new URL('/v1/responses', origin),
    headers: {},
    body,
    signal: new AbortController().signal,
    reader: { ended: true, push: () => first.resolve() as undefined, end: () => {} },
  }

  const done = postStream(posting)
  const response = await begun.promise
  await first.promise

  expect(posting.body).toBeUndefined()
  response.end()
  await done
  expect((await received.promise) === body).toBe(true)
})

test.each([
  [
    'at once',
    (error: Error) => () => {
      throw error
    },
  ],
  ['later', (error: Error) => () => Promise.reject(error)],
])('what the reader throws %s comes out as it is, and nothing is asked again', async (_when, failing) => {
  const { url, asked } = await startProvider(HEAD + chunk('one') + chunk('two'))
  const defect = new TypeError('a mistake of ours')

  await expect(post(url, failing(defect))).rejects.toBe(defect)
  expect(asked()).toBe(1)
})

test('the reader gets nothing after it has failed', async () => {
  const { url } = await startProvider(HEAD + chunk('one'))
  let calls = 0

  await expect(
    post(url, () => {
      calls++
      throw new Error('enough')
    }),
  ).rejects.toThrow('enough')
  expect(calls).toBe(1)
})

test('what came before a broken connection is handed on before the error', async () => {
  const { url } = await startProvider(HEAD + chunk('one'), { cut: true })
  const texts: string[] = []

  const failure = await post(url, (text) => void texts.push(text), { ended: false }).catch((error: unknown) => error)

  expect(texts).toEqual(['one'])
  expect(failure).toBeInstanceOf(ModelError)
  expect(failure).toMatchObject({ code: 'upstream_invalid_response' })
})

test.each([
  ['400 Bad Request', 'upstream_invalid_request', 1],
  ['401 Unauthorized', 'upstream_auth_failed', 1],
  ['429 Too Many Requests', 'upstream_rate_limited', 3],
  ['503 Service Unavailable', 'upstream_unavailable', 3],
])('a refusal that breaks off is what its status says: %s is %s, asked %i times', async (status, code, times) => {
  const refusal = `HTTP/1.1 ${status}\r\nretry-after: 0\r\ncontent-length: 100\r\n\r\n{"error":`
  const { url, asked } = await startProvider(refusal, { cut: true })

  const failure = await post(url, () => undefined).catch((error: unknown) => error)

  expect(failure).toMatchObject({ code, status: Number.parseInt(status), detail: '{"error":' })
  expect(asked()).toBe(times)
})

test.each([
  ['a refusal is reported', 'HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n', ['sent', 'refused', 'sent']],
  ['a connection that breaks is no refusal: it may have cost something', '', ['sent', 'sent']],
])('before a request is made again, %s', async (_, answer, expected) => {
  const { url } = await startProvider(answer, { cut: true })
  const dispatcher = new Agent()
  closing.push(() => dispatcher.destroy())
  const stop = new AbortController()
  const said: string[] = []
  const onSent = (): void => {
    said.push('sent')
    if (said.length > 1) stop.abort()
  }
  const reader: AnswerReader = { ended: false, push: () => undefined, end: () => {} }
  const about = { dispatcher, url, headers: {}, body: '{}', signal: stop.signal, reader }

  const done = postStream({ ...about, onSent, onRefused: () => void said.push('refused') })

  await expect(done).rejects.toMatchObject({ name: 'AbortError' })
  expect(said).toEqual(expected)
})

test('no more is read of a refusal than tells what it means', async () => {
  let written = 0
  const url = await startHttpServer((_request, response) => {
    response.writeHead(400)
    const pour = (): void => {
      while (!response.destroyed && response.write('x'.repeat(1_024))) written++
    }
    response.on('drain', pour)
    pour()
  })

  const failure = post(new URL(url), () => undefined)

  await expect(failure).rejects.toMatchObject({ code: 'upstream_invalid_request', status: 400 })
  expect(written).toBeLessThan(10_000)
})

test('an abort rejects with the reason of the signal, while the reader is behind too', async () => {
  const { url } = await startProvider(HEAD + chunk('one'))
  const stop = new AbortController()
  const reason = new Error('cancelled')
  const behind = Promise.withResolvers<void>()

  const done = post(
    url,
    () => {
      queueMicrotask(() => stop.abort(reason))
      return behind.promise
    },
    { signal: stop.signal },
  )

  await expect(done).rejects.toBe(reason)
})
