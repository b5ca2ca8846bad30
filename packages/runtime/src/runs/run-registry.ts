import type { RunControl } from '@bureau/framework'
import type { CancelMode, Message, RunEnded } from '@bureau/protocol'

/** A run, and who may ask for it. */
export type OwnedRun = {
  readonly runId: string
  /** The agency's name in the route prefix: a run can be cancelled only under its own agency. */
  readonly agency: string
  /** The user who began the run, where the server knows users. Others find no such run. */
  readonly userId: string | null
}

/** A run that is being executed, and how to stop it. */
export type LiveRun = OwnedRun & {
  readonly control: RunControl
  /** Resolves when the run has ended; never rejects. */
  readonly ended: Promise<RunEnded>
  /** What it would have produced if it ended now. */
  readonly soFar?: () => readonly Message[]
}

export type CancelRequest = OwnedRun & {
  readonly mode: CancelMode
  /** Longest wait for the run to end, in milliseconds. */
  readonly timeoutMs: number
}

/**
 * What a cancel led to. `ended` is null when the run did not end in time; `soFar` is then what it has produced, where the
 * process that was asked is the one that executes it.
 */
export type CancelOutcome = { readonly ended: RunEnded | null; readonly soFar?: readonly Message[] }

/** Finds the process that executes a run and tells it to stop. */
export interface RunRegistry {
  /** Makes the run known until it ends. Called before anybody can learn the run's id. */
  register(run: LiveRun): Promise<void>
  /**
   * Stops a registered run whose client has left before it had everything, and keeps its end for a minute: the client may
   * have sent a cancel at the same moment, whose answer says what the run has produced.
   */
  abandon(run: LiveRun): void
  /**
   * Undefined: no such run of this agency and user is live in any process, nor was one cancelled or abandoned in the last
   * minute. Two cancels of one run get equal outcomes, also when the second comes after the end.
   */
  cancel(request: CancelRequest): Promise<CancelOutcome | undefined>
  /** Whether another process executes this run of this agency and user. It may have ended a moment ago. */
  isElsewhere(run: OwnedRun): Promise<boolean>
  /** Stops all runs of this process. */
  cancelAll(): void
  close(): Promise<void>
}

/** Whether a run is asked for under its own agency and by its own user. */
export function isOwner(run: OwnedRun, asking: OwnedRun): boolean {
  return run.agency === asking.agency && run.userId === asking.userId
}
