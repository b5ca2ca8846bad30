import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { createHandler, type Handler, type HandlerOptions, loadConfig } from '@bureau/server'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import { describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { startHttpServer } from '../support/http-server.ts'
import { type FakeProvider, hold, startFakeProvider, text, textDeltas } from '../support/fake-provider.ts'
import { startFirehose } from '../support/firehose.ts'
import { closeAfterTest, type Json, soloAgency, TestStream } from '../support/test-server.ts'

type Embedded = {
  readonly options?: { readonly basePath: string }
  readonly listener: (handler: Handler) => RequestListener
}

/** How each framework passes the requests below `/agents` on, as its page in the documents shows it. */
const FRAMEWORKS: Readonly<Record<string, Embedded>> = {
  'plain Node': {
    options: { basePath: '/agents' },
    listener: (handler) => handler.node,
  },
  Express: { listener: (handler) => express().use('/agents', handler.node) },
  'Express behind a body parser': {
    listener: (handler) =>
      express()
        .use(express.json({ limit: '32mb' }))
        .use('/agents', handler.node),
  },
  Fastify: {
    options: { basePath: '/agents' },
    listener: (handler) => {
      const app = fastify()
      void app.register(async (scope) => {
        scope.removeAllContentTypeParsers()
        scope.addContentTypeParser('*', (_request, _body, done) => done(null))
        scope.all('/agents/*', (request, reply) => {
          reply.hijack()
          handler.node(request.raw, reply.raw)
        })
      })
      return (request, response) => void app.ready().then(() => app.routing(request, response))
    },
  },
  Hono: {
    options: { basePath: '/agents' },
    listener: (handler) => {
      const app = new Hono()
      app.all('/agents/*', ({ req }) => handler(req.raw))
      return listenerOf(app.fetch)
    },
  },
  'mount of Hono': {
    listener: (handler) => {
      const app = new Hono()
      app.mount('/agents', handler)
      return listenerOf(app.fetch)
    },
  },
  // Next.js calls the exported function with its `Request` and the parameters of the path, and sends the `Response`.
  'a Next.js route handler': {
    options: { basePath: '/agents' },
    listener: (handler) => {
      const route = { GET: handler, POST: handler } as Readonly<
        Record<string, (...given: unknown[]) => Promise<Response>>
      >
      const context = { params: Promise.resolve({ path: ['solo'] }) }
      return listenerOf((request) => route[request.method]!(request, context))
    },
  },
}

function listenerOf(answer: (request: Request) => Response | Promise<Response>): RequestListener {
  const listener = getRequestListener(answer)
  return (request, response) => void listener(request, response)
}

async function startHandler(given: Partial<HandlerOptions> = {}, env: Record<string, string> = {}) {
  const provider = await startFakeProvider()
  closeAfterTest(() => provider.close())
  const config = loadConfig({ OPENAI_API_KEY: 'sk-server', OPENAI_BASE_URL: provider.baseUrl, ...env })
  const handler = createHandler({ agencies: soloAgency(), logLevel: 'silent', ...given }, config)
  closeAfterTest(() => handler.close())
  return { provider, handler }
}

type Served = { readonly url: string; readonly provider: FakeProvider; readonly handler: Handler }

async function serve({ options, listener }: Embedded, env?: Record<string, string>): Promise<Served> {
  const { provider, handler } = await startHandler(options, env)
  return { url: `${await startHttpServer(listener(handler))}/agents`, provider, handler }
}

const post = (body: unknown, signal?: AbortSignal): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
  ...(signal && { signal }),
})

const ask = (url: string, body: unknown = { message: 'hi' }) => fetch(`${url}/solo/get_response`, post(body))

