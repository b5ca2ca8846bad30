import { type CancelMode, RUN_ERRORS, type RunErrorCode } from '@bureau/protocol'

/** Why a run was stopped from outside: cancelled, or longer than its agency allows. */
export class RunStopped extends Error {
  override readonly name = 'RunStopped'
  readonly reason: 'cancelled' | 'timeout'

  constructor(reason: RunStopped['reason']) {
    super(reason === 'cancelled' ? 'The run was cancelled.' : 'The run took longer than it may.')
    this.reason = reason
  }
}

/** Stops one run: at once through `signal`, or after the running turn. */
export class RunControl {
  readonly #abort = new AbortController()
  readonly #stop = new AbortController()
  #stopAfterTurn = false

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  /** Aborts on every way to stop: for waits that no turn should be held up by. */
  get stopSignal(): AbortSignal {
    return this.#stop.signal
  }

  /** True: the conversation with the user must not start another turn. */
  get stopAfterTurn(): boolean {
    return this.#stopAfterTurn
  }

  /** May be called again: `after_turn` can be sharpened to `immediate`, not the reverse. */
  cancel(mode: CancelMode): void {
    if (mode === 'after_turn') this.#stopAfterTurn = true
    else this.#abort.abort(new RunStopped('cancelled'))
    this.#stop.abort(new RunStopped('cancelled'))
  }

  timeOut(): void {
    this.#abort.abort(new RunStopped('timeout'))
    this.#stop.abort(new RunStopped('timeout'))
  }
}

/** A run that cannot go on, for a reason of the run's own. `cause` is for the log. */
export class RunFailed extends Error {
  override readonly name = 'RunFailed'
  readonly code: RunErrorCode

  constructor(code: RunErrorCode, options: { readonly cause?: unknown } = {}) {
    super(RUN_ERRORS[code].message, options)
    this.code = code
  }
}

/** A guardrail has refused what was said. Its guidance is meant for the conversation. */
export class GuardrailTripped extends Error {
  override readonly name = 'GuardrailTripped'
  readonly side: 'input' | 'output'
  readonly guidance: string

  constructor(side: GuardrailTripped['side'], guidance: string) {
    super(`A guardrail has refused the ${side}.`)
    this.side = side
    this.guidance = guidance
  }
}
