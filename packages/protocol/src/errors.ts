/**
 * Every refusal a caller can meet: the HTTP status and its sentence.
 *
 * Codes are public API: added, never renamed or reused. docs/errors.md lists them and a check compares.
 */
export const ERRORS = {
  // Any surface
  invalid_json: { status: 400, message: 'The body is not one valid JSON object.' },
  invalid_content_type: { status: 400, message: 'Send the body as application/json, without a content encoding.' },
  invalid_request: { status: 400, message: 'The request is not valid.' },
  route_not_found: { status: 404, message: 'There is no such route.' },
  method_not_allowed: { status: 405, message: 'This route does not accept that method.' },
  body_too_large: { status: 413, message: 'The body is too large.' },
  body_too_slow: { status: 408, message: 'The body did not arrive in time.' },
  internal_error: { status: 500, message: 'Something failed on our side.' },
  invalid_last_event_id: { status: 400, message: 'Last-Event-ID (or starting_after) must be a whole number.' },
  stream_unavailable: { status: 503, message: 'The stream of this run cannot be reached now.' },
  overloaded: { status: 503, message: 'The server is at its limit. Try again shortly.' },
  server_draining: { status: 503, message: 'The server is shutting down. Try again shortly.' },
  files_unavailable: { status: 503, message: 'The stored files cannot be reached. Try again shortly.' },
  database_unavailable: { status: 503, message: 'The database cannot be reached. Try again shortly.' },

  // Self-hosted server
  not_authenticated: { status: 401, message: 'Send a token in the header Authorization: Bearer <token>.' },
  forbidden: { status: 403, message: 'This user may not do that here.' },
  unauthorized: { status: 401, message: 'The token in the Authorization header is not valid.' },
  host_not_allowed: { status: 403, message: 'Without a token, this server does not answer under that host name.' },
  origin_not_allowed: { status: 403, message: 'Pages of this origin may not call this server.' },
  issuer_unavailable: { status: 503, message: 'The issuer of the access tokens cannot be reached. Try again shortly.' },
  user_not_resolved: { status: 401, message: 'The user of this request could not be determined.' },
  oauth_needs_streaming: {
    status: 400,
    message:
      'This agency signs in to OAuth-protected tool servers. Use the streaming route (or enableAgui) and buffer the stream.',
  },
  run_not_found: { status: 404, message: 'There is no such run.' },
  request_id_reused: {
    status: 422,
    message: 'This request_id was sent before with another body. Send a new one with a new message.',
  },
  request_ended: {
    status: 409,
    message:
      'The run of this request_id has ended, and its events are no longer kept. To ask again, send a new request_id.',
  },
  unknown_oauth_state: { status: 404, message: 'There is no such sign-in.' },
  oauth_callback_rejected: { status: 400, message: 'This sign-in callback was not accepted.' },
  log_id_required: { status: 400, message: 'Log ID is required' },
  log_not_found: { status: 404, message: 'Log file not found' },
  thread_not_found: {
    status: 404,
    message: 'There is no such thread. It may have been forgotten: begin a new one.',
  },
  run_failed: { status: 500, message: 'The run failed.' },
  run_cancelled: { status: 500, message: 'The run was cancelled.' },
  package_missing: {
    status: 501,
    message: 'This protocol needs a package that the server does not have: npm install @modelcontextprotocol/server',
  },
  tool_not_found: { status: 404, message: 'The agent has no such tool that this server carries out.' },
  tool_failed: { status: 500, message: 'The tool failed.' },
  attachment_rejected: { status: 400, message: 'An attachment could not be used.' },

  // Completions of the hosted platform
  invalid_attachment: { status: 400, message: 'An attachment is not valid.' },
  attachment_too_large: { status: 400, message: 'An attachment is too large.' },
  invalid_sandbox_file: { status: 400, message: 'A sandbox file must name a canonical path under /app/mnt/.' },
  sandbox_file_not_found: { status: 400, message: 'There is no such file in the agency mount.' },
  invalid_agent: { status: 400, message: 'The agency has no such entry-point agent.' },
  chat_alias_conflict: { status: 400, message: 'The alias and the chat do not belong together.' },
  allowance_attribution_required: { status: 400, message: 'Send consumerId and usageRequestId for this integration.' },
  invalid_attachment_refresh: { status: 400, message: 'attachmentUrlRefreshes is not valid.' },
  attachment_refresh_required: { status: 400, message: 'Earlier attachments need fresh URLs.' },
  attachment_refresh_ambiguous: { status: 400, message: 'Two different earlier files share one address.' },
  invalid_api_key: {
    status: 401,
    message: 'The API key is missing or not valid. Send it in the header Authorization: Bearer <key>.',
  },
  invalid_consumer_token: {
    status: 401,
    message: 'The consumer token is not valid, or has ended. Get another one.',
  },
  integration_forbidden: { status: 403, message: 'This API key does not own the integration.' },
  insufficient_scope: { status: 403, message: 'This API key may not do that.' },
  integration_disabled: { status: 403, message: 'The integration is switched off by its owner.' },
  owner_not_found: { status: 404, message: 'There is no such owner.' },
  integration_not_found: { status: 404, message: 'There is no such integration.' },
  member_not_found: { status: 404, message: 'There is no such member. Register the member first.' },
  chat_not_found: { status: 404, message: 'There is no such chat in this integration.' },
  run_active: { status: 409, message: 'The previous run of this chat is still active.' },
  run_waiting: {
    status: 409,
    message: 'The previous run of this chat waits for a person. Decide about it, or cancel it.',
  },
  usage_request_id_reused: {
    status: 422,
    message: 'usageRequestId is already used by another request. Check the chat status.',
  },
  consumer_allowance_exhausted: { status: 429, message: 'The consumer has used up the current allowance.' },
  consumer_inactive: { status: 429, message: 'The consumer is inactive.' },
  consumer_concurrency_exceeded: { status: 429, message: 'The consumer has too many responses in progress.' },
  rate_limited: { status: 429, message: 'Too many requests.' },

  // Other routes of the hosted platform
  approval_not_found: { status: 404, message: 'The run has no such call that waits for a person.' },
  approval_missing: { status: 409, message: 'Decide about all calls of the run that wait, in one request.' },
  approval_decided: { status: 409, message: 'The call was decided about otherwise.' },
  approval_expired: { status: 409, message: 'Nobody has decided about the call in time.' },
  run_not_waiting: { status: 409, message: 'The run does not wait for a decision.' },
  invalid_cursor: { status: 400, message: 'The cursor is not valid for this list.' },
  idempotency_key_reused: { status: 422, message: 'The Idempotency-Key was used with another request.' },
  idempotency_in_progress: {
    status: 409,
    message:
      'A request with this Idempotency-Key is still running, or its answer was lost. ' +
      'A minute after it began it can be carried out again: look first for what it has made.',
  },
  idempotency_key_required: { status: 400, message: 'Send an Idempotency-Key header.' },
  version_conflict: { status: 412, message: 'The resource was changed meanwhile. Read it again.' },
  usage_request_not_found: { status: 404, message: 'Nothing is reserved under this usageRequestId.' },
  invalid_offset: { status: 400, message: 'offset must be a byte position on a character boundary.' },
  alias_in_use: { status: 409, message: 'The alias belongs to another chat.' },
  member_exists: { status: 409, message: 'The member exists with other values.' },
  invalid_consumer_id: { status: 400, message: 'consumerId may hold 1 to 256 of A-Z a-z 0-9 . _ : @ + = ~ | -' },
  invalid_allowance: { status: 400, message: 'The allowance is not valid.' },
  invalid_adjustment: { status: 400, message: 'The adjustment is not valid.' },
  invalid_file_name: { status: 400, message: 'The file name is not valid.' },
  file_too_large: { status: 400, message: 'The file is too large.' },
  upload_too_large: { status: 413, message: 'The upload is larger than declared.' },
  file_not_found: { status: 404, message: 'There is no such file.' },
  storage_not_enabled: { status: 409, message: 'The integration has no persistent storage.' },
  storage_quota_exceeded: { status: 507, message: 'The storage of the integration is full.' },
  invalid_upload_token: { status: 401, message: 'The upload token is missing or not valid.' },
  upload_offset_mismatch: { status: 409, message: 'The upload continues at another offset.' },
  upload_too_many_parts: { status: 409, message: 'The upload has too many parts. Send larger ones, or all at once.' },
  upload_complete: { status: 409, message: 'The upload is complete. Create another one for other content.' },
  upload_expired: { status: 410, message: 'The upload has expired.' },
  checksum_mismatch: { status: 422, message: 'The content does not match its checksum.' },
  unknown_agency: { status: 400, message: 'The agency is not part of this deployment.' },
  runs_active: { status: 409, message: 'Runs of the integration are still active.' },
  api_key_not_found: { status: 404, message: 'There is no such API key.' },
  webhook_not_found: { status: 404, message: 'There is no such webhook endpoint.' },
  invalid_webhook_url: { status: 400, message: 'The webhook URL is not a public HTTPS address.' },
  invalid_time_range: { status: 400, message: 'The time range is not valid.' },
} as const satisfies Record<string, { status: number; message: string }>

