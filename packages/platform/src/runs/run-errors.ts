import type { RunErrorClass } from '@bureau/protocol'

export { RUN_ERRORS, type RunErrorCode } from '@bureau/protocol'

/** Whether the same request may succeed when it is sent again (with a new usageRequestId). */
export function isRetryable(code: string, errorClass: RunErrorClass): boolean {
  return (errorClass === 'system' || errorClass === 'upstream') && code !== 'upstream_auth_failed'
}
