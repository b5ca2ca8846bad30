import { type ErrorCode, ServiceError } from '@bureau/protocol'
import { errorGate, logRefusal, refuseMalformed } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import { AfterAdmission, admissionHeaders } from './admission-header.ts'
import type { Surface } from './route.ts'

const CHAT_DETAILS: Readonly<Record<number, string>> = {
  400: 'Your JSON payload is missing required fields. Please consult the documentation.',
  401: 'Invalid or missing authorization token.',
  404: 'Integration not found.',
  429: 'Too many requests.',
  500: 'An unexpected error occurred while processing your request.',
  503: 'Service temporarily unavailable.',
}

/** What was not meant for the caller becomes `internal_error`. */
export const renderError = errorGate((error, request) => {
  const refusal = toServiceError(error)
  const { status } = refusal
  logRefusal(request, refusal, error)
  const surface = surfaceOf(request)
  const headers = {
    // Some errors come before any hook: of addresses that cannot be read.
    'x-request-id': request.id,
    'cache-control': 'no-store',
    ...(status === 413 && { connection: 'close' }),
    ...(status === 503 && { 'Retry-After': String(1 + Math.floor(Math.random() * 5)) }),
    ...refusal.headers,
    ...(surface === 'completion' && admissionHeaders(error, refusal)),
  }
  return { status, headers, body: errorBody(surface, refusal, request.id) }
})

export function errorBody(surface: Surface, refusal: ServiceError, requestId: string): object {
  const { code, message, fields, status } = refusal
  switch (surface) {
    case 'completion':
      return { error: message, code }
    case 'create_chat':
      return { detail: isOfHeaders(refusal) ? message : (CHAT_DETAILS[status] ?? message) }
    case 'rest':
      return { error: message, code, requestId, ...(fields?.length && { fields }) }
  }
}

/** Whether a request is refused for what no change of its body mends. */
function isOfHeaders({ status, code, fields }: ServiceError): boolean {
  return status === 400 && code !== 'invalid_json' && !fields?.length
}

/** Fastify's own errors have a status of their own. */
function toServiceError(error: Error & { readonly statusCode?: number }): ServiceError {
  if (error instanceof ServiceError) return error
  if (error instanceof AfterAdmission && error.cause instanceof ServiceError) return error.cause
  const code = CODES[error.statusCode ?? 500]
  return new ServiceError(code ?? 'internal_error', { cause: error })
}

const CODES: Readonly<Record<number, ErrorCode>> = {
  400: 'invalid_request',
  404: 'route_not_found',
  405: 'method_not_allowed',
  413: 'body_too_large',
  414: 'invalid_request',
  415: 'invalid_content_type',
}

/** Also for paths with the wrong method, which no route belongs to. */
function surfaceOf(request: FastifyRequest): Surface {
  const path = request.url.split('?')[0]
  if (path === '/get_completion_v2') return 'completion'
  return path === '/create_new_chat' ? 'create_chat' : 'rest'
}

/** Nothing was reserved by what is not HTTP, so the header of the completion is always right here. */
export const answerClientError = refuseMalformed((reason) => ({
  body: {
    error:
      reason === 'Request Timeout'
        ? 'The head of the request did not arrive in time.'
        : 'The request is not valid HTTP.',
    code: 'invalid_request',
  },
  headers: ['X-Agent-Run-Admitted: false', 'Cache-Control: no-store'],
}))
