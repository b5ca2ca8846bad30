import { tenantOperation } from '../../db/operation.ts'
import { selectApprovals, updateToReleased } from '../../run-records/approvals.repo.ts'
import { holdRun } from '../../run-records/hold-run.ts'
import { type RunKey, usageBefore } from '../../run-records/runs.repo.ts'
import { endingByRecord } from '../recover/take-up-run.ts'
import { recordDecision } from './decide-approvals.ts'
import { writeOutcome } from '../settle/write-outcome.ts'

const REASON = 'The user has sent another message instead.'

/** Ends a run that waits, because its chat goes on without it. Nothing happens to a run that does not wait. */
export const rejectWaiting = tenantOperation(
  { source: import.meta.url, name: 'rejectWaiting', lane: 'admission' },
  async (tx, { decidedBy, ...key }: RunKey & { decidedBy: string }): Promise<void> => {
    const waiting = await holdRun(tx, key)
    if (waiting?.run.state !== 'waiting') return
    for (const row of await selectApprovals(tx, key)) {
      if (row.approve !== null) continue
      const decision = { approve: false, reason: REASON, arguments: null, decidedBy }
      await recordDecision(tx, row, { decision, topic: 'run.approval_decided' })
    }
    await updateToReleased(tx, waiting.run, waiting.run.lastEventSeq)
    const held = await holdRun(tx, key)
    if (!held) throw new Error('a locked run vanished')
    await writeOutcome(tx, held, endingByRecord(held.run, null), await usageBefore(tx, key, []))
  },
)
