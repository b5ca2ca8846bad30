import type { HeldDecision } from '@bureau/framework'
import type { UsageByModel } from '@bureau/protocol'
import { and, asc, eq, sql } from 'drizzle-orm'
import type { Tx } from '../db/operation.ts'
import { messages, runStates, usageEntries } from '../db/schema.ts'
import { type ApprovalRow, selectApprovals } from './approvals.repo.ts'
import type { RunItemRecord } from './run-output.repo.ts'
import { isNotFromUser, type RunKey, toUsage, USAGE_SUMS } from './runs.repo.ts'

/** What the steps of a run have recorded: from here another process goes on. */
export type RecordedRun = {
  /** JSON; null when no step was recorded. */
  readonly state: string | null
  readonly items: readonly RunItemRecord[]
  readonly usage: readonly UsageByModel[]
  /** How many model calls `usage` counts. */
  readonly calls: number
  /** What people have decided about calls. */
  readonly decisions: readonly HeldDecision[]
}

export async function readRecordedRun(tx: Tx, { ownerId, runId }: RunKey): Promise<RecordedRun> {
  const [kept] = await tx
    .select({ state: runStates.state })
    .from(runStates)
    .where(and(eq(runStates.runId, runId), eq(runStates.ownerId, ownerId)))
  const items = await tx
    .select({ id: messages.id, item: messages.item })
    .from(messages)
    .where(and(eq(messages.runId, runId), eq(messages.ownerId, ownerId), isNotFromUser))
    .orderBy(asc(messages.seq))
  const { agent, model, priced } = usageEntries
  const usage = await tx
    .select({ agent, model, priced, last: sql<number>`max(${usageEntries.callSeq})`.mapWith(Number), ...USAGE_SUMS })
    .from(usageEntries)
    .where(and(eq(usageEntries.runId, runId), eq(usageEntries.ownerId, ownerId)))
    .groupBy(agent, model, priced)
  return {
    state: kept?.state ?? null,
    items,
    usage: usage.map((entry) => ({
      agent: entry.agent,
      model: entry.model,
      priced: entry.priced,
      usage: toUsage(entry),
    })),
    calls: Math.max(0, ...usage.map(({ last }) => last)),
    decisions: (await selectApprovals(tx, { ownerId, runId })).flatMap(decisionOf),
  }
}

function decisionOf({ approve, reason, changedArguments, callId, agentRunId }: ApprovalRow): HeldDecision[] {
  if (approve === null) return []
  return [{ call_id: callId, agent_run_id: agentRunId, approved: approve, reason, arguments: changedArguments }]
}
