import type { ApprovalRequest, RunApproval } from '@bureau/protocol'
import { and, asc, eq, inArray, isNull, sql } from 'drizzle-orm'
import type { Tx } from '../db/operation.ts'
import { integrations, members, runApprovals, runs } from '../db/schema.ts'
import { isRun, type RunKey, type RunFacts } from './runs.repo.ts'

export type ApprovalRow = typeof runApprovals.$inferSelect

/** What is decided about a call, and by whom: an API key, a consumer, or `expiry`. */
export type ApprovalDecision = {
  readonly approve: boolean
  readonly reason: string | null
  /** JSON. */
  readonly arguments: string | null
  readonly decidedBy: string
}

const ofRun = ({ ownerId, runId }: RunKey) => and(eq(runApprovals.runId, runId), eq(runApprovals.ownerId, ownerId))

/** In the order in which they were asked for. */
export async function selectApprovals(tx: Tx, key: RunKey): Promise<ApprovalRow[]> {
  return tx
    .select()
    .from(runApprovals)
    .where(ofRun(key))
    .orderBy(asc(runApprovals.requestedAt), asc(runApprovals.place))
}

/** The tools about whose calls the consumer who has asked may decide, as the integration says now. */
export async function selectConsumerTools(
  tx: Tx,
  { ownerId, integrationId, consumerId }: RunFacts,
): Promise<ReadonlySet<string>> {
  if (consumerId === null) return new Set()
  const [found] = await tx
    .select({ settings: integrations.settings })
    .from(integrations)
    .where(and(eq(integrations.id, integrationId), eq(integrations.ownerId, ownerId)))
  return new Set(found?.settings.consumerApprovals)
}

export async function insertApprovals(tx: Tx, key: RunKey, requests: readonly ApprovalRequest[]): Promise<void> {
  const rows = requests.map((request, place) => ({
    ...key,
    place,
    agentRunId: request.agent_run_id,
    callId: request.call_id,
    tool: request.tool,
    arguments: request.arguments,
    agent: request.agent,
    edit: request.edit,
    expiresAt: new Date(request.expires_at),
  }))
  await tx.insert(runApprovals).values(rows).onConflictDoNothing() // repeated after a lost answer
}

export async function updateApproval(
  tx: Tx,
  { runId, ownerId, agentRunId, callId }: ApprovalRow,
  { approve, reason, arguments: changedArguments, decidedBy }: ApprovalDecision,
): Promise<void> {
  await tx
    .update(runApprovals)
    .set({ approve, reason, changedArguments, decidedBy, decidedAt: sql`now()` })
    .where(
      and(
        ofRun({ runId, ownerId }),
        eq(runApprovals.agentRunId, agentRunId),
        eq(runApprovals.callId, callId),
        isNull(runApprovals.approve),
      ),
    )
}

/** The run holds its chat, and none of its member's places. It is locked. */
export async function updateToWaiting(tx: Tx, run: RunFacts, lastEventSeq: number): Promise<void> {
  await tx
    .update(runs)
    .set({ state: 'waiting', waitingSince: sql`now()`, lastEventSeq })
    .where(isRun({ ownerId: run.ownerId, runId: run.id }))
  await countActive(tx, run, -1)
}

/** Any process may go on with the run, which is locked. Its deadline stood still while it waited. */
export async function updateToReleased(tx: Tx, run: RunFacts, lastEventSeq: number): Promise<void> {
  await tx
    .update(runs)
    .set({
      state: 'running',
      released: true,
      waitingSince: null,
      deadlineAt: sql`${runs.deadlineAt} + (now() - ${runs.waitingSince})`,
      lastEventSeq,
    })
    .where(isRun({ ownerId: run.ownerId, runId: run.id }))
  await countActive(tx, run, 1)
}

async function countActive(tx: Tx, { ownerId, memberId }: RunFacts, change: number): Promise<void> {
  if (memberId === null) return
  await tx
    .update(members)
    .set({ activeRuns: sql`${members.activeRuns} + ${change}` })
    .where(and(inArray(members.id, [memberId]), eq(members.ownerId, ownerId)))
}

export function approvalView(row: ApprovalRow, consumerTools: ReadonlySet<string>): RunApproval {
  const { approve, reason, changedArguments, decidedBy, decidedAt } = row
  const isDecided = approve !== null && decidedBy !== null && decidedAt !== null
  return {
    callId: row.callId,
    tool: row.tool,
    arguments: row.arguments,
    agent: row.agent,
    edit: row.edit,
    approver: consumerTools.has(row.tool) ? 'consumer' : 'owner',
    expiresAt: row.expiresAt.toISOString(),
    decision: isDecided
      ? { approve, reason, arguments: changedArguments, decidedBy, decidedAt: decidedAt.toISOString() }
      : null,
  }
}

/** As the stream of the run has it. */
export function approvalRequest(row: ApprovalRow): ApprovalRequest {
  return {
    call_id: row.callId,
    tool: row.tool,
    arguments: row.arguments,
    agent: row.agent,
    agent_run_id: row.agentRunId,
    expires_at: row.expiresAt.toISOString(),
    edit: row.edit,
  }
}
