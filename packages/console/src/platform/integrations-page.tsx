import type { Integration } from '@bureau/protocol'
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { integrationPath } from '../parts/integrations.tsx'
import { ask, isRefusal } from '../server/request.ts'
import { Badge, Status } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import type { Column } from '../ui/data-table.tsx'
import { bytes } from '../ui/format.ts'
import { Menu } from '../ui/menu.tsx'
import { Empty, Failure, Page } from '../ui/page.tsx'
import { copy } from '../ui/toasts.tsx'
import { useChange, useRemove } from './change.ts'
import { type AgencyChoice, IntegrationForm } from './integration-form.tsx'
import { PagedTable } from './paged-table.tsx'

/** The published agencies of the owner. */
export function IntegrationsPage() {
  const [edited, setEdited] = useState<Integration | 'new'>()
  const agencies = useQuery({
    queryKey: ['platform', 'agencies'],
    queryFn: async () => (await ask<{ data: AgencyChoice[] }>('platform', 'v1/agencies')).data,
  })
  return (
    <Page
      title="Integrations"
      about="Agencies as your programs reach them, each with its settings."
      actions={
        <Button look="primary" icon="plus" disabled={!agencies.data} onClick={() => setEdited('new')}>
          New integration
        </Button>
      }
    >
      {agencies.error && !isRefusal(agencies.error, 403) && (
        <Failure error={agencies.error} retry={() => void agencies.refetch()} />
      )}
      <PagedTable
        label="Integrations"
        path="v1/integrations"
        columns={columns(setEdited)}
        keyOf={(integration) => integration.apiIntegrationId}
        empty={
          <Empty icon="plug" title="No integrations yet">
            An integration publishes an agency of this deployment under an id of its own.
          </Empty>
        }
      />
      {edited !== undefined && agencies.data && (
        <IntegrationForm
          integration={edited === 'new' ? undefined : edited}
          agencies={agencies.data}
          onClose={() => setEdited(undefined)}
        />
      )}
    </Page>
  )
}

function columns(edit: (integration: Integration) => void): readonly Column<Integration>[] {
  return [
    {
      name: 'Integration',
      grows: true,
      cell: ({ name, apiIntegrationId: id }) => (
        <>
          <span className="block truncate font-medium">{name}</span>
          <span className="block truncate font-mono text-xs text-soft">{id}</span>
        </>
      ),
    },
    {
      name: 'Agency',
      cell: ({ agencyId, agencyDeployed }) => (
        <span className="flex items-center gap-1">
          {agencyId}
          {!agencyDeployed && <Badge tone="bad">not deployed</Badge>}
        </span>
      ),
    },
    { name: 'State', cell: ({ status }) => <Status of={status} />, wideOnly: true },
    {
      name: 'Rules',
      cell: (integration) => (
        <span className="flex flex-wrap gap-1">
          {integration.memberAllowancesEnabled && <Badge tone="accent">allowances</Badge>}
          {integration.membersRequired && <Badge>members only</Badge>}
          {integration.textOnlyMode && <Badge>text only</Badge>}
        </span>
      ),
      wideOnly: true,
    },
    { name: 'Files', cell: ({ storage }) => bytes(storage.usedBytes), right: true, wideOnly: true },
    {
      name: 'More',
      cell: (integration) => <More integration={integration} edit={() => edit(integration)} />,
      right: true,
    },
  ]
}

function More({ integration, edit }: { readonly integration: Integration; readonly edit: () => void }) {
  const { apiIntegrationId: id, name, status, version } = integration
  const path = integrationPath(id)
  const isActive = status === 'active'
  const change = useChange(
    () =>
      ask('platform', path, {
        method: 'PATCH',
        body: { status: isActive ? 'disabled' : 'active' },
        headers: { 'if-match': `"${version}"` },
      }),
    isActive ? 'The integration is switched off' : 'The integration is switched on',
  )
  const remove = useRemove(path, 'The integration is gone')
  const navigate = useNavigate()
  const play = { to: '/play/$agency', params: { agency: id }, search: { on: 'platform' } } as const
  const members = { to: '/platform/members', search: { integration: id } } as const
  return (
    <span className="flex items-center justify-end">
      {isActive && (
        <Link {...play} className="mr-2 hidden text-xs link md:inline">
          Try it
        </Link>
      )}
      <Link {...members} className="hidden text-xs link md:inline">
        Members
      </Link>
      <Menu
        label={`More about ${name}`}
        items={[
          ...(isActive ? [{ label: 'Try it', icon: 'chat' as const, act: () => void navigate(play) }] : []),
          { label: 'Members', icon: 'users', act: () => void navigate(members) },
          { label: 'Copy the id', icon: 'copy', act: () => void copy(id, 'Id') },
          { label: 'Settings', icon: 'settings', act: edit },
          { label: isActive ? 'Switch off' : 'Switch on', icon: 'plug', act: () => change.mutate(undefined) },
          {
            label: 'Delete',
            icon: 'trash',
            question: `Delete ${name} with its chats?`,
            act: () => remove.mutate(),
          },
        ]}
      />
    </span>
  )
}
