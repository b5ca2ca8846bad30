import type { RunEnded, RunError } from '@bureau/protocol'
import type { LogEvent } from '@bureau/runtime'

/** How a run ended, as the transaction that ends it says. */
export type RunOutcome = Pick<
  RunEnded,
  'run_id' | 'status' | 'new_messages' | 'usage' | 'file_ids_map' | 'caller_calls' | 'approvals'
> & {
  /** Exactly for a failed run. */
  readonly error: RunError | null
}

/** The last events of a run's log: the error of a failed one, and its end. */
export function endingOf(outcome: RunOutcome): LogEvent[] {
  const { error } = outcome
  const failure: LogEvent[] = error ? [{ type: 'run.error', source: null, error }] : []
  return [...failure, { type: 'run.ended', ...outcome, usage_by_model: [], output: null }]
}

/** How many numbers the end of a log takes: those of `endingOf`, and that of `log.ended`. */
export function endingLength(outcome: Pick<RunOutcome, 'status' | 'error'>): number {
  return endingOf({ run_id: '', new_messages: [], usage: null, ...outcome }).length + 1
}
