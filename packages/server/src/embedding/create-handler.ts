import type { IncomingMessage, ServerResponse } from 'node:http'
import { isIP } from 'node:net'
import type { Duplex } from 'node:stream'
import { ConfigError } from '@bureau/protocol'
import type { FastifyInstance } from 'fastify'
import { createApp } from '../app.ts'
import { loadConfig, type ServerConfig } from '../config.ts'
import type { ServerOptions } from '../options.ts'
import { bodyOf, BridgedRequest, type RequestSocket } from './bridged-request.ts'
import { BridgedResponse } from './bridged-response.ts'

type EmbeddingOptions = {
  /**
   * The path under which your application receives the requests, such as `/agents`: it is taken off, and what does not begin
   * with it is a 404. Leave it out where the framework takes it off itself (Express `app.use`, Hono `app.mount`).
   */
  readonly basePath?: string
  /** Who a `Request` comes from, as an IP address: a `Request` does not say. Used in logs, and to slow down who tries tokens. */
  readonly clientAddress?: (request: Request) => string | undefined
}

/** Where a listening server would be; here another one listens. */
type ListeningOptions = 'host' | 'port'

export type HandlerOptions = Omit<ServerOptions, ListeningOptions> & EmbeddingOptions

/** Tells an Express application that the request could not be answered. */
type Next = (error: unknown) => void

/** A request of Node's, as frameworks pass it on: some have read the body before, or taken a path off its address. */
type NodeRequest = IncomingMessage & { readonly body?: unknown; readonly originalUrl?: string }

/** A server inside another application. Calling it answers a `Request` of the Fetch standard with a `Response`. */
export type Handler = {
  (request: Request): Promise<Response>
  /**
   * Answers a request of Node's HTTP server. If the server cannot start, `next` gets the error; without `next` the answer is
   * a 500.
   */
  readonly node: (request: NodeRequest, response: ServerResponse, next?: Next) => void
  /** Takes over a WebSocket below `basePath`, for `enableRealtime`: `server.on('upgrade', handler.upgrade)`. */
  readonly upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void
  /**
   * Starts the server now. Otherwise the first request starts it.
   *
   * @throws ConfigError options or environment are not valid.
   */
  readonly ready: () => Promise<void>
  /** Refuses new requests, lets open streams finish, and frees everything. Call it when your application stops. */
  readonly close: () => Promise<void>
}

/**
 * The server as a handler for an application of your own, which listens in its place. Nothing happens before the first
 * request, or `ready()`.
 *
 * @throws ConfigError `basePath` is not a path.
 */
