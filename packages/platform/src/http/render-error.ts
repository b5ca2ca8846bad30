import { type ErrorCode, ServiceError } from '@bureau/protocol'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Surface } from './route.ts'

/** What is known of a completion's reservation when something goes wrong. */
type AdmissionState = 'none' | 'unknown' | { readonly runId: string }

/** A completion that failed when something was, or may have been, reserved. */
export class AfterAdmission extends Error {
  override readonly name = 'AfterAdmission'
  readonly state: AdmissionState

  constructor(state: AdmissionState, options: ErrorOptions = {}) {
    super('a completion failed after its admission', options)
    this.state = state
  }
}

const CHAT_DETAILS: Readonly<Record<number, string>> = {
  400: 'Your JSON payload is missing required fields. Please consult the documentation.',
  401: 'Invalid or missing authorization token.',
  404: 'Integration not found.',
  429: 'Too many requests.',
  500: 'An unexpected error occurred while processing your request.',
  503: 'Service temporarily unavailable.',
}

/** The one place where an error becomes an answer. What was not meant for the caller becomes `internal_error`. */
export function renderError(error: Error, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const refusal = toServiceError(error)
  if (refusal.status >= 500) request.log.error({ err: error, detail: refusal.detail }, 'request failed')
  else request.log.info({ code: refusal.code, detail: refusal.detail }, 'request refused')
  for (const [name, value] of Object.entries(headersOf(refusal))) reply.header(name, value)
  // Some errors come before any hook: of addresses that cannot be read.
  reply.header('x-request-id', request.id).header('cache-control', 'no-store')
  const surface = surfaceOf(request)
  if (surface === 'completion') sayAdmission(reply, error, refusal)
  if (refusal.status === 413) reply.header('connection', 'close')
  return reply.code(refusal.status).send(errorBody(surface, refusal, request.id))
}

export function errorBody(surface: Surface, refusal: ServiceError, requestId: string): object {
  const { code, message, fields, status } = refusal
  switch (surface) {
    case 'completion':
      return { error: message, code }
    case 'create_chat':
      return { detail: code === 'invalid_content_type' ? message : (CHAT_DETAILS[status] ?? message) }
    case 'rest':
      return { error: message, code, requestId, ...(fields?.length && { fields }) }
  }
}

/** `false` is said only when this attempt reserved nothing, and not where it could be taken for "try another id". */
function sayAdmission(reply: FastifyReply, error: Error, refusal: ServiceError): void {
  const state = error instanceof AfterAdmission ? error.state : 'none'
  if (typeof state === 'object') {
    reply.header('X-Agent-Run-Admitted', 'true').header('X-Agent-Run-Id', state.runId)
  } else if (state === 'none' && refusal.code !== 'usage_request_id_reused') {
    reply.header('X-Agent-Run-Admitted', 'false')
  }
}

function headersOf({ status, headers }: ServiceError): Record<string, string> {
  if (status === 401) return { 'WWW-Authenticate': 'Bearer', ...headers }
  if (status === 503) return { 'Retry-After': String(1 + Math.floor(Math.random() * 5)), ...headers }
  return { ...headers }
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

/** Unknown paths and wrong methods. */
export function renderNotFound(methodsOf: (path: string) => readonly string[]) {
  return (request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const methods = methodsOf(request.url.split('?')[0] ?? '')
    if (methods.length > 0) reply.header('allow', methods.join(', '))
    return renderError(new ServiceError(methods.length > 0 ? 'method_not_allowed' : 'route_not_found'), request, reply)
  }
}
