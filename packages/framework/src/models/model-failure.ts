import type { Fields } from '@bureau/protocol'
import { causesOf } from '../causes.ts'
import { ModelError, type ModelErrorCode, modelErrorOfStatus } from './model-error.ts'

/**
 * What an error of somebody else's model client means: the vendor's client, the AI SDK, or `fetch`.
 *
 * Errors that do not come from the provider are returned as they are, because they are defects of the model object.
 */
export function toModelError(error: unknown): unknown {
  if (error instanceof ModelError || typeof error !== 'object' || error === null) return error
  // What our own `fetch` has refused, a client wraps as an answer that it could not read.
  for (const cause of causesOf(error)) if (cause instanceof ModelError) return cause
  forgetRequest(error)
  const fields = error as Fields
  const detail = detailOf(fields)
  const codes = [fields['statusCode'], fields['status'], fields['code']].map(Number)
  const status = codes.find((each) => each >= 400 && each < 600)
  if (status !== undefined) return withCause(modelErrorOfStatus(status, detail), error)
  const code = codeOfName(fields) ?? codeOfNetwork(error)
  return code === undefined ? error : new ModelError(code, { detail, cause: error })
}

/** Errors of the AI SDK carry the whole conversation, and errors are logged with their causes. */
function forgetRequest(error: object): void {
  for (const cause of causesOf(error)) {
    for (const member of ['requestBodyValues', 'prompt']) Reflect.deleteProperty(cause, member)
  }
}

/** What the error code of a finished Responses response means. Gateways put the HTTP status there. */
export function modelErrorOfCode(code: unknown, detail: string): ModelError {
  const status = Number(code)
  if (status >= 400 && status < 600) return modelErrorOfStatus(status, detail)
  return new ModelError(NAMES.get(String(code)) ?? 'upstream_invalid_response', { detail })
}

/** Names of AI SDK errors, and types and codes that providers report inside a stream. */
const NAMES: ReadonlyMap<string, ModelErrorCode> = new Map(
  Object.entries<ModelErrorCode>({
    AI_EmptyResponseBodyError: 'upstream_invalid_response',
    AI_InvalidResponseDataError: 'upstream_invalid_response',
    AI_JSONParseError: 'upstream_invalid_response',
    AI_NoContentGeneratedError: 'upstream_invalid_response',
    AI_TypeValidationError: 'upstream_invalid_response',
    AI_InvalidArgumentError: 'upstream_invalid_request',
    AI_InvalidPromptError: 'upstream_invalid_request',
    AI_UnsupportedFunctionalityError: 'upstream_invalid_request',
    UserError: 'upstream_invalid_request',
    invalid_prompt: 'upstream_invalid_request',
    invalid_request_error: 'upstream_invalid_request',
    AI_LoadAPIKeyError: 'upstream_auth_failed',
    authentication_error: 'upstream_auth_failed',
    invalid_api_key: 'upstream_auth_failed',
    permission_error: 'upstream_auth_failed',
    insufficient_quota: 'upstream_quota_exhausted',
    rate_limit_error: 'upstream_rate_limited',
    rate_limit_exceeded: 'upstream_rate_limited',
    api_error: 'upstream_unavailable',
    overloaded_error: 'upstream_unavailable',
    server_error: 'upstream_unavailable',
    vector_store_timeout: 'upstream_timeout',
    context_length_exceeded: 'context_length_exceeded',
  }),
)

function codeOfName(error: Fields): ModelErrorCode | undefined {
  for (const member of ['name', 'type', 'code'] as const) {
    const code = NAMES.get(String(error[member]))
    if (code) return code
  }
  // The AI SDK reports an answer that it cannot read as a call with status 200, and a lost network as one without.
  if (error['name'] === 'AI_APICallError' && error['statusCode'] !== undefined) return 'upstream_invalid_response'
  return undefined
}

/** Looks for a system or undici error code, which clients wrap in errors of their own. */
function codeOfNetwork(error: object): ModelErrorCode | undefined {
  for (const { code } of causesOf(error)) {
    if (typeof code !== 'string') continue
    if (/TIMEOUT|TIMEDOUT/.test(code)) return 'upstream_timeout'
    if (/^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)$/.test(code)) return 'upstream_unavailable'
    if (/^(ECONNRESET|EPIPE|UND_ERR_.*)$/.test(code)) return 'upstream_invalid_response'
  }
  return (error as Fields)['name'] === 'AI_APICallError' ? 'upstream_unavailable' : undefined
}

function detailOf({ message, responseBody }: Fields): string {
  return [message, responseBody].filter((text) => typeof text === 'string' && text !== '').join(' ')
}

function withCause(error: ModelError, cause: unknown): ModelError {
  const { code, status, detail = '' } = error
  return new ModelError(code, { cause, detail, ...(status !== undefined && { status }) })
}
