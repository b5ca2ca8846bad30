import { DecideApprovals, RunApprovals } from '@bureau/protocol'
import { ok, param } from '@bureau/runtime'
import { reachOf } from '../caller.ts'
import { EXAMPLES } from '../docs/examples.ts'
import { jsonRoute, type Route } from '../http/route.ts'
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
    async (call) => {
      const run = { ...reachOf(call.caller), runId: param(call, 'runId') }
      return ok({ approvals: (await call.platform.store.db.run(listApprovals, run)).approvals })
    },
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
    async (call) => {
      const decided = { runId: param(call, 'runId'), decisions: call.body }
      return ok({ approvals: [...(await decideRun(call.platform, call.caller, decided))] })
    },
  ),
]
