import type { Integration } from '@bureau/protocol'
import type { Agency } from '@bureau/framework'
import { entryAgentNames, unknownEntryAgent } from '../agencies.ts'
import type { Caller } from '../caller.ts'
import type { Platform } from '../context.ts'
import type { Page, PageRequest } from '../db/page.ts'
import { refusedField } from '../refused-field.ts'
import { getIntegration, type StoredIntegration, listIntegrations } from './integrations.repo.ts'
import type { IntegrationChanges } from './manage-integrations.ts'

/** An integration with the agents that only the deployment knows. */
export function describeIntegration({ agencies }: Platform, view: StoredIntegration): Integration {
  const agency = agencies.get(view.agencyId)
  return { ...view, agencyDeployed: agency !== undefined, agents: agency ? entryAgentNames(agency) : [] }
}

/** @throws ServiceError `integration_not_found`, the same for foreign ones. */
export async function readIntegration(platform: Platform, caller: Caller, integrationId: string): Promise<Integration> {
  const view = await platform.store.db.run(getIntegration, { ownerId: caller.ownerId, integrationId })
  return describeIntegration(platform, view)
}

/** The integrations that the key of the caller may see, newest first; all, or those of one agency. */
export async function readIntegrations(
  platform: Platform,
  { ownerId, integrationIds: only }: Caller,
  page: PageRequest & { readonly agencyId?: string },
): Promise<Page<Integration>> {
  const { items, next } = await platform.store.db.run(listIntegrations, { ownerId, only, ...page })
  return { items: items.map((stored) => describeIntegration(platform, stored)), next }
}

/**
 * The agent that receives messages when a completion names none: the one that is asked for, or the agency's first.
 *
 * @throws ServiceError `unknown_agency`, `invalid_agent`
 */
export function chooseDefaultAgent(
  { agencies }: { readonly agencies: ReadonlyMap<string, Agency> },
  { agencyId, defaultAgent }: Pick<IntegrationChanges, 'defaultAgent'> & { readonly agencyId: string },
): string {
  const agency = agencies.get(agencyId)
  if (!agency) throw refusedField('unknown_agency', 'agencyId')
  if (defaultAgent === undefined) return agency.entryPoint.name
  const agents = entryAgentNames(agency)
  if (!agents.includes(defaultAgent)) throw unknownEntryAgent('defaultAgent', defaultAgent, agents)
  return defaultAgent
}
