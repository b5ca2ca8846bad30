import { editProblem } from '@bureau/framework'
import type { DecideApprovals, RunApproval, ServiceError } from '@bureau/protocol'
import { parseJson } from '@bureau/runtime'
import { type Caller, reachOf } from '../caller.ts'
import type { Platform } from '../context.ts'
import { refusalOf } from '../http/parse-input.ts'
import { decideApprovals, listApprovals } from '../runs/approve/decide-approvals.ts'
import { wakeProcesses } from '../runs/approve/wake-processes.ts'

type Decided = { readonly runId: string; readonly decisions: DecideApprovals }

/**
 * Decides about calls of a run that waits, in the name of a caller who may. With the last of them the run goes on.
 *
 * @throws ServiceError `invalid_request`, and what `decideApprovals` throws.
 */
export async function decideRun(
  platform: Platform,
  caller: Caller,
  { runId, decisions: given }: Decided,
): Promise<readonly RunApproval[]> {
  const run = { ...reachOf(caller), runId }
  const { keyId: decidedBy } = caller
  const { db } = platform.store
  await requireUsable(platform, given, await db.run(listApprovals, run))
  const decisions = given.map(({ callId, approve, reason, arguments: changed }) => ({
    callId,
    approve,
    reason: reason ?? null,
    arguments: changed == null ? null : typeof changed === 'string' ? changed : JSON.stringify(changed),
    decidedBy,
  }))
  const { approvals, isReleased } = await db.run(decideApprovals, { ...run, decisions })
  platform.webhooks.wake()
  if (isReleased) wakeProcesses(platform)
  return approvals
}

type Open = { readonly approvals: readonly RunApproval[]; readonly agencyId: string }

/** Arguments of a person fit the tool as it is now. @throws ServiceError `invalid_request` */
async function requireUsable({ agencies }: Platform, decisions: DecideApprovals, open: Open): Promise<void> {
  const agency = agencies.get(open.agencyId)
  for (const [at, { callId, approve, arguments: given }] of decisions.entries()) {
    if (given == null) continue
    const row = open.approvals.findLast((each) => each.callId === callId)
    if (!row) continue
    if (!row.edit) throw unusable(at, 'the arguments of this call cannot be changed')
    if (!approve) throw unusable(at, 'a call that is rejected has no other arguments')
    if (!agency) throw unusable(at, 'the agency is not part of this deployment')
    const problem = await editProblem(agency, row, parsed(at, given))
    if (problem !== undefined) throw unusable(at, `they do not fit the tool ${row.tool}: ${problem}`)
  }
}

function parsed(at: number, given: unknown): unknown {
  if (typeof given !== 'string') return given
  try {
    return parseJson(Buffer.from(given))
  } catch {
    throw unusable(at, 'must be an object, or the JSON text of one')
  }
}

function unusable(at: number, error: string): ServiceError {
  return refusalOf([{ path: `/${at}/arguments`, code: 'invalid_request', error }])
}
