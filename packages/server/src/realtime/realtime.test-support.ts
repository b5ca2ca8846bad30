import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { type Agency, McpConnections } from '@bureau/framework'
import { MemoryTickets, serveRoutes } from '@bureau/runtime'
import fastify, { type FastifyInstance } from 'fastify'
import { type ClientOptions, WebSocket } from 'ws'
import { closeAfterTest, type Json } from '../../../../tests/support/test-server.ts'
import { createApp } from '../app.ts'
import { loadConfig } from '../config.ts'
import type { ServerContext } from '../context.ts'
import { callersOf } from '../http/callers.ts'
import { modelAccess } from '../model-access.ts'
import type { ServerOptions } from '../options.ts'
import { type FakeRealtimeProvider, startRealtimeProvider } from './fake-realtime-provider.test-support.ts'
import { Mailbox } from './mailbox.test-support.ts'
import { ROUTE_SETTINGS } from '../http/route.ts'
import { realtimeRoutes } from './realtime.routes.ts'
import type { RealtimeOptions } from './realtime-options.ts'

export type RealtimeServer = {
  readonly url: string
  readonly provider: FakeRealtimeProvider
  /** Log lines, parsed. */
  readonly logged: Json[]
  readonly close: () => Promise<void>
  /** Connects and waits until the session has begun. */
  connect(path: string, options?: Connect): Promise<RealtimeClient>
  post(path: string, headers?: Record<string, string>): Promise<{ status: number; body: Json }>
  get(path: string): Promise<string>
}

type SetUp = {
  readonly agencies: Readonly<Record<string, Agency>>
  readonly realtime?: RealtimeOptions
  readonly env?: Record<string, string>
  readonly token?: string
  readonly origins?: readonly string[]
  readonly options?: Partial<ServerOptions>
}

const KEYS = { OPENAI_API_KEY: 'sk-server', XAI_API_KEY: 'xai-server' }

/** A real server with realtime switched on, and a stand-in provider; both are closed after the test. */
export async function startRealtimeServer(setUp: SetUp): Promise<RealtimeServer> {
  const provider = await startedProvider()
  const config = loadConfig({ ...KEYS, ...(setUp.token !== undefined && { APP_TOKEN: setUp.token }), ...setUp.env })
  const app = await createApp(
    {
      agencies: setUp.agencies,
      enableRealtime: true,
      realtimeOptions: { url: provider.url, ...setUp.realtime },
      logLevel: 'silent',
      ...(setUp.origins && { corsOrigins: setUp.origins }),
      ...setUp.options,
    },
    config,
  )
  return listen(app, provider, [])
}

/** Only the realtime routes, with a log that the test can read. */
export async function startLoggedServer({ agencies }: Pick<SetUp, 'agencies'>): Promise<RealtimeServer> {
  const provider = await startedProvider()
  const models = modelAccess(loadConfig(KEYS))
  closeAfterTest(() => models.close())
  const logged: Json[] = []
  const stream = { write: (line: string): void => void logged.push(JSON.parse(line)) }
  const app = fastify({ logger: { level: 'warn', stream }, forceCloseConnections: 'idle' })
  const environment = { models, mcp: new McpConnections(), now: Date.now }
  const parts = { environment, log: app.log, observeSession: () => undefined, takeSlot: () => () => {} }
  const context = parts as unknown as ServerContext
  const setUp = {
    options: { url: provider.url },
    context,
    callers: callersOf({}, loadConfig({})),
    tickets: new MemoryTickets(),
  }
  serveRoutes(app, await realtimeRoutes(app, new Map(Object.entries(agencies)), setUp), ROUTE_SETTINGS)
  return listen(app, provider, logged)
}

async function startedProvider(): Promise<FakeRealtimeProvider> {
  const provider = await startRealtimeProvider()
  closeAfterTest(() => provider.close())
  return provider
}

async function listen(app: FastifyInstance, provider: FakeRealtimeProvider, logged: Json[]): Promise<RealtimeServer> {
  await app.listen({ host: '127.0.0.1', port: 0 })
  let closing: Promise<void> | undefined
  const close = (): Promise<void> => (closing ??= app.close().then(() => {}))
  closeAfterTest(close)
  const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`
  return {
    url,
    provider,
    logged,
    close,
    connect: (path, options) => RealtimeClient.open(url.replace('http', 'ws') + path, options),
    post: async (path, headers = {}) => {
      const response = await fetch(url + path, { method: 'POST', headers })
      return { status: response.status, body: await response.json() }
    },
    get: async (path) => (await fetch(url + path)).text(),
  }
}

export type Connect = {
  readonly protocols?: readonly string[]
  readonly headers?: Record<string, string>
  readonly options?: ClientOptions
}

/** A client of the message protocol. */
export class RealtimeClient {
  readonly socket: WebSocket
  readonly messages: Json[] = []
  readonly closed: Promise<{ code: number; reason: string }>
  readonly #inbox = new Mailbox<Json>('messages of the server')

  private constructor(socket: WebSocket) {
    this.socket = socket
    socket.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString())
      this.messages.push(message)
      this.#inbox.add(message)
    })
    this.closed = new Promise((resolve) => {
      socket.on('close', (code, reason) => resolve({ code, reason: String(reason) }))
    })
    closeAfterTest(async () => socket.terminate())
  }

  /** @throws Error the handshake was refused; the message has the status. */
  static async open(
    url: string,
    { protocols = [], headers = {}, options = {} }: Connect = {},
  ): Promise<RealtimeClient> {
    const socket = new WebSocket(url, [...protocols], { headers, ...options })
    const client = new RealtimeClient(socket)
    await once(socket, 'open')
    return client
  }

  send(message: Json): void {
    this.socket.send(typeof message === 'string' || Buffer.isBuffer(message) ? message : JSON.stringify(message))
  }

  /** The next message of this type. For `raw_model_event`, the provider's own type may follow after a colon. */
  next(type: string): Promise<Json> {
    const [kind, raw] = type.split(':')
    return this.#inbox.next((message) => message.type === kind && (raw === undefined || message.raw_type === raw))
  }

  of(type: string): Json[] {
    return this.messages.filter((message) => message.type === type)
  }
}
