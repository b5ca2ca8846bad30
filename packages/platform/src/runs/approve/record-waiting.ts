import type { ApprovalRequest } from '@bureau/protocol'
import { tenantOperation } from '../../db/operation.ts'
import { appendOutbox } from '../../outbox/outbox.repo.ts'
import { insertApprovals, updateToWaiting } from '../../run-records/approvals.repo.ts'
import { chargeCalls } from '../../run-records/charge-calls.ts'
import { holdRun } from '../../run-records/hold-run.ts'
import type { RunWriter } from '../../run-records/record-step.ts'
import { type RunOutputRecord, storeOutput } from '../../run-records/run-output.repo.ts'
import { runView } from '../../run-records/run-view.ts'
import { endingLength } from '../settle/ending-events.ts'

/** The last events of a run that waits are made from its record. */
export const WAITING_EVENTS = endingLength({ status: 'waiting', error: null })

type Waiting = RunWriter &
  Pick<RunOutputRecord, 'items' | 'calls'> & {
    readonly approvals: readonly ApprovalRequest[]
    /** The number of the last event that was shown. */
    readonly lastEventSeq: number
  }

/**
 * A run waits for a person from now on: it belongs to no process, until all its calls are decided about.
 *
 * `cancelled`: somebody wants it to end; nothing was written.
 */
export const recordWaiting = tenantOperation(
  { source: import.meta.url, name: 'recordWaiting', lane: 'run' },
  async (tx, waiting: Waiting): Promise<'waiting' | 'cancelled' | 'fenced'> => {
    const { ownerId, runId, bootId, items, calls, approvals, lastEventSeq } = waiting
    const held = await holdRun(tx, { ownerId, runId })
    if (held?.run.bootId !== bootId) return 'fenced'
    const { run } = held
    if (run.state === 'waiting') return 'waiting' // repeated after a lost answer
    if (run.state !== 'running') return 'fenced'
    if (run.cancelRequestedAt !== null) return 'cancelled'
    await storeOutput(tx, run, { items, calls })
    await chargeCalls(tx, held, calls)
    await insertApprovals(tx, { ownerId, runId }, approvals)
    await updateToWaiting(tx, run, lastEventSeq + WAITING_EVENTS)
    const view = runView({ ...run, state: 'waiting', waitingSince: held.now }, undefined)
    await appendOutbox(tx, ownerId, 'run.waiting', { ...view, approvals: approvals.length })
    return 'waiting'
  },
)