export function createHandler(options: HandlerOptions, config?: ServerConfig): Handler {
  const { basePath, clientAddress, ...serverOptions } = options
  const pathOf = pathBelow(basePath)
  let app: Promise<FastifyInstance> | undefined
  const opened = (): Promise<FastifyInstance> => {
    if (app) return app
    app = open(serverOptions, config)
    // What failed may work the next time: Redis was out of reach.
    app.catch(() => (app = undefined))
    return app
  }
  const answer = async (request: Request): Promise<Response> => {
    if (request.bodyUsed) throw new TypeError(BODY_WAS_READ)
    const originalUrl = pathAndQuery(request.url)
    const path = pathOf(originalUrl)
    const running = await opened()
    return path === undefined
      ? notFound()
      : exchange(request, { path, originalUrl, app: running, address: clientAddress?.(request) })
  }
  const passOn = async (request: NodeRequest, response: ServerResponse, next?: Next): Promise<void> => {
    try {
      const path = pathOf(request.url ?? '/')
      const running = await opened()
      if (path === undefined) return void response.writeHead(404, JSON_TYPE).end(NOT_FOUND)
      const { originalUrl = request.url ?? '/' } = request
      running.routing(withBody(Object.assign(request, { url: path, originalUrl })), response)
    } catch (error) {
      if (next) return next(error)
      process.emitWarning(error as Error)
      response.writeHead(500, JSON_TYPE).end('{"error":"The server could not start."}')
    }
  }
  const takeOver = async (request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> => {
    const path = pathOf(request.url ?? '/')
    if (path === undefined) return
    const server = await opened().catch(() => undefined)
    if (!server?.server.emit('upgrade', Object.assign(request, { url: path }), socket, head)) socket.destroy()
  }
  return Object.assign(answer, {
    node: (...given: Parameters<Handler['node']>): void => void passOn(...given),
    upgrade: (...given: Parameters<Handler['upgrade']>): void => void takeOver(...given),
    ready: async (): Promise<void> => {
      await opened()
    },
    close: async (): Promise<void> => {
      const running = await app
      await running?.close()
    },
  })
}

async function open(options: ServerOptions, config = loadConfig()): Promise<FastifyInstance> {
  const app = await createApp(options, config)
  await app.ready()
  return app
}

const JSON_TYPE = { 'content-type': 'application/json; charset=utf-8' }
const NOT_FOUND = '{"detail":"Not Found","error":"There is no such route.","code":"route_not_found"}'
const notFound = (): Response => new Response(NOT_FOUND, { status: 404, headers: JSON_TYPE })

const BODY_WAS_READ =
  'The body of this request was read before Bureau got it. Pass the request on before anything parses its body.'

/** The part of a path and query that is below the base path; undefined when it is not. @throws ConfigError */
function pathBelow(basePath = ''): (path: string) => string | undefined {
  const base = basePath.replace(/\/+$/, '')
  if (base !== '' && !/^\/[^?#\s]*$/.test(base)) throw new ConfigError('basePath must be a path, such as "/agents".')
  return (path) => {
    const rest = path.startsWith(base) ? path.slice(base.length) : undefined
    if (rest === '' || rest?.startsWith('?')) return `/${rest}`
    return rest?.startsWith('/') ? rest : undefined
  }
}

/** As it was sent: a parsed URL would be written in another way. */
const pathAndQuery = (url: string): string => /^[a-z][a-z\d+.-]*:\/\/[^/?#]*([^#]*)/i.exec(url)?.[1] || '/'

type Exchange = {
  readonly path: string
  readonly originalUrl: string
  readonly app: FastifyInstance
  readonly address: string | undefined
}

/** Has the application answer a `Request`. When the client leaves, the application learns it as from a closed connection. */
async function exchange(request: Request, { path, originalUrl, app, address }: Exchange): Promise<Response> {
  const { method, body, signal, url } = request
  const remoteAddress = isIP(address ?? '') === 0 ? UNKNOWN_ADDRESS : address
  const socket: RequestSocket = { remoteAddress, encrypted: url.startsWith('https:') }
  const head = { method, url: path, originalUrl, headers: headersOf(request), socket }
  const asked = new BridgedRequest(head, body ?? bodyOf(NO_BYTES))
  const response = new BridgedResponse(asked)
  const leave = (): void => {
    asked.destroy()
    response.destroy()
  }
  asked.on('error', () => {}) // for who reads the body
  response.on('error', () => {}) // for who reads the answer
  signal.addEventListener('abort', leave, { once: true })
  response.once('close', () => {
    signal.removeEventListener('abort', leave)
    if (!asked.complete) asked.destroy()
  })
  if (signal.aborted) leave()
  app.routing(asked as unknown as IncomingMessage, response as unknown as ServerResponse)
  return response.response.catch((error: unknown) => {
    if (signal.aborted) return new Response(null, { status: CLIENT_LEFT })
    throw error
  })
}

/** The unspecified address (RFC 1122, 3.2.1.3): all whose address is not known are slowed down together. */
const UNKNOWN_ADDRESS = '0.0.0.0'
/** Nobody reads it; frameworks log it, and take it for no failure. */
const CLIENT_LEFT = 499
const NO_BYTES = new Uint8Array()

function headersOf({ headers, body, url }: Request): Record<string, string> {
  const sent = Object.fromEntries(headers)
  sent['host'] ??= new URL(url).host
  // A body whose length is not known is announced in this way.
  if (body && sent['content-length'] === undefined) sent['transfer-encoding'] ??= 'chunked'
  return sent
}

/**
 * The request with a body that can be read: what a body parser in front has made of it becomes JSON again.
 *
 * @throws TypeError the body is gone.
 */
function withBody(request: NodeRequest): IncomingMessage {
  const { body, method = 'GET', url = '/', originalUrl = url, headers, socket, readableEnded } = request
  if (!readableEnded || headers['content-length'] === '0') return request
  if (headers['content-length'] === undefined && headers['transfer-encoding'] === undefined) return request
  if (body === undefined) throw new TypeError(BODY_WAS_READ)
  const bytes = body instanceof Uint8Array ? body : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  const { 'content-encoding': _, ...rest } = headers
  const length = { 'content-length': String(bytes.length) }
  return new BridgedRequest(
    { method, url, originalUrl, headers: { ...rest, ...length }, socket },
    bodyOf(bytes),
  ) as unknown as IncomingMessage
}
