import { RUN_ERRORS, type RunError, type ServiceError } from '@bureau/protocol'
import { type ErrorHandler, errorGate, publicError } from '@bureau/runtime'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Remedies } from '../begin.ts'
import type { FaceRun } from '../face-host.ts'

/** The error object of OpenAI's API. Our own code is in `code`. */
export const ApiErrorBody = z
  .object({
    error: z.object({
      message: z.string(),
      type: z.string(),
      param: z.string().nullable(),
      code: z.string().nullable(),
    }),
  })
  .meta({ id: 'OpenAIError' })
export type ApiErrorBody = z.output<typeof ApiErrorBody>

type ApiErrorOptions = {
  readonly status: number
  readonly code: string
  /** The member of the request that is wrong: `messages[2].content`. */
  readonly param?: string | null
  readonly headers?: Readonly<Record<string, string>>
}

/** A refusal, or a failed run, that is meant for the caller. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: ApiErrorBody

  constructor(message: string, { status, code, param = null, headers = {} }: ApiErrorOptions) {
    super(message)
    this.status = status
    this.headers = headers
    this.body = { error: { message, type: typeOf(status), param, code } }
  }
}

/** A member of the request that cannot be used. */
export function invalidParam(param: string, message: string, code = 'invalid_value'): ApiError {
  return new ApiError(`${param}: ${message}`, { status: 400, code, param })
}

/** Something that the API has and this server does not. */
export function unsupportedParam(param: string, message: string): ApiError {
  return invalidParam(param, message, 'unsupported_parameter')
}

/**
 * A failed run. Clients of this API send again what ends with a 5xx: here they must not, because the run may have done
 * things before it failed.
 */
export function failedRun(error: RunError | null): ApiError {
  const { code, message } = error ?? { code: 'run_failed', message: 'The run was cancelled.' }
  const remedy = code === 'approval_required' ? ' The Responses API has a way to bring one.' : ''
  return new ApiError(message + remedy, { status: statusOf(code), code, headers: NOT_AGAIN })
}

const NOT_AGAIN = { 'x-should-retry': 'false' }

/**
 * Does what follows on the beginning of a run. What fails there is not sent again either: without an `Idempotency-Key` that would
 * begin another run.
 */
export async function afterBegin<Result>(
  { request, run }: { readonly request: FastifyRequest; readonly run: FaceRun },
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    run.leave()
    if (error instanceof ApiError) throw error
    const { message, status, code, headers } = publicError(error as Error, request)
    // A server that keeps no conversations knows no such key again.
    const isRepeatable = run.conversation !== undefined && request.headers['idempotency-key'] !== undefined
    throw new ApiError(message, { status, code, headers: { ...headers, ...(!isRepeatable && NOT_AGAIN) } })
  }
}

const STATUSES: Partial<Record<string, number>> = {
  upstream_rate_limited: 429,
  upstream_quota_exhausted: 429,
  upstream_timeout: 504,
  server_shutdown: 503,
  approval_required: 400,
}

function statusOf(code: RunError['code']): number {
  const errorClass = RUN_ERRORS[code].class
  return STATUSES[code] ?? (errorClass === 'caller' ? 400 : errorClass === 'upstream' ? 502 : 500)
}

function typeOf(status: number): string {
  if (status === 429) return 'rate_limit_error'
  if (status === 401) return 'authentication_error'
  if (status === 403) return 'permission_error'
  return status < 500 ? 'invalid_request_error' : 'server_error'
}

/** For refusals of a server that name members of its own routes. */
export const REMEDIES: Remedies = {
  consumer: 'Send user.',
  waiting: (runId) =>
    `Send the decision as a bureau:approval_response, or cancel the run: POST /v1/runs/${runId}/cancel.`,
}

/** The last frame of every stream of this API. */
export const DONE = 'data: [DONE]\n\n'

/** What ends the stream of a client that may read no longer. */
export const refusedStream = ({ message, status, code }: ServiceError): string =>
  `data: ${JSON.stringify(new ApiError(message, { status, code }).body)}\n\n${DONE}`

/** Errors of every route under `/openai/v1`. */
export const sendApiError: ErrorHandler = errorGate((error, request) => {
  if (error instanceof ApiError) return error
  const { message, ...refused } = publicError(error, request)
  return new ApiError(message, refused)
})

/** What all rows of this API have. */
export const API_ROW = { tag: 'openai', errorBody: ApiErrorBody, fastify: { errorHandler: sendApiError } } as const
