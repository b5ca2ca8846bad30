import { tenantOperation } from '../../db/operation.ts'
import { together } from '../../db/together.ts'
import type { RunWriter } from '../../run-records/record-step.ts'
import { holdRun } from '../../run-records/hold-run.ts'
import { usageBefore } from '../../run-records/runs.repo.ts'
import { runViews } from '../../run-records/run-views.ts'
import { isActive, type RunView } from '../../run-records/run-view.ts'
import { type Ending, writeOutcome } from './write-outcome.ts'

/**
 * `settled`: this call ended the run. `already_ended`: it had ended, as `run` says; nothing was written. `fenced`: it
 * belongs to another process.
 */
export type RecordedOutcome =
  | { readonly outcome: 'settled' | 'already_ended'; readonly run: RunView }
  | { readonly outcome: 'fenced' }

/**
 * Ends a run of this process: state, remaining items and calls, attachments, refund, slot and announcement, all in one
 * transaction. Of all who try to end a run exactly one does.
 */
export const recordOutcome = tenantOperation(
  { source: import.meta.url, name: 'recordOutcome', lane: 'run' },
  async (tx, { ownerId, runId, bootId, ending }: RunWriter & { ending: Ending }): Promise<RecordedOutcome> => {
    if ((ending.state === 'failed') !== (ending.error !== null)) throw new Error('an error belongs to a failed run')
    const key = { ownerId, runId }
    const [held, earlier] = await together(holdRun(tx, key), usageBefore(tx, key, ending.calls))
    if (held?.run.bootId !== bootId) return { outcome: 'fenced' }
    if (!isActive(held.run)) return endedAlready(await runViews(tx, ownerId, [held.run]))
    return { outcome: 'settled', run: await writeOutcome(tx, held, ending, earlier) }
  },
)

/** The answer about a run that has ended before. */
function endedAlready([run]: readonly RunView[]): RecordedOutcome {
  if (!run) throw new Error('a run has a view')
  return { outcome: 'already_ended', run }
}
