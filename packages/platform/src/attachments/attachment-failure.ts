import type { RunErrorCode } from '@bureau/protocol'
import { EgressError, type EgressReason, shown } from '@bureau/runtime'
import type { AttachmentNote } from '../chats/note-attachment.ts'

/** Why an attachment keeps its run from being worked on. */
type AttachmentFailureCode = Extract<
  RunErrorCode,
  | 'attachment_fetch_failed'
  | 'attachment_blocked'
  | 'attachment_too_large'
  | 'attachment_type_mismatch'
  | 'storage_unavailable'
>

/**
 * An attachment that a run needs and cannot have: the run fails with `code`.
 *
 * `message` names the attachment and is fit for the caller. It never says what the network answered; `cause` does.
 */
export class AttachmentFailure extends Error {
  override readonly name = 'AttachmentFailure'
  readonly code: AttachmentFailureCode
  /** What to note of attachments whose address was refused: later turns need a fresh one. */
  readonly notes: readonly AttachmentNote[]

  constructor(
    code: AttachmentFailureCode,
    message: string,
    options: { readonly cause?: unknown; readonly notes?: readonly AttachmentNote[] } = {},
  ) {
    super(message, { cause: options.cause })
    this.code = code
    this.notes = options.notes ?? []
  }
}

const CODES: Readonly<Record<EgressReason, AttachmentFailureCode>> = {
  invalid_url: 'attachment_blocked',
  unsupported_scheme: 'attachment_blocked',
  blocked: 'attachment_blocked',
  failed: 'attachment_fetch_failed',
  timeout: 'attachment_fetch_failed',
  too_large: 'attachment_too_large',
}

const SENTENCES: Readonly<Record<AttachmentFailureCode, string>> = {
  attachment_fetch_failed: 'could not be fetched.',
  attachment_blocked: 'has an address that is not allowed.',
  attachment_too_large: 'is too large.',
  attachment_type_mismatch: 'is not of the type it claims to be.',
  storage_unavailable: 'cannot be read from the storage now.',
}

/** Answers of a server that signed addresses get once they have expired. */
const GONE = new Set([401, 403, 404, 410])

/** A failure in words for the caller. `name` is the caller's own name for the attachment. */
export function attachmentFailure(code: AttachmentFailureCode, name: string, cause?: unknown): AttachmentFailure {
  return new AttachmentFailure(code, `The attachment "${shown(name)}" ${SENTENCES[code]}`, { cause })
}

/** What a failed download means for the run. */
export function downloadFailure({ id, name }: { id: string; name: string }, error: unknown): AttachmentFailure {
  if (!(error instanceof EgressError)) return attachmentFailure('attachment_fetch_failed', name, error)
  const failure = attachmentFailure(CODES[error.reason], name, error)
  if (error.status === undefined || !GONE.has(error.status)) return failure
  return new AttachmentFailure(failure.code, failure.message, { cause: error, notes: [{ id, gone: true }] })
}
