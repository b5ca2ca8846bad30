import type { Usage } from '@bureau/protocol'
import type { Tx } from '../db/operation.ts'
import { isActive, runView, type RunView } from './run-view.ts'
import { findRun, type RunKey, type RunFacts, sumUsage } from './runs.repo.ts'

export async function findRunView(tx: Tx, key: RunKey): Promise<RunView | undefined> {
  const run = await findRun(tx, key)
  return run && (await runViews(tx, key.ownerId, [run]))[0]
}

/** Views in the order of the rows. A run that has not ended shows what its model calls cost so far. */
export async function runViews(tx: Tx, ownerId: string, rows: readonly RunFacts[]): Promise<RunView[]> {
  const active = rows.filter(isActive).map((run) => run.id)
  const spent = active.length === 0 ? new Map<string, Usage>() : await sumUsage(tx, ownerId, active)
  return rows.map((run) => runView(run, spent.get(run.id)))
}
