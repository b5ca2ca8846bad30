import { ServiceError } from '@bureau/protocol'
import { type ErrorHandler, errorGate, publicError } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'

/** Codes of JSON-RPC 2.0, section 5.1. */
const PARSE_ERROR = -32700
export const METHOD_NOT_FOUND = -32601
const INVALID_REQUEST = -32600
export const INVALID_PARAMS = -32602
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

/**
 * Errors of a route that speaks JSON-RPC, before a request of the protocol was carried out. Our own code is in `data`.
 *
 * @param challengeOf - Headers of a 401.
 */
export function rpcErrorHandler(challengeOf: (request: FastifyRequest) => Record<string, string>): ErrorHandler {
  return errorGate((error, request) => {
    const { status, code, message, headers } = publicError(error, request)
    const rpcCode = code === 'invalid_json' ? PARSE_ERROR : status < 500 ? INVALID_REQUEST : INTERNAL_ERROR
    const body = { jsonrpc: '2.0', id: rpcIdOf(request.body), error: { code: rpcCode, message, data: { code } } }
    return { status, headers: { ...headers, ...(status === 401 && challengeOf(request)) }, body }
  })
}
