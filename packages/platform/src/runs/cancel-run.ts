import { setTimeout as sleep } from 'node:timers/promises'
import type { CancelMode } from '@bureau/protocol'
import { releaseCancelled } from './approve/decide-approvals.ts'
import { wakeProcesses } from './approve/wake-processes.ts'
import { isEnded } from './follow-run.ts'
import type { Platform } from '../context.ts'
import { getRun } from '../run-records/read-runs.ts'
import { requestCancel } from '../run-records/request-cancel.ts'
import type { RunKey } from '../run-records/runs.repo.ts'

type CancelRun = RunKey & {
  readonly mode: CancelMode
  /** Longest wait for the end of the run, in milliseconds. */
  readonly waitMs: number
}

const POLL_MS = 250

/**
 * Tells one run to stop, wherever it is executed, and waits for its end.
 *
 * @throws ServiceError `run_not_found`
 */
export async function cancelRun(
  platform: Platform,
  { ownerId, runId, mode, waitMs }: CancelRun,
): Promise<{ ended: boolean }> {
  const { db } = platform.store
  const { run, isWaiting } = await db.run(requestCancel, { ownerId, runId, mode })
  if (isEnded(run.status)) return { ended: true }
  if (isWaiting && (await db.run(releaseCancelled, { ownerId, runId }))) wakeProcesses(platform)
  platform.executor.cancel(runId, mode)
  platform.control.tell({ type: 'cancel', runId, mode })
  const until = performance.now() + waitMs
  // What ends here may go on in another process: from then on the records are asked.
  const local = platform.executor.find(runId)?.ended
  if (local) await Promise.race([local, sleep(waitMs, undefined, { ref: false })])
  for (;;) {
    const { status } = await db.run(getRun, { ownerId, runId, integrationIds: null, output: false })
    if (isEnded(status)) return { ended: true }
    const restMs = until - performance.now()
    if (restMs <= 0) return { ended: false }
    await sleep(Math.min(POLL_MS, restMs), undefined, { ref: false })
  }
}
