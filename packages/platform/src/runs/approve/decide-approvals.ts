import { type ApprovalRequest, type RunApproval, ServiceError, type WebhookEvent } from '@bureau/protocol'
import { appendAudit } from '../../audit/audit.repo.ts'
import { tenantOperation, type Tx } from '../../db/operation.ts'
import { appendOutbox } from '../../outbox/outbox.repo.ts'
import {
  type ApprovalDecision,
  type ApprovalRow,
  approvalRequest,
  approvalView,
  selectApprovals,
  selectConsumerTools,
  updateApproval,
  updateToReleased,
} from '../../run-records/approvals.repo.ts'
import { type HeldRun, holdRun } from '../../run-records/hold-run.ts'
import { isSeen, type Reach } from '../../run-records/read-runs.ts'
import { findRun, type RunFacts, type RunKey } from '../../run-records/runs.repo.ts'
import { WAITING_EVENTS } from './record-waiting.ts'

/** What a person has to decide about, and the agency that asks. @throws ServiceError `run_not_found` */
export const listApprovals = tenantOperation(
  { source: import.meta.url, name: 'listApprovals', lane: 'interactive', onlyReads: true },
  async (tx, args: RunKey & Reach): Promise<{ approvals: RunApproval[]; agencyId: string }> => {
    const run = await findRun(tx, args)
    if (!run || !isSeen(run, args)) throw new ServiceError('run_not_found')
    return { approvals: await viewsOf(tx, run), agencyId: run.input.settings.agencyId }
  },
)

/** The calls that still wait, as the stream of the run has them. */
export const readWaitingCalls = tenantOperation(
  { source: import.meta.url, name: 'readWaitingCalls', lane: 'interactive', onlyReads: true },
  async (tx, key: RunKey): Promise<ApprovalRequest[]> =>
    (await selectApprovals(tx, key)).filter(({ approve }) => approve === null).map(approvalRequest),
)

type Decide = RunKey & Reach & { readonly decisions: readonly (ApprovalDecision & { readonly callId: string })[] }

/** `isReleased`: all calls are decided about, and any process may go on with the run. */
type Decided = { readonly approvals: RunApproval[]; readonly isReleased: boolean }

/**
 * Records decisions. The same one again changes nothing; of two different ones about a call the first counts. A consumer
 * decides about the tools that the integration names now, and about its own runs.
 *
 * @throws ServiceError `run_not_found`, `insufficient_scope`, `approval_not_found`, `approval_decided`, `approval_expired`,
 *   `run_not_waiting`
 */
export const decideApprovals = tenantOperation(
  { source: import.meta.url, name: 'decideApprovals', lane: 'interactive' },
  async (tx, { decisions, ...args }: Decide): Promise<Decided> => {
    const held = await holdRun(tx, args)
    if (!held || !isSeen(held.run, args)) throw new ServiceError('run_not_found')
    const consumerTools = await selectConsumerTools(tx, held.run)
    for (const { callId, ...decision } of decisions) {
      const row = await requireOpen(tx, held, { callId, decision })
      if (!row) continue
      if (args.consumerId !== undefined && !consumerTools.has(row.tool)) throw ownerDecides(row)
      await recordDecision(tx, row, { decision, topic: 'run.approval_decided' })
    }
    const isReleased = await releaseIfDecided(tx, held)
    return { approvals: await viewsOf(tx, held.run), isReleased }
  },
)

async function viewsOf(tx: Tx, run: RunFacts): Promise<RunApproval[]> {
  const consumerTools = await selectConsumerTools(tx, run)
  const rows = await selectApprovals(tx, { ownerId: run.ownerId, runId: run.id })
  return rows.map((row) => approvalView(row, consumerTools))
}

function ownerDecides({ tool }: ApprovalRow): ServiceError {
  const message = `A consumer may not decide about calls of ${tool}: consumerApprovals of the integration does not name it.`
  return new ServiceError('insufficient_scope', { message })
}

