/** Why a stream ends without its last frame. */
type BreakReason =
  | 'run_failed'
  | 'run_taken_away'
  | 'run_handed_over'
  | 'run_waits'
  | 'server_shutdown'
  | 'log_lost'
  | 'log_unreachable'

/**
 * A stream that cannot go on. Whoever writes it to a client resets the connection, so that the client does not take
 * what it has for the whole.
 */
export class StreamBroken extends Error {
  override readonly name = 'StreamBroken'
  readonly reason: BreakReason

  constructor(reason: BreakReason, options: { cause?: unknown } = {}) {
    super(`the stream was broken off: ${reason}`, options)
    this.reason = reason
  }
}

/** Passes on what a log is read from, and why that breaks off. When it fails otherwise, its client is to come again. */
export async function* orBreakOff<T>(source: AsyncIterable<T>): AsyncGenerator<T, void> {
  try {
    yield* source
  } catch (cause) {
    throw cause instanceof StreamBroken ? cause : new StreamBroken('log_unreachable', { cause })
  }
}
