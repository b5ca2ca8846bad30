import { useQuery } from '@tanstack/react-query'
import { useIntegrations } from '../parts/integrations.tsx'
import { type AgentNode, agentsOf, metadataQuery, useServerRoutes } from '../server/queries.ts'
import type { Side } from './place.ts'

/** An agent as one addresses it. What an integration does not say of its agents is empty. */
export type PartnerAgent = { readonly id: string } & Pick<
  AgentNode['data'],
  'label' | 'description' | 'model' | 'conversationStarters' | 'quickReplies'
>

type PartnerFacts = {
  readonly agents: readonly PartnerAgent[]
  readonly entry: string | undefined
  readonly error: unknown
  readonly retry: () => void
}

/** The agents of the agency or integration of one side. */
export function usePartner({ agency, on }: Side): PartnerFacts {
  const metadata = useQuery({ ...metadataQuery(agency), enabled: on === undefined })
  const integrations = useIntegrations()
  if (on === 'platform') {
    const found = integrations.data?.find(({ apiIntegrationId: id }) => id === agency)
    const isMissing = integrations.data !== undefined && !found
    return {
      agents: found?.agents.map((name) => ({ id: name, label: name, description: '', model: '' })) ?? [],
      entry: found?.defaultAgent,
      error: isMissing ? new Error('There is no such integration.') : integrations.error,
      retry: () => void integrations.refetch(),
    }
  }
  return {
    agents: agentsOf(metadata.data).map(({ id, data }) => ({ id, ...data })),
    entry: metadata.data?.metadata.entryPoints[0],
    error: metadata.error,
    retry: () => void metadata.refetch(),
  }
}

type Choice = { readonly side: Side; readonly label: string }

/** Everything one may talk to: the agencies of the server, and the integrations of the platform. */
export function usePartners(): readonly Choice[] {
  const { data: routes } = useServerRoutes()
  const { data: integrations = [] } = useIntegrations()
  return [
    ...(routes?.agencies ?? []).map((agency) => ({ side: { agency }, label: agency })),
    ...integrations
      .filter(({ status }) => status === 'active')
      .map(({ apiIntegrationId: agency, name }) => ({
        side: { agency, on: 'platform' as const },
        label: `${name} (integration)`,
      })),
  ]
}
