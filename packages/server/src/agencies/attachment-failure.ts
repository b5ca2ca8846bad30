import type { RunError } from '@bureau/protocol'
import { AttachmentError, type AttachmentProblem } from '@bureau/runtime'

const CODES: Partial<Record<AttachmentProblem, RunError['code']>> = {
  blocked: 'attachment_blocked',
  local_disabled: 'attachment_blocked',
  local_directory_invalid: 'attachment_blocked',
  local_not_allowed: 'attachment_blocked',
  too_large: 'attachment_too_large',
  too_many: 'attachment_too_large',
  unsupported_type: 'attachment_type_mismatch',
}

/** Why `file_urls` could not be used. */
export function fileUrlsFailure(error: AttachmentError): RunError {
  const code = CODES[error.problem] ?? 'attachment_fetch_failed'
  if (code === 'attachment_type_mismatch') return { code, message: error.message }
  return { code, message: `Error downloading file from provided urls: ${error.message}` }
}

/** Why `file_ids` could not be used: the provider refused them, or their kind is not supported. */
export function fileIdsFailure(error: AttachmentError): RunError {
  const isType = error.problem === 'unsupported_type'
  return { code: isType ? 'attachment_type_mismatch' : 'upstream_invalid_request', message: error.message }
}

const OF_FILE_URLS: ReadonlySet<string> = new Set([
  'attachment_blocked',
  'attachment_fetch_failed',
  'attachment_too_large',
])

/**
 * Whether a run failed because of its `file_urls`.
 *
 * Existing clients look for `error` in an answer with status 200, and for a stream of one `error` frame and `end`, so
 * these failures keep that shape. Every other failure is a 500, or ends a stream of the usual shape.
 */
export function isFileUrlsFailure(error: RunError): boolean {
  return OF_FILE_URLS.has(error.code)
}
