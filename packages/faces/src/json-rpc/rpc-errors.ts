import { ERRORS, ServiceError } from '@bureau/protocol'
import { type ErrorHandler, errorGate, InvalidJson, logRefusal, type Refused } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'

/** Codes of JSON-RPC 2.0, section 5.1. */
const PARSE_ERROR = -32700
export const METHOD_NOT_FOUND = -32601
const INVALID_REQUEST = -32600
const INTERNAL_ERROR = -32603

export type RpcId = string | number | null

/** Of a request that may not be valid, so that its sender knows which one it was. */
export function rpcIdOf(body: unknown): RpcId {
  const id = typeof body === 'object' && body !== null ? (body as { id?: unknown }).id : null
  return typeof id === 'string' || typeof id === 'number' ? id : null
}

/** @throws ServiceError `invalid_json` there is no body; `invalid_content_type` it is something else, which was not read. */
export function requireBody(request: FastifyRequest): void {
  if (request.body === undefined) throw new ServiceError('invalid_json')
  requireJson(request)
}

/** A server may hand on what is not JSON as null, which is JSON as well. @throws ServiceError `invalid_content_type` */
export function requireJson({ body, headers }: FastifyRequest): void {
  if (body === null && !JSON_TYPE.test(headers['content-type'] ?? '')) throw new ServiceError('invalid_content_type')
}

const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\b/i

/** Whether a body is not JSON: the servers read theirs in different ways. */
export function isInvalidJson(error: unknown): boolean {
  return error instanceof InvalidJson || (error instanceof ServiceError && error.code === 'invalid_json')
}

/**
 * Errors of a route that speaks JSON-RPC, before a request of the protocol was carried out. Our own code is in `data`.
 *
 * @param challengeOf - Headers of a 401.
 */
export function rpcErrorHandler(challengeOf: (request: FastifyRequest) => Record<string, string>): ErrorHandler {
  return errorGate((error, request) => {
    const refused = refusedOf(error, request)
    return refused.status === 401 ? { ...refused, headers: { ...refused.headers, ...challengeOf(request) } } : refused
  })
}

function refusedOf(error: Error & { readonly statusCode?: number }, request: FastifyRequest): Refused {
  const refused = (status: number, code: number, message: string, ownCode: string): Refused => {
    const body = { jsonrpc: '2.0', id: rpcIdOf(request.body), error: { code, message, data: { code: ownCode } } }
    return { status, headers: {}, body }
  }
  if (isInvalidJson(error)) return refused(400, PARSE_ERROR, error.message, 'invalid_json')
  if (error instanceof ServiceError) {
    const { status, code, message, headers } = error
    if (status >= 500) logRefusal(request, error, error)
    return { ...refused(status, status < 500 ? INVALID_REQUEST : INTERNAL_ERROR, message, code), headers }
  }
  const { statusCode: status = 500 } = error
  if (status === 413) return refused(413, INVALID_REQUEST, ERRORS.body_too_large.message, 'body_too_large')
  if (status >= 400 && status < 500) {
    return refused(status, INVALID_REQUEST, ERRORS.invalid_request.message, 'invalid_request')
  }
  request.log.error({ err: error }, 'request failed')
  return refused(500, INTERNAL_ERROR, ERRORS.internal_error.message, 'internal_error')
}
