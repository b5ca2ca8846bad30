import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { type ErrorCode, ERRORS, ServiceError } from '@bureau/protocol'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { NO_SNIFFING } from './answers.ts'
import { InvalidJson } from './invalid-json.ts'
import type { ServedPaths } from './serve-routes.ts'

/** What an app answers when something went wrong. */
export type Refused = {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: object
}

/** Answers an error in the form of an app or a protocol. */
export type ErrorHandler = (error: Error, request: FastifyRequest, reply: FastifyReply) => void

/**
 * The one place of an app where an error becomes an answer.
 *
 * @param refusedOf - What is answered and, as a side effect, logged. What was not meant for the caller must become
 *   `internal_error`.
 */
export function errorGate(refusedOf: (error: Error, request: FastifyRequest) => Refused): ErrorHandler {
  return (error, request, reply) => {
    const { status, headers, body } = refusedOf(error, request)
    if (status === 401) reply.header('www-authenticate', 'Bearer')
    reply.headers({ ...headers }).code(status)
    if (!request.raw.complete && reply.getHeader('connection') === 'close') closeGently(request.raw.socket)
    reply.send(body)
  }
}

/** A defect is logged with its stack, what cannot be reached as a warning; what is busy or stops refuses as it should. */
export function logRefusal({ log }: FastifyRequest, { code, detail, cause }: ServiceError, error: Error): void {
  if (code === 'internal_error') log.error({ err: error, detail }, 'request failed')
  else if (code.endsWith('_unavailable')) log.warn({ code, detail, err: cause }, 'request refused')
  else log.info({ code, detail }, 'request refused')
}

export type PublicError = Pick<ServiceError, 'status' | 'code' | 'message' | 'headers' | 'body'>

/**
 * Any error of a route, for a protocol that tells it in a form of its own. What was not meant for the caller goes to the log, and
 * becomes `internal_error`.
 */
export function publicError(error: Error & { readonly statusCode?: number }, request: FastifyRequest): PublicError {
  if (error instanceof InvalidJson) return new ServiceError('invalid_json', { message: error.message })
  if (error instanceof ServiceError) {
    if (error.status >= 500) logRefusal(request, error, error)
    return error
  }
  const { statusCode: status = 500 } = error
  if (status >= 400 && status < 500) {
    const code = FRAMEWORK_CODES[status] ?? 'invalid_request'
    return { status, code, message: ERRORS[code].message, headers: {}, body: {} }
  }
  request.log.error({ err: error }, 'request failed')
  return new ServiceError('internal_error')
}

/** Of the errors that the HTTP framework makes itself. */
const FRAMEWORK_CODES: Readonly<Record<number, ErrorCode>> = { 413: 'body_too_large', 415: 'invalid_content_type' }

/** How long a client may go on writing after its answer, in milliseconds. */
const LINGER_MS = 2_000

/**
 * Lets a client that is still writing read the answer, after which its connection is closed: one with unread bytes is reset,
 * and the answer may be lost with it (RFC 9112, section 9.6). What arrives meanwhile is thrown away.
 */
function closeGently(socket: Socket): void {
  socket.destroySoon = () => {
    const patience = setTimeout(() => socket.destroy(), LINGER_MS)
    socket.once('end', () => socket.destroy()).once('close', () => clearTimeout(patience))
    socket.resume().end()
  }
}

const MAX_SHOWN_PATH = 200

/** Answers unknown paths, naming those that end alike and the document that lists all, and wrong methods, naming those that there are. */
export function notFoundGate(served: ServedPaths, handle: ErrorHandler, document: string) {
  return (request: FastifyRequest, reply: FastifyReply): void => {
    const [path = ''] = request.url.split('?')
    const methods = served.methodsAt(path)
    const mount = mountOf(request)
    const full = mount + path
    const shown = full.length > MAX_SHOWN_PATH ? `${full.slice(0, MAX_SHOWN_PATH)}…` : full
    if (methods.length === 0) {
      const others = served.endingAs(path).map((each) => mount + each)
      const meant = others.length > 0 ? ` Did you mean ${others.join(' or ')}?` : ''
      const message = `There is no route ${request.method} ${shown}.${meant} GET ${mount}${document} lists all routes.`
      return handle(new ServiceError('route_not_found', { message }), request, reply)
    }
    reply.header('allow', methods.join(', '))
    const message = `${shown} accepts ${methods.join(' and ')}, not ${request.method}.`
    return handle(new ServiceError('method_not_allowed', { message }), request, reply)
  }
}

/**
 * The path below which another application serves this one, e.g. `/agents`; empty: none does. Whoever has taken a path off the
 * request's address has left the whole of it in `originalUrl`, as Express does.
 */
export function mountOf({ url, originalUrl }: FastifyRequest): string {
  return originalUrl.endsWith(url) ? originalUrl.slice(0, -url.length) : ''
}

const STATUS: Readonly<Record<string, number>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 408,
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
}

/** Replies to malformed requests, in the form of every other refusal; no route ever sees them. */
export function refuseMalformed(
  answer: (reason: string) => { readonly body: object; readonly headers: readonly string[] },
) {
  return (error: NodeJS.ErrnoException, socket: Socket): void => {
    if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
    const status = STATUS[error.code ?? ''] ?? 400
    const reason = STATUS_CODES[status]!
    const { body, headers } = answer(reason)
    const text = JSON.stringify(body)
    const head = [
      `HTTP/1.1 ${status} ${reason}`,
      'content-type: application/json; charset=utf-8',
      `content-length: ${text.length}`,
      'connection: close',
      NO_SNIFFING.join(': '),
      ...headers,
    ]
    socket.end(`${head.join('\r\n')}\r\n\r\n${text}`)
  }
}
