import type { FastifyRequest } from 'fastify'
import { type ErrorCode, ServiceError } from '@bureau/protocol'
import {
  errorGate,
  InvalidJson,
  JsonLimitExceeded,
  logRefusal,
  type PublicError,
  publicError,
  refuseMalformed,
  type Refused,
} from '@bureau/runtime'
import { InvalidBody, notAnObject } from './invalid-body.ts'

/** Every body has `error`, a sentence, and its `code`; framework errors also `detail`. What was not meant for the caller goes to the log. */
export const renderError = errorGate(refusedOf)

export function refusedOf(error: Error & { readonly statusCode?: number }, request: FastifyRequest): Refused {
  if (error instanceof InvalidBody) return invalid(error.entries, error.message)
  if (error instanceof JsonLimitExceeded) {
    const entry = { type: 'limit_exceeded', loc: ['body', ...error.path], msg: error.message, input: null }
    return refusedOf(new InvalidBody([entry]), request)
  }
  if (error instanceof InvalidJson) {
    const loc = error.offset === undefined ? ['body'] : ['body', error.offset]
    const entry = { type: 'json_invalid', loc, msg: error.message, input: {} }
    return invalid([entry], error.message, 'invalid_json')
  }
  if (error instanceof ServiceError) {
    if (error.code.endsWith('_unavailable')) logRefusal(request, error, error)
    return refused(error)
  }
  // A content type that is none was not read, like any other that is not JSON.
  if (error.statusCode === 415) return refusedOf(notAnObject(null), request)
  return refused(publicError(error, request))
}

function invalid(detail: readonly object[], problem: string, code: ErrorCode = 'invalid_request'): Refused {
  return { status: 422, headers: {}, body: { detail, error: `The request is not valid. ${problem}`, code } }
}

function refused({ status, code, message, headers, body }: PublicError): Refused {
  return { status, headers, body: { detail: DETAILS[code] ?? message, error: message, code, ...body } }
}

/** What clients of the Python system look for. */
const DETAILS: Partial<Record<ErrorCode, string>> = {
  route_not_found: 'Not Found',
  method_not_allowed: 'Method Not Allowed',
  not_authenticated: 'Not authenticated',
  unauthorized: 'Unauthorized',
}

export const refuseUnreadable = refuseMalformed((reason) => ({
  body: { detail: reason, error: reason, code: 'invalid_request' },
  headers: [],
}))
