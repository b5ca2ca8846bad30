import { editProblem } from '@bureau/framework'
import { DecideApprovals, type RunApproval, RunApprovals, type ServiceError } from '@bureau/protocol'
import { type Answered, ok, param } from '@bureau/runtime'
import { reachOf } from '../caller.ts'
import { EXAMPLES } from '../docs/examples.ts'
import { refusalOf } from '../http/parse-input.ts'
import { type Call, jsonRoute, type Route } from '../http/route.ts'
import { decideApprovals, listApprovals } from '../runs/approve/decide-approvals.ts'
import { wakeProcesses } from '../runs/approve/wake-processes.ts'

export const approvalRoutes: readonly Route[] = [
  jsonRoute(
    {
      method: 'GET',
      url: '/v1/runs/:runId/approvals',
      id: 'listApprovals',
      consumer: 'chat',
      tag: 'Runs',
      summary: 'List the calls of a run about which a person decides',
      scope: 'runs',
      examples: { response: EXAMPLES.approvals },
      success: { 200: RunApprovals },
      errors: ['run_not_found'],
    },
    list,
  ),
  jsonRoute(
    {
      method: 'POST',
      url: '/v1/runs/:runId/approvals',
      id: 'decideApprovals',
      consumer: 'approve',
      tag: 'Runs',
      summary: 'Decide about calls that wait',
      description:
        'The run goes on when all its calls are decided about; follow it behind the last event that was received. The same ' +
        'decision again is answered alike. Consumer tokens decide about their own runs, and about the tools in ' +
        '`consumerApprovals` of the integration.',
      scope: 'runs:approve',
      body: DecideApprovals,
      listBody: true,
      examples: { request: EXAMPLES.decisions, response: EXAMPLES.approvals },
      success: { 200: RunApprovals },
      errors: [
        'run_not_found',
        'insufficient_scope',
        'approval_not_found',
        'approval_decided',
        'approval_expired',
        'run_not_waiting',
      ],
    },
    decide,
  ),
]

async function list({ platform, caller, ...call }: Call): Promise<Answered<200, RunApprovals>> {
  const runId = param(call, 'runId')
  const { approvals } = await platform.store.db.run(listApprovals, { ...reachOf(caller), runId })
  return ok({ approvals })
}

async function decide(call: Call<unknown, DecideApprovals>): Promise<Answered<200, RunApprovals>> {
  const { platform, caller, body } = call
  const { keyId: decidedBy } = caller
  const run = { ...reachOf(caller), runId: param(call, 'runId') }
  const { db } = platform.store
  const open = await db.run(listApprovals, run)
  await requireUsable(call, open)
  const decisions = body.map(({ callId, approve, reason, arguments: given }) => ({
    callId,
    approve,
    reason: reason ?? null,
    arguments: given == null ? null : typeof given === 'string' ? given : JSON.stringify(given),
    decidedBy,
  }))
  const { approvals, isReleased } = await db.run(decideApprovals, { ...run, decisions })
  platform.webhooks.wake()
  if (isReleased) wakeProcesses(platform)
  return ok({ approvals })
}

type Open = { readonly approvals: readonly RunApproval[]; readonly agencyId: string }

/** Arguments of a person fit the tool as it is now. @throws ServiceError `invalid_request` */
async function requireUsable({ platform, body }: Call<unknown, DecideApprovals>, open: Open): Promise<void> {
  const agency = platform.agencies.get(open.agencyId)
  for (const [at, { callId, approve, arguments: given }] of body.entries()) {
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
    return JSON.parse(given)
  } catch {
    throw unusable(at, 'must be an object, or the JSON text of one')
  }
}

function unusable(at: number, error: string): ServiceError {
  return refusalOf([{ path: `/${at}/arguments`, code: 'invalid_request', error }])
}
