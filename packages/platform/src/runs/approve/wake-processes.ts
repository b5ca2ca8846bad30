import type { Platform } from '../../context.ts'
import { expireApprovals, releaseCancelled } from './decide-approvals.ts'
import { listOverdueRuns } from './overdue-runs.repo.ts'

/** A run that has waited is anybody's to go on with: all processes look at once. */
export function wakeProcesses({ replica, control }: Pick<Platform, 'replica' | 'control'>): void {
  replica.look()
  control.tell({ type: 'lost_runs' })
}

/** Calls that nobody has decided about in time are rejected, and runs that were cancelled while they waited end. */
export async function releaseOverdueRuns(
  platform: Pick<Platform, 'store' | 'replica' | 'control' | 'webhooks'>,
): Promise<void> {
  const { db } = platform.store
  let isReleased = false
  const overdue = await db.run(listOverdueRuns, undefined)
  for (const { isCancelled, ...key } of overdue) {
    if (await db.run(isCancelled ? releaseCancelled : expireApprovals, key)) isReleased = true
  }
  if (overdue.length > 0) platform.webhooks.wake()
  if (isReleased) wakeProcesses(platform)
}
