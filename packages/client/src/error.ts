import type { ErrorCode, RunErrorCode } from '@bureau/protocol'

/**
 * Why something did not work: the code of a refusal or of a failed run as docs/errors.md has it, or one of the client's.
 *
 * - `connection_lost`: the connection broke and could not be had again in time. The run may go on: `run` names it.
 * - `detached`: `detach()` was called, or the signal aborted.
 * - `not_answered`: a message that was sent before a reload did not arrive, or its run is no longer kept.
 * - `not_found`, `refused`: a refusal without a code of its own, by its status.
 * - `not_a_stream`: the answer is no stream of events, e.g. of an integration in Text Only Mode.
 */
export type BureauErrorCode =
  | ErrorCode
  | RunErrorCode
  | 'connection_lost'
  | 'detached'
  | 'not_answered'
  | 'not_found'
  | 'refused'
  | 'not_a_stream'
  // Servers of later versions know more of them.
  | (string & {})

type Facts = {
  readonly status?: number | undefined
  readonly run?: string | undefined
  readonly retryable?: boolean
  readonly retryAfterMs?: number | undefined
  readonly body?: unknown
  readonly cause?: unknown
}

/** What every promise of the client rejects with. */
export class BureauError extends Error {
  override readonly name = 'BureauError'
  readonly code: BureauErrorCode
  /** The HTTP status of a refusal. */
  readonly status: number | undefined
  /** The id of the run that it is about, once that is known. */
  run: string | undefined
  /** Whether it may go well later: for a lost connection to attach, for all else to send the message again. */
  readonly retryable: boolean = false
  /** How long the server asks to wait, in milliseconds. */
  readonly retryAfterMs: number | undefined
  /** The body of a refusal as it came, e.g. with `detail` or `fields`. */
  readonly body: unknown

  constructor(code: BureauErrorCode, message: string, { cause, ...facts }: Facts = {}) {
    super(message, { cause })
    this.code = code
    Object.assign(this, facts)
  }
}