describe.each(Object.entries(FRAMEWORKS))('inside %s', (frameworkName, framework) => {
  test('answers come whole and streamed, and other paths are a 404', async () => {
    const { url, provider } = await serve(framework)
    provider.respond(() => textDeltas(['Hello ', 'there.']))

    const whole = await ask(url)
    expect([whole.status, ((await whole.json()) as Json).response]).toEqual([200, 'Hello there.'])
    const streamed = await new TestStream(await fetch(`${url}/solo/get_response_stream`, post({ message: 'hi' }))).all()
    expect(streamed.outline.filter((step) => step === 'output_text.delta')).toHaveLength(2)
    expect(streamed.outline.at(-1)).toBe('end')
    expect((await fetch(`${url}/solo/get_metadata`)).status).toBe(200)
    const unknown = await fetch(`${url}/nobody/get_metadata`)
    const mount = frameworkName === 'mount of Hono' ? '' : '/agents' // which says nothing of it
    expect([unknown.status, ((await unknown.json()) as Json).error]).toEqual([
      404,
      `There is no route GET ${mount}/nobody/get_metadata. Did you mean ${mount}/solo/get_metadata? GET ${mount}/openapi.json lists all routes.`,
    ])
  })

  test('the card of an agency names the address under which the handler is known, as far as anybody says it', async () => {
    const { url } = await serve(framework)

    const card = (await (await fetch(`${url}/a2a/solo/.well-known/agent-card.json`)).json()) as Json

    // What mounts on a path and says nothing of it needs `serverUrl`.
    const known = frameworkName === 'mount of Hono' ? url.replace('/agents', '') : url
    expect(card.supportedInterfaces.map((each: Json) => each.url)).toEqual([`${known}/a2a/solo`, `${known}/a2a/solo`])
  })

  test('a piece of the answer arrives while the next one is not there yet', async () => {
    const { url, provider } = await serve(framework)
    const gate = provider.gate()
    provider.respond(() => textDeltas(['Hello ', hold(gate), 'there.']))

    const stream = new TestStream(await fetch(`${url}/solo/get_response_stream`, post({ message: 'hi' })))
    await stream.untilText('Hello ')
    gate.release()
    await stream.all()

    expect(stream.outline.at(-1)).toBe('end')
  })

  test.each(['get_response', 'get_response_stream'])('a client that leaves %s ends the run', async (route) => {
    const { url, provider } = await serve(framework)
    const gate = provider.gate()
    provider.respond(({ lastUserText }) =>
      lastUserText === 'another' ? text('fine') : textDeltas(['Hello ', hold(gate)]),
    )
    const leaving = new AbortController()
    const answer = fetch(`${url}/solo/${route}`, post({ message: 'hi' }, leaving.signal)).then((response) =>
      response.text(),
    )
    await gate.reached()

    leaving.abort()
    await expect(answer).rejects.toThrow(/abort/)
    await provider.waitForAborts(1)

    expect(((await (await ask(url, { message: 'another' })).json()) as Json).response).toBe('fine')
  })

  test('a client that does not read stops the model from being read', async () => {
    const firehose = await startFirehose(500)
    const { url } = await serve(framework, { OPENAI_BASE_URL: firehose.url })
    const { hostname, port, pathname } = new URL(`${url}/solo/get_response_stream`)
    const body = JSON.stringify({ message: 'hi' })
    const client = connect(Number(port), hostname)
    client.on('error', () => {})
    client.pause()
    const head = ['host: localhost', 'content-type: application/json', `content-length: ${body.length}`]
    client.write([`POST ${pathname} HTTP/1.1`, ...head, '', body].join('\r\n'))

    const takenBytes = await firehose.stalled
    client.destroy()

    expect(takenBytes).toBeLessThan(40 * 1024 * 1024)
  })

  test('a large body arrives as it was sent', async () => {
    const { url, provider } = await serve(framework)
    provider.respond(() => text('read'))
    const message = 'é'.repeat(4_000_000)

    const answer = await ask(url, { message })

    expect(((await answer.json()) as Json).response).toBe('read')
    expect(provider.modelRequests[0]?.lastUserText).toBe(message)
  })

  test('closing lets an open stream finish and refuses what comes then', async () => {
    const { url, provider, handler } = await serve(framework)
    const gate = provider.gate()
    provider.respond(() => textDeltas(['Hello ', hold(gate), 'there.']))
    const stream = new TestStream(await fetch(`${url}/solo/get_response_stream`, post({ message: 'hi' })))
    await gate.reached()

    const closed = handler.close()
    const late = await ask(url)
    gate.release()
    await Promise.all([stream.all(), closed])

    expect(late.status).toBe(503)
    expect(stream.result.new_messages.at(-1).content[0].text).toBe('Hello there.')
  })
})

