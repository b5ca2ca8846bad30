import { titleOf } from '@bureau/framework'
import { AgencyList, DeleteIntegrationQuery, Integration, IntegrationCreate, IntegrationPatch } from '@bureau/protocol'
import { type Answered, created, NO_CONTENT, ok, param } from '@bureau/runtime'
import type { z } from 'zod'
import { entryAgentNames } from '../agencies.ts'
import { readIfMatch } from '../http/if-match.ts'
import { listRoute } from '../http/pages.ts'
import { present } from '../http/present.ts'
import { type Call, jsonRoute, type Route } from '../http/route.ts'
import { chooseDefaultAgent, describeIntegration, readIntegration, readIntegrations } from './describe-integrations.ts'
import { createIntegration, deleteIntegration, updateIntegration } from './manage-integrations.ts'

const CODES = { defaultAllowance: 'invalid_allowance' } as const

export const integrationRoutes: readonly Route[] = [
  jsonRoute(
    {
      method: 'GET',
      url: '/v1/agencies',
      id: 'listAgencies',
      tag: 'Integrations',
      summary: 'List the agencies of this deployment',
      scope: 'integrations:read',
      success: { 200: AgencyList },
      errors: [],
    },
    listAgencies,
  ),
  jsonRoute(
    {
      method: 'POST',
      url: '/v1/integrations',
      id: 'createIntegration',
      tag: 'Integrations',
      summary: 'Publish an agency as an integration',
      scope: 'integrations:write',
      everyIntegration: true, // a key that is restricted to some could not even see the new one
      idempotent: true,
      body: IntegrationCreate,
      codes: CODES,
      success: { 201: Integration },
      errors: ['unknown_agency', 'invalid_agent', 'invalid_allowance'],
      examples: { request: { name: 'Support', agencyId: 'demo', memberAllowancesEnabled: true } },
    },
    create,
  ),
  listRoute(
    {
      url: '/v1/integrations',
      id: 'listIntegrations',
      tag: 'Integrations',
      summary: 'List integrations, newest first',
      scope: 'integrations:read',
      item: Integration,
    },
    ({ platform, caller }, page) => readIntegrations(platform, caller, page),
  ),
  jsonRoute(
    {
      method: 'GET',
      url: '/v1/integrations/:integrationId',
      id: 'getIntegration',
      tag: 'Integrations',
      summary: 'Get an integration',
      scope: 'integrations:read',
      success: { 200: Integration },
      errors: ['integration_not_found'],
    },
    async (call) => ok(await readIntegration(call.platform, call.caller, param(call, 'integrationId'))),
  ),
  jsonRoute(
    {
      method: 'PATCH',
      url: '/v1/integrations/:integrationId',
      id: 'updateIntegration',
      tag: 'Integrations',
      summary: 'Change an integration, from the next admission on',
      scope: 'integrations:write',
      body: IntegrationPatch,
      codes: CODES,
      headers: { 'If-Match': 'The ETag that the change is based on.' },
      success: { 200: Integration },
      errors: ['integration_not_found', 'unknown_agency', 'invalid_agent', 'invalid_allowance', 'version_conflict'],
    },
    update,
  ),
  jsonRoute(
    {
      method: 'DELETE',
      url: '/v1/integrations/:integrationId',
      id: 'deleteIntegration',
      tag: 'Integrations',
      summary: 'Take an integration away',
      scope: 'integrations:write',
      query: DeleteIntegrationQuery,
      headers: { 'If-Match': 'The ETag that the deletion is based on.' },
      success: { 204: null },
      errors: ['integration_not_found', 'runs_active', 'version_conflict'],
    },
    remove,
  ),
]

async function listAgencies({ platform }: Call): Promise<Answered<200, z.output<typeof AgencyList>>> {
  const data = [...platform.agencies].map(([agencyId, agency]) => {
    const entries = new Set(entryAgentNames(agency))
    const agents = [...agency.agents.keys()].map((name) => ({ name, entryPoint: entries.has(name) }))
    return { agencyId, name: titleOf(agency, agencyId), version: agency.version, agents }
  })
  return ok({ object: 'list', data })
}

async function create({
  platform,
  caller,
  body,
}: Call<unknown, z.output<typeof IntegrationCreate>>): Promise<Answered<201, Integration>> {
  const { name, agencyId, ...settings } = body
  const defaultAgent = chooseDefaultAgent(platform, { agencyId, ...present({ defaultAgent: body.defaultAgent }) })
  const integration = { ...present(settings), name, agencyId, defaultAgent }
  const { ownerId, keyId: actor } = caller
  const view = await platform.store.db.run(createIntegration, { ownerId, actor, integration })
  return created(describeIntegration(platform, view))
}

async function update(call: Call<unknown, z.output<typeof IntegrationPatch>>): Promise<Answered<200, Integration>> {
  const { platform, caller, body, request } = call
  const integrationId = param(call, 'integrationId')
  const { ownerId, keyId: actor } = caller
  const changes = { ...present(body), ...(await chooseAgent(call, integrationId)) }
  const args = { ownerId, integrationId, actor, ...readIfMatch(request), changes }
  return ok(describeIntegration(platform, await platform.store.db.run(updateIntegration, args)))
}

/** Agency and agent go together: with another agency, an agent that it lacks is replaced by its first one. */
async function chooseAgent(
  { platform, caller, body }: Call<unknown, z.output<typeof IntegrationPatch>>,
  integrationId: string,
): Promise<{ defaultAgent?: string }> {
  const { agencyId, defaultAgent } = body
  if (agencyId === undefined && defaultAgent === undefined) return {}
  const current = await readIntegration(platform, caller, integrationId)
  return {
    defaultAgent: chooseDefaultAgent(platform, {
      agencyId: agencyId ?? current.agencyId,
      ...present({ defaultAgent }),
    }),
  }
}

async function remove(call: Call<z.output<typeof DeleteIntegrationQuery>>): Promise<typeof NO_CONTENT> {
  const { platform, caller, query, request } = call
  const { cancelling } = await platform.store.db.run(deleteIntegration, {
    ownerId: caller.ownerId,
    integrationId: param(call, 'integrationId'),
    actor: caller.keyId,
    ...readIfMatch(request),
    cancelRuns: query.cancelRuns === 'true',
  })
  for (const { runId } of cancelling) {
    platform.executor.cancel(runId, 'immediate')
    platform.control.tell({ type: 'cancel', runId, mode: 'immediate' })
  }
  return NO_CONTENT
}
