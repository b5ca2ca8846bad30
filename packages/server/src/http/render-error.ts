import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { ERRORS, ServiceError } from '@bureau/protocol'
import { InvalidJson, JsonLimitExceeded } from '@bureau/runtime'
import { InvalidBody, notAnObject } from './invalid-body.ts'

/**
 * The one place where an error becomes an answer. Every body has `error`, a sentence; framework errors also `detail`.
 * What was not meant for the caller becomes `internal_error` and goes to the log.
 */
export function renderError(error: FastifyError | Error, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (error instanceof InvalidBody) {
    return reply.code(422).send({ detail: error.entries, error: `The request is not valid. ${error.message}` })
  }
  if (error instanceof JsonLimitExceeded) {
    const entry = { type: 'limit_exceeded', loc: ['body', ...error.path], msg: error.message, input: null }
    return renderError(new InvalidBody([entry]), request, reply)
  }
  if (error instanceof InvalidJson) {
    const loc = error.offset === undefined ? ['body'] : ['body', error.offset]
    const detail = [{ type: 'json_invalid', loc, msg: error.message, input: {} }]
    return reply.code(422).send({ detail, error: `The request is not valid. ${error.message}` })
  }
  if (error instanceof ServiceError) {
    if (error.status === 401) reply.header('www-authenticate', 'Bearer')
    for (const [name, value] of Object.entries(error.headers)) reply.header(name, value)
    return reply.code(error.status).send({ detail: error.message, error: error.message })
  }
  const status = 'statusCode' in error ? (error.statusCode ?? 500) : 500
  // A content type that is none was not read, like any other that is not JSON.
  if (status === 415) return renderError(notAnObject(null), request, reply)
  if (status >= 400 && status < 500) {
    const message = status === 413 ? ERRORS.body_too_large.message : 'The request is not valid.'
    return reply.code(status).send({ detail: message, error: message })
  }
  request.log.error({ err: error }, 'request failed')
  return reply.code(500).send({ detail: ERRORS.internal_error.message, error: ERRORS.internal_error.message })
}

/** Unknown paths and wrong methods, in the words that clients of the Python system know. */
export function renderNotFound(methodsAt: (path: string) => readonly string[]) {
  return (request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const methods = methodsAt(request.url.split('?')[0] ?? '')
    if (methods.length === 0) return reply.code(404).send({ detail: 'Not Found', error: 'Not Found' })
    reply.header('allow', methods.join(', '))
    return reply.code(405).send({ detail: 'Method Not Allowed', error: 'Method Not Allowed' })
  }
}
