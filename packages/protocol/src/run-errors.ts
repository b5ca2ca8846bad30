/**
 * Whose doing a failed run is: `system` ours, `upstream` the model provider's or a tool server's, `caller` the request's,
 * `limit` a bound that was set.
 */
export type RunErrorClass = 'system' | 'upstream' | 'caller' | 'limit'

/**
 * Why runs fail: the sentence is what the caller reads.
 *
 * Codes are public API: added, never renamed or reused. docs/errors.md is made from this table.
 */
export const RUN_ERRORS = {
  runner_lost: { class: 'system', message: 'The server running this response stopped.' },
  server_shutdown: { class: 'system', message: 'The server was shut down before the response was complete.' },
  internal_error: { class: 'system', message: 'Something failed on our side.' },
  agency_changed: {
    class: 'system',
    message:
      'The agency was changed while the run was interrupted: an agent or a tool that it needs is no longer there.',
  },
  invalid_configuration: { class: 'system', message: 'The agency is not set up completely.' },
  run_failed: { class: 'system', message: 'The agent could not complete the run.' },
  approval_required: { class: 'system', message: 'A tool waits for an approval, which cannot be given in this run.' },
  sandbox_unavailable: { class: 'system', message: 'The sandbox of the agency is not available.' },
  storage_unavailable: { class: 'system', message: 'The storage of the agency is not available.' },
  upstream_unavailable: {
    class: 'upstream',
    message: 'The model provider could not be reached or answered with a server error.',
  },
  upstream_timeout: { class: 'upstream', message: 'The model provider did not answer in time.' },
  upstream_rate_limited: {
    class: 'upstream',
    message: 'The model provider refused the request because of its rate limits.',
  },
  upstream_quota_exhausted: {
    class: 'upstream',
    message: 'The model provider says that the account has no quota left.',
  },
  upstream_auth_failed: { class: 'upstream', message: 'The model provider did not accept the API key.' },
  upstream_invalid_request: { class: 'upstream', message: 'The model provider refused the request as not valid.' },
  upstream_invalid_response: {
    class: 'upstream',
    message: 'The model provider broke off or sent an answer that is not valid.',
  },
  upstream_event_too_large: {
    class: 'upstream',
    message: 'The model provider sent a single event that is larger than 16 MiB.',
  },
  tool_server_unavailable: { class: 'upstream', message: 'A tool server could not be reached.' },
  attachment_fetch_failed: { class: 'caller', message: 'An attachment could not be fetched.' },
  attachment_blocked: { class: 'caller', message: 'The address of an attachment is not allowed.' },
  attachment_too_large: { class: 'caller', message: 'An attachment is too large.' },
  attachment_type_mismatch: { class: 'caller', message: 'An attachment is not of the type it claims to be.' },
  context_length_exceeded: { class: 'caller', message: 'The conversation is too long for the model.' },
  guardrail_tripped: { class: 'caller', message: 'A guardrail stopped the response.' },
  content_refused: { class: 'caller', message: 'The model provider refused the content.' },
  invalid_history: { class: 'caller', message: 'The history cannot be continued.' },
  oauth_timeout: { class: 'caller', message: 'Nobody signed in to the tool server in time.' },
  function_name_taken: {
    class: 'caller',
    message: "A function of the request has the name of one of the agent's own tools.",
  },
  invalid_user_context: { class: 'caller', message: 'The agency does not accept this user_context.' },
  response_incomplete: { class: 'limit', message: 'The model stopped before it had an answer.' },
  run_timeout: { class: 'limit', message: 'The run took longer than it may.' },
  max_turns_exceeded: { class: 'limit', message: 'The agent used all its turns without coming to an answer.' },
  output_limit_exceeded: { class: 'limit', message: 'The response is too long.' },
} as const satisfies Record<string, { class: RunErrorClass; message: string }>

export type RunErrorCode = keyof typeof RUN_ERRORS

/** The same request meets the same end, until an operator changes something. */
const LASTING: ReadonlySet<string> = new Set<RunErrorCode>([
  'invalid_configuration',
  'approval_required',
  'upstream_quota_exhausted',
  'upstream_auth_failed',
  'upstream_invalid_request',
  'upstream_event_too_large',
])

/**
 * Whether the same request may succeed when it is sent again (on the platform with a new usageRequestId): not when the
 * request or a limit was the reason, nor when the provider refused it for what it is.
 */
export function isRetryable(code: string, errorClass: RunErrorClass): boolean {
  return (errorClass === 'system' || errorClass === 'upstream') && !LASTING.has(code)
}
