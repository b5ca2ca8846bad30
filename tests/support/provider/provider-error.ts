import type { JsonObject } from './json-object.ts'

type Details = { status?: number; param?: string | null; code?: string | null; type?: string }

/** A refusal by the provider, with the sentence and fields that the real service uses. */
export class ProviderError extends Error {
  override readonly name = 'ProviderError'
  readonly status: number
  readonly param: string | null
  readonly code: string | null
  readonly type: string

  constructor(message: string, details: Details = {}) {
    super(message)
    this.status = details.status ?? 400
    this.param = details.param ?? null
    this.code = details.code ?? null
    this.type = details.type ?? 'invalid_request_error'
  }

  get body(): JsonObject {
    const { message, type, param, code } = this
    return { error: { message, type, param, code } }
  }
}

export const unknownParameter = (param: string): ProviderError =>
  new ProviderError(`Unknown parameter: '${param}'.`, { param, code: 'unknown_parameter' })

export const missingParameter = (param: string): ProviderError =>
  new ProviderError(`Missing required parameter: '${param}'.`, { param, code: 'missing_required_parameter' })

export function invalidValue(param: string, value: unknown, supported: readonly string[]): ProviderError {
  const list = supported.map((entry) => `'${entry}'`).join(', ')
  return new ProviderError(`Invalid value: '${String(value)}'. Supported values are: ${list}.`, {
    param,
    code: 'invalid_value',
  })
}

export const invalidType = (param: string, expected: string): ProviderError =>
  new ProviderError(`Invalid type for '${param}': expected ${expected}.`, { param, code: 'invalid_type' })

/** The usual answer of the service for an HTTP status. */
export function errorOfStatus(status: number): ProviderError {
  const known = BY_STATUS[status]
  if (known) return new ProviderError(known.message, { status, type: known.type, code: known.code })
  const type = status >= 500 ? 'server_error' : 'invalid_request_error'
  return new ProviderError(`The request failed with status ${status}.`, { status, type })
}

const BY_STATUS: Readonly<Record<number, { message: string; type: string; code: string | null }>> = {
  401: { message: 'Incorrect API key provided.', type: 'invalid_request_error', code: 'invalid_api_key' },
  404: { message: 'The model does not exist.', type: 'invalid_request_error', code: 'model_not_found' },
  429: { message: 'Rate limit reached for requests.', type: 'requests', code: 'rate_limit_exceeded' },
  500: { message: 'The server had an error while processing your request.', type: 'server_error', code: null },
  503: { message: 'The engine is currently overloaded.', type: 'server_error', code: null },
}
