import { DecideApprovals, RunApprovals } from '@bureau/protocol'
import { type Answered, ok, param } from '@bureau/runtime'
import { reachOf } from '../caller.ts'
import { EXAMPLES } from '../docs/examples.ts'
import { type Call, jsonRoute, type Route } from '../http/route.ts'
import { listApprovals } from '../runs/approve/decide-approvals.ts'
import { decideRun } from './decide-run.ts'

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
      anyBody: true,
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

async function decide({
  platform,
  caller,
  body,
  ...call
}: Call<unknown, DecideApprovals>): Promise<Answered<200, RunApprovals>> {
  return ok({ approvals: [...(await decideRun(platform, caller, { runId: param(call, 'runId'), decisions: body }))] })
}
