import { sql } from 'drizzle-orm'
import { systemOperation } from '../db/operation.ts'
import { ANY_OVERDUE_RUNS } from '../runs/approve/overdue-runs.repo.ts'
import { anyOwnRuns } from '../runs/recover/list-own-runs.ts'
import { ANY_DUE_NOTIFICATIONS } from '../webhooks/push-configs.ts'
import { ANY_DUE_DELIVERIES } from '../webhooks/webhook-retries.ts'
import { anyDueTasks } from './maintenance-tasks.ts'

/** What there is to do beside the runs. */
export type DueWork = {
  readonly ownRuns: boolean
  readonly overdueRuns: boolean
  readonly deliveries: boolean
  readonly tasks: boolean
}

/** Asks for everything at once: while nothing is to be done, this is all that maintenance costs. */
export const findDueWork = systemOperation(
  { source: import.meta.url, name: 'findDueWork', lane: 'run', onlyReads: true },
  async (tx, { bootId, tasks }: { readonly bootId: string; readonly tasks: readonly string[] }): Promise<DueWork> => {
    const { rows } = await tx.execute<DueWork>(sql`SELECT ${anyOwnRuns(bootId)} AS "ownRuns",
      ${ANY_OVERDUE_RUNS} AS "overdueRuns", ${ANY_DUE_DELIVERIES} OR ${ANY_DUE_NOTIFICATIONS} AS deliveries,
      ${anyDueTasks(tasks)} AS tasks`)
    return rows[0]!
  },
)
