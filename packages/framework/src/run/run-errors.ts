// oxlint-disable max-classes-per-file -- the three ways in which a run ends early
import { RUN_ERRORS, type RunErrorCode } from '@bureau/protocol'

/** Why a run was stopped from outside: cancelled, longer than its agency allows, or going on in another process. */
export class RunStopped extends Error {
  override readonly name = 'RunStopped'
  readonly reason: 'cancelled' | 'timeout' | 'handed_over'

  constructor(reason: RunStopped['reason'], options: { readonly cause?: unknown } = {}) {
    super(STOPPED[reason], options)
    this.reason = reason
  }
}

const STOPPED = {
  cancelled: 'The run was cancelled.',
  timeout: 'The run took longer than it may.',
  handed_over: 'The run goes on in another process.',
} as const

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

  constructor({ side, name, guidance }: Pick<GuardrailTripped, 'side' | 'guidance'> & { readonly name: string }) {
    super(`The guardrail "${name}" has refused the ${side}.`)
    this.side = side
    this.guidance = guidance
  }
}
