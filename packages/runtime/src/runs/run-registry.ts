import type { RunControl } from '@bureau/framework'
import type { CancelMode, Message, RunEnded } from '@bureau/protocol'

/** A run that is being executed, and how to stop it. */
export type LiveRun = {
  readonly runId: string
  /** The agency's name in the route prefix: a run can be cancelled only under its own agency. */
  readonly agency: string
  /** The user who began the run, where the server knows users. Others find no such run. */
  readonly userId: string | null
  readonly control: RunControl
  /** Resolves when the run has ended; never rejects. */
  readonly ended: Promise<RunEnded>
  /** What it would have produced if it ended now. */
  readonly soFar?: () => readonly Message[]
}

export type CancelRequest = {
  readonly runId: string
  readonly agency: string
  readonly userId: string | null
  readonly mode: CancelMode
  /** Longest wait for the run to end, in milliseconds. */
  readonly timeoutMs: number
}

/**
 * What a cancel led to. `ended` is null when the run did not end in time; `soFar` is then what it has produced, where the
 * process that was asked is the one that executes it.
 */
export type CancelOutcome = { readonly ended: RunEnded | null; readonly soFar?: readonly Message[] }

/** A cancel that arrives this long after another one has ended the run gets the same answer. */
export const REPEAT_MS = 5_000

/** Finds the process that executes a run and tells it to stop. */
export interface RunRegistry {
  /** Makes the run known until it ends. Called before anybody can learn the run's id. */
  register(run: LiveRun): Promise<void>
  /**
   * Undefined: no such live run of this agency and user, in no process. Two cancels of one run get equal outcomes, also
   * when the second comes up to `REPEAT_MS` after the end.
   */
  cancel(request: CancelRequest): Promise<CancelOutcome | undefined>
  close(): Promise<void>
}
