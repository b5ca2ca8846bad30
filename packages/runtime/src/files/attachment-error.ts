/** What was wrong with an attachment. */
export type AttachmentProblem =
  | 'local_disabled'
  | 'local_directory_invalid'
  | 'local_not_allowed'
  | 'local_not_found'
  | 'local_not_a_file'
  | 'local_unreadable'
  | 'too_many'
  | 'scheme_missing'
  | 'unsupported_scheme'
  | 'invalid_url'
  | 'invalid_name'
  | 'unsupported_type'
  | 'no_extension'
  | 'blocked'
  | 'download_failed'
  | 'timeout'
  | 'too_large'
  | 'upload_failed'
  | 'processing_failed'
  | 'processing_timeout'

type AttachmentErrorOptions = {
  /** For the log only: may name addresses and real paths. */
  readonly detail?: string | undefined
  readonly cause?: unknown
}

/**
 * An attachment that cannot be used, and with it its whole request.
 *
 * `message` is fit for the caller. It repeats what the caller sent, without credentials and query strings, and never
 * a resolved address, a resolved path or a provider's text. `detail` and `cause` go to the log.
 */
export class AttachmentError extends Error {
  override readonly name = 'AttachmentError'
  readonly problem: AttachmentProblem
  readonly detail: string | undefined

  constructor(problem: AttachmentProblem, message: string, options: AttachmentErrorOptions = {}) {
    super(message, { cause: options.cause })
    this.problem = problem
    this.detail = options.detail
  }
}

const MAX_SHOWN_LENGTH = 200

/** A caller's path, URL or name as it may appear in a message: one line, short, no credentials, no query. */
export function shown(text: string): string {
  const oneLine = withoutSecrets(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, '\u{FFFD}')
  return oneLine.length > MAX_SHOWN_LENGTH ? `${oneLine.slice(0, MAX_SHOWN_LENGTH)}…` : oneLine
}

/** Works on text, because what is shown may be no URL at all. A single letter is a drive, not a scheme. */
function withoutSecrets(text: string): string {
  const start = /^\s*(?:[a-z][a-z0-9+.-]+:[\\/]*|[\\/]{2,})/i.exec(text)?.[0]
  if (start === undefined) return text
  const rest = text.slice(start.length).replace(/[?#].*$/s, '')
  return start + rest.replace(/^[^\\/]*@/, '')
}
