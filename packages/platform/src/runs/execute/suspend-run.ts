import type { ApprovalRequest } from '@bureau/protocol'
import type { Logger } from '@bureau/runtime'
import type { PlatformStore } from '../../platform-store.ts'
import { recordWaiting } from '../approve/record-waiting.ts'
import type { ActiveRun } from './active-run.ts'
import { untilAnswered } from './until-answered.ts'

/**
 * Leaves a run to a person. Its readers are given their last events by its record.
 *
 * @returns False: it is to be cancelled instead.
 */
export async function suspendRun(
  run: ActiveRun,
  approvals: readonly ApprovalRequest[],
  { store, log }: { readonly store: PlatformStore; readonly log: Logger },
): Promise<boolean> {
  run.recorder.flush()
  const { ownerId, runId, bootId } = run.reserved
  const { items, calls } = await run.progress.close()
  const suspend = async (): Promise<boolean> => {
    await run.log.store()
    const lastEventSeq = run.log.head
    const waiting = { ownerId, runId, bootId, items, calls, approvals, lastEventSeq }
    const outcome = await store.db.run(recordWaiting, waiting)
    if (outcome === 'cancelled') return false
    if (outcome === 'fenced') run.fence()
    else {
      log.info({ runId, approvals: approvals.length }, 'run waits')
      await run.log.handOver('run_waits')
    }
    return true
  }
  const onError = (err: unknown): void => log.warn({ err, runId }, 'a run could not be left to wait; it is tried again')
  return untilAnswered(suspend, { signal: run.fencing, onError })
}