test('a WebSocket below the base path becomes a voice session, and others are left alone', async () => {
  const { handler } = await startHandler({
    basePath: '/agents',
    enableRealtime: true,
    realtimeOptions: { url: 'ws://127.0.0.1:1' },
  })
  const server = createServer(handler.node)
  const left = Promise.withResolvers<string>()
  server.on('upgrade', handler.upgrade).on('upgrade', ({ url }, socket) => {
    if (url !== '/others') return
    left.resolve(url)
    socket.destroy()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closeAfterTest(async () => void server.close())
  const at = (path: string) => new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}${path}`)

  const voice = at('/agents/solo/realtime')
  voice.on('error', () => {})
  await once(voice, 'open')
  voice.terminate()
  const other = at('/others')
  other.on('error', () => {})

  expect(await left.promise).toBe('/others')
})

describe('a Request', () => {
  const to = (path: string, init?: RequestInit) => new Request(`http://localhost${path}`, init)

  test('is answered without a listening server', async () => {
    const { handler, provider } = await startHandler()
    provider.respond(() => text('Hi.'))

    const answer = await handler(to('/solo/get_response', post({ message: 'hi' })))

    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(await answer.json()).toMatchObject({ response: 'Hi.' })
  })

  test('whose body has no known length is read as it comes', async () => {
    const { handler, provider } = await startHandler()
    provider.respond(() => text('Hi.'))
    const pieces = ['{"mess', 'age":', '"hi"}'].map((piece) => Buffer.from(piece))
    const init: RequestInit = { ...post({}), body: ReadableStream.from(pieces), duplex: 'half' }

    expect((await handler(to('/solo/get_response', init))).status).toBe(200)
    expect(provider.modelRequests[0]?.lastUserText).toBe('hi')
  })

  test('whose body is too large is refused, and the rest of it is not read', async () => {
    const { handler } = await startHandler({ bodyLimitBytes: 1_000 })
    let read = 0
    const endless = new ReadableStream({ pull: (body) => body.enqueue(Buffer.alloc((read += 1) && 1_000, 32)) })

    const answer = await handler(to('/solo/get_response', { ...post({}), body: endless, duplex: 'half' }))

    expect(answer.status).toBe(413)
    await answer.text()
    expect(read).toBeLessThan(100)
  })

  test('whose body breaks off is refused', async () => {
    const { handler } = await startHandler()
    const broken = new ReadableStream({ start: (body) => body.error(new Error('broke off')) })

    const answer = await handler(to('/solo/get_response', { ...post({}), body: broken, duplex: 'half' }))

    expect(answer.status).toBe(400)
  })

  test('whose body was read before is an error that says so', async () => {
    const { handler } = await startHandler()
    const request = to('/solo/get_response', post({ message: 'hi' }))
    await request.text()

    await expect(handler(request)).rejects.toThrow('was read before Bureau got it')
  })

  test.each([
    ['HEAD', '/solo/get_metadata', 405],
    ['GET', '/solo/get_response', 405],
    ['GET', '/', 404],
  ])('%s %s is answered as by a server', async (method, path, status) => {
    const { handler } = await startHandler()

    const answer = await handler(to(path, { method }))

    expect(answer.status).toBe(status)
    if (method === 'HEAD') expect(await answer.text()).toBe('')
  })

  test('gets the answer that has no body: nothing more of a run that was read to its end', async () => {
    const { handler, provider } = await startHandler()
    provider.respond(() => text('Hi.'))
    const begun = await handler(to('/solo/get_response_stream', post({ message: 'hi', on_disconnect: 'continue' })))
    const stream = await new TestStream(begun).all()
    const last = stream.text
      .match(/^id: (\d+)$/gm)!
      .at(-1)!
      .slice(4)

    const answer = await handler(to(`/solo/runs/${stream.runId}/events?starting_after=${last}`))

    expect([answer.status, answer.body]).toEqual([204, null])
  })

  test('of a page of another origin is let in by its origin, with the headers of cross-origin requests', async () => {
    const { handler } = await startHandler({ corsOrigins: ['https://shop.example'] })
    const headers = { origin: 'https://shop.example', 'access-control-request-method': 'POST' }

    const answer = await handler(to('/solo/get_response', { method: 'OPTIONS', headers }))

    expect(answer.headers.get('access-control-allow-origin')).toBe('https://shop.example')
  })

  test('of a host name that is not its own is refused while there is no token', async () => {
    const { handler } = await startHandler()

    expect((await handler(new Request('https://public.example/solo/get_metadata'))).status).toBe(403)
  })

  test('that tries tokens is slowed down by the address it comes from', async () => {
    const clientAddress = (request: Request) => request.headers.get('x-real-ip') ?? undefined
    const { handler } = await startHandler({ clientAddress }, { APP_TOKEN: 'right', BUREAU_WRONG_KEYS_PER_MINUTE: '1' })
    const guess = async (ip: string) =>
      (await handler(to('/solo/get_metadata', { headers: { authorization: 'Bearer wrong', 'x-real-ip': ip } }))).status

    expect([await guess('192.0.2.1'), await guess('192.0.2.1'), await guess('192.0.2.2')]).toEqual([401, 429, 401])
    expect([await guess('no address'), await guess('another')]).toEqual([401, 429])
  })

  test('whose client has left before it was handed on starts no run', async () => {
    const { handler, provider } = await startHandler()

    const answer = await handler(to('/solo/get_response', post({ message: 'hi' }, AbortSignal.abort())))

    expect(answer.status).toBe(499)
    expect(provider.modelRequests).toEqual([])
  })

  test('outside of the base path is a 404', async () => {
    const { handler } = await startHandler({ basePath: '/agents/' })

    expect((await handler(to('/solo/get_metadata'))).status).toBe(404)
    expect((await handler(to('/agentsolo/get_metadata'))).status).toBe(404)
    expect((await handler(to('/agents/solo/get_metadata?x=1'))).status).toBe(200)
  })
})

describe('what is wrong', () => {
  test('a server that cannot start says so to `ready`, to a Request, and to `next`', async () => {
    const handler = createHandler({ agencies: {}, logLevel: 'silent' }, loadConfig({}))
    const failed = Promise.withResolvers<unknown>()
    const url = await startHttpServer((request, response) => {
      handler.node(request, response, (error) => {
        failed.resolve(error)
        response.end()
      })
    })

    await expect(handler.ready()).rejects.toThrow('Nothing to serve')
    await expect(handler(new Request('http://localhost/'))).rejects.toThrow('Nothing to serve')
    await fetch(url)
    expect(await failed.promise).toMatchObject({ message: expect.stringContaining('Nothing to serve') })
  })

  test.each(['agents', 'https://example.com/agents', '/a?b'])('the base path %j', (basePath) => {
    expect(() => createHandler({ agencies: soloAgency(), basePath })).toThrow('basePath must be a path')
  })

  test('a body that was read and thrown away', async () => {
    const { handler } = await startHandler()
    const failed = Promise.withResolvers<unknown>()
    const url = await startHttpServer((request, response) => {
      request.resume().once('end', () => {
        handler.node(request, response, (error) => {
          failed.resolve(error)
          response.end()
        })
      })
    })

    await ask(url)

    expect(await failed.promise).toMatchObject({ message: expect.stringContaining('was read before Bureau got it') })
  })
})
