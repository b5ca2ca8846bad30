import { setTimeout as sleep } from 'node:timers/promises'
import type { ApprovalRequest } from '@bureau/protocol'
import type { Logger } from '@bureau/runtime'
import { isPassing } from '../../db/database-error.ts'
import type { PlatformStore } from '../../platform-store.ts'
import { recordWaiting } from '../approve/record-waiting.ts'
import type { ActiveRun } from './active-run.ts'

const RETRY_MS = 500

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
  while (!run.fenced) {
    try {
      await run.log.store()
      const lastEventSeq = run.log.head
      const outcome = await store.db.run(recordWaiting, {
        ownerId,
        runId,
        bootId,
        items,
        calls,
        approvals,
        lastEventSeq,
      })
      if (outcome === 'cancelled') return false
      if (outcome === 'fenced') run.fence()
      else {
        log.info({ runId, approvals: approvals.length }, 'run waits')
        await run.log.handOver('run_waits')
      }
      return true
    } catch (error) {
      if (!isPassing(error)) throw error
      log.warn({ err: error, runId }, 'a run could not be left to wait; it is tried again')
      await sleep(RETRY_MS, undefined, { ref: false })
    }
  }
  return true
}