/** The call that is decided about; undefined when this very decision is known. */
async function requireOpen(
  tx: Tx,
  { run, now }: HeldRun,
  { callId, decision }: { readonly callId: string; readonly decision: ApprovalDecision },
): Promise<ApprovalRow | undefined> {
  const ofCall = (await selectApprovals(tx, { ownerId: run.ownerId, runId: run.id })).filter(
    (row) => row.callId === callId,
  )
  const open = ofCall.find(({ approve }) => approve === null)
  if (!open) {
    if (ofCall.length === 0) throw new ServiceError('approval_not_found', { message: `No call ${callId} waits.` })
    if (!ofCall.some((row) => isSame(row, decision))) throw new ServiceError('approval_decided')
    return undefined
  }
  if (run.state !== 'waiting') throw new ServiceError('run_not_waiting')
  if (open.expiresAt <= now) throw new ServiceError('approval_expired')
  return open
}

function isSame(row: ApprovalRow, { approve, reason, arguments: changed }: ApprovalDecision): boolean {
  return row.approve === approve && row.reason === reason && row.changedArguments === changed
}

type Recorded = {
  readonly decision: ApprovalDecision
  readonly topic: Extract<WebhookEvent, 'run.approval_decided' | 'run.approval_expired'>
}

/** With its webhook; what a person has decided is in the audit list too. The run is locked. */
export async function recordDecision(tx: Tx, row: ApprovalRow, { decision, topic }: Recorded): Promise<void> {
  await updateApproval(tx, row, decision)
  const { runId, ownerId, callId, tool, agent } = row
  const { approve, decidedBy } = decision
  await appendOutbox(tx, ownerId, topic, { runId, callId, tool, agent, approve, decidedBy })
  if (topic === 'run.approval_expired') return
  const details = { callId, tool, approve, changed: decision.arguments !== null }
  await appendAudit(tx, ownerId, { actor: decidedBy, action: 'approval.decided', target: runId, details })
}

/** False: it waits for more, or for nothing. */
async function releaseIfDecided(tx: Tx, { run }: HeldRun): Promise<boolean> {
  if (run.state !== 'waiting') return false
  const rows = await selectApprovals(tx, { ownerId: run.ownerId, runId: run.id })
  if (rows.some(({ approve }) => approve === null)) return false
  await updateToReleased(tx, run, run.lastEventSeq - WAITING_EVENTS)
  return true
}

const EXPIRED: ApprovalDecision = {
  approve: false,
  reason: 'Nobody decided in time.',
  arguments: null,
  decidedBy: 'expiry',
}

/** Calls that nobody has decided about in time are rejected. @returns Whether any process may go on with the run now. */
export const expireApprovals = tenantOperation(
  { source: import.meta.url, name: 'expireApprovals', lane: 'run' },
  async (tx, key: RunKey): Promise<boolean> => {
    const held = await holdRun(tx, key)
    if (!held) return false
    for (const row of await selectApprovals(tx, key)) {
      if (row.approve !== null || row.expiresAt > held.now) continue
      // Of a run that has ended nobody wants to know.
      if (held.run.state === 'waiting')
        await recordDecision(tx, row, { decision: EXPIRED, topic: 'run.approval_expired' })
      else await updateApproval(tx, row, EXPIRED)
    }
    return releaseIfDecided(tx, held)
  },
)

/** Releases a run that waits and was cancelled meanwhile: whoever takes it up ends it. */
export const releaseCancelled = tenantOperation(
  { source: import.meta.url, name: 'releaseCancelled', lane: 'run' },
  async (tx, key: RunKey): Promise<boolean> => {
    const held = await holdRun(tx, key)
    if (held?.run.state !== 'waiting' || held.run.cancelRequestedAt === null) return false
    await updateToReleased(tx, held.run, held.run.lastEventSeq - WAITING_EVENTS)
    return true
  },
)
