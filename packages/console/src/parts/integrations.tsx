import type { Integration } from '@bureau/protocol'
import { queryOptions, useQuery } from '@tanstack/react-query'
import { useCredentials } from '../server/credentials.ts'
import { factsQuery } from '../server/queries.ts'
import { ask } from '../server/request.ts'
import { Select } from '../ui/field.tsx'
import { Empty, Unread } from '../ui/page.tsx'

/** Of an integration, and of all that is in it. */
export const integrationPath = (id: string): string => `v1/integrations/${encodeURIComponent(id)}`

/** The first hundred integrations of the owner. */
const integrationsQuery = queryOptions({
  queryKey: ['platform', 'integrations'],
  queryFn: async () => (await ask<{ data: Integration[] }>('platform', 'v1/integrations?limit=100')).data,
})

/** The integrations of whoever is signed in to the platform. */
export function useIntegrations() {
  const { data: facts } = useQuery(factsQuery)
  const { platform } = useCredentials()
  return useQuery({ ...integrationsQuery, enabled: facts?.platform === true && platform !== undefined })
}

/** The name of an integration, or its id as long as that is not known. */
export function IntegrationName({ id }: { readonly id: string }) {
  const { data } = useQuery(integrationsQuery)
  return <>{data?.find(({ apiIntegrationId }) => apiIntegrationId === id)?.name ?? id}</>
}

type Props = {
  readonly value: string | undefined
  readonly onPick: (id: string | undefined) => void
  /** What stands for all of them; without it one must be chosen. */
  readonly all?: string
}

export function IntegrationSelect({ value, onPick, all }: Props) {
  const { data = [] } = useQuery(integrationsQuery)
  const choices = data.map(({ apiIntegrationId: id, name }) => ({ value: id, label: name }))
  return (
    <Select
      label="Integration"
      className="sm:max-w-64"
      value={value ?? ''}
      choices={all === undefined ? choices : [{ value: '', label: all }, ...choices]}
      onPick={(id) => onPick(id === '' ? undefined : id)}
    />
  )
}

/** The integration of an address, else the first one. */
export function useIntegration(given: string | undefined): string | undefined {
  const { data } = useQuery(integrationsQuery)
  return given ?? data?.[0]?.apiIntegrationId
}

/** What stands where a page is about an integration that is not known: why there is none. */
export function NoIntegration() {
  const integrations = useQuery(integrationsQuery)
  return integrations.data ? <Empty icon="plug" title="No integrations yet" /> : <Unread of={integrations} />
}