export type ErrorCode = keyof typeof ERRORS

/** One field of a refused request: a JSON pointer, what is wrong, and how to put it right. */
export type FieldProblem = { readonly path: string; readonly code: string; readonly error: string }

export type ServiceErrorOptions = {
  /** Replaces the table's sentence; must be fit for the caller's eyes. */
  readonly message?: string
  readonly fields?: readonly FieldProblem[]
  /** Response headers that belong to the refusal, e.g. `Retry-After`. */
  readonly headers?: Readonly<Record<string, string>>
  /** Members of the refusal's body besides those of every error. */
  readonly body?: Readonly<Record<string, string>>
  /** For the log only. */
  readonly detail?: string
  readonly cause?: unknown
}

/**
 * A refusal that is meant for the caller.
 *
 * `message`, `fields` and `headers` are public; `detail` and `cause` go to the log and never leave the process.
 * Anything else that is thrown is a defect, and callers see `internal_error`.
 */
export class ServiceError extends Error {
  override readonly name = 'ServiceError'
  readonly code: ErrorCode
  readonly status: number
  readonly fields: readonly FieldProblem[] | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly body: Readonly<Record<string, string>>
  readonly detail: string | undefined

  constructor(code: ErrorCode, options: ServiceErrorOptions = {}) {
    super(options.message ?? ERRORS[code].message, { cause: options.cause })
    this.code = code
    this.status = ERRORS[code].status
    this.fields = options.fields
    this.headers = options.headers ?? {}
    this.body = options.body ?? {}
    this.detail = options.detail
  }
}
