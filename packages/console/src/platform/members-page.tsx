import type { Member } from '@bureau/protocol'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { ask } from '../server/request.ts'
import { Badge, Status } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import type { Column } from '../ui/data-table.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { TextField } from '../ui/field.tsx'
import { Empty, Page } from '../ui/page.tsx'
import { AllowanceBars } from './allowance-bars.tsx'
import { once, useChange } from './change.ts'
import { IntegrationSelect, NoIntegration, useIntegration } from '../parts/integrations.tsx'
import { PagedTable } from './paged-table.tsx'
import { usePlatformSearch } from './search.ts'

/** The members of an integration, with what is left of their allowances. */
export function MembersPage() {
  const [search, set] = usePlatformSearch()
  const integration = useIntegration(search.integration)
  const [adding, setAdding] = useState(false)
  return (
    <Page
      title="Members"
      about="Who may use an integration, and how much."
      actions={
        <>
          <IntegrationSelect value={integration} onPick={(id) => set({ integration: id })} />
          <Button look="primary" icon="plus" disabled={integration === undefined} onClick={() => setAdding(true)}>
            Add a member
          </Button>
        </>
      }
    >
      {integration === undefined ? (
        <NoIntegration />
      ) : (
        <PagedTable
          label="Members"
          path={`v1/integrations/${encodeURIComponent(integration)}/members`}
          columns={COLUMNS}
          keyOf={(member) => member.id}
          empty={
            <Empty icon="users" title="No members yet">
              Members are needed where an integration has allowances, or admits members alone.
            </Empty>
          }
        />
      )}
      {adding && integration !== undefined && <NewMember integration={integration} onClose={() => setAdding(false)} />}
    </Page>
  )
}

const COLUMNS: readonly Column<Member>[] = [
  {
    name: 'Member',
    cell: ({ apiIntegrationId: integration, consumerId: consumer, displayName, allowance }) => (
      <Link
        to="/platform/members/$integration/$consumer"
        params={{ integration, consumer }}
        className="font-medium underline-offset-2 hover:underline"
      >
        {displayName ?? consumer} {allowance.exhausted && <Badge tone="bad">used up</Badge>}
        {displayName !== null && <span className="block text-xs font-normal text-soft">{consumer}</span>}
      </Link>
    ),
  },
  { name: 'State', cell: ({ status }) => <Status of={status} />, wideOnly: true },
  { name: 'Allowance', cell: ({ allowance }) => <AllowanceBars allowance={allowance} /> },
  { name: 'Active runs', cell: ({ activeRuns }) => activeRuns, right: true, wideOnly: true },
]

function NewMember({ integration, onClose }: { readonly integration: string; readonly onClose: () => void }) {
  const [consumerId, setConsumerId] = useState('')
  const [displayName, setDisplayName] = useState('')
  const [costUsd, setCostUsd] = useState('')
  const add = useChange(
    (body: object) =>
      ask('platform', `v1/integrations/${encodeURIComponent(integration)}/members`, {
        method: 'POST',
        body,
        headers: once(),
      }),
    'The member is registered',
  )
  const submit = (): void => {
    const allowance = costUsd === '' ? null : { costUsd: Number(costUsd) }
    add.mutate({ consumerId, displayName: displayName || null, allowance }, { onSuccess: onClose })
  }
  return (
    <Dialog open onClose={onClose} title="Add a member">
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault()
          submit()
        }}
      >
        <TextField
          label="Consumer id"
          required
          maxLength={256}
          value={consumerId}
          onChange={(event) => setConsumerId(event.target.value)}
          hint="As your programs name the user: consumerId of a completion."
        />
        <TextField label="Name" value={displayName} onChange={(event) => setDisplayName(event.target.value)} />
        <TextField
          label="Dollars a month"
          type="number"
          min={0}
          step="any"
          value={costUsd}
          onChange={(event) => setCostUsd(event.target.value)}
          hint="Empty: the default of the integration."
        />
        <Button look="primary" type="submit" disabled={consumerId === '' || add.isPending}>
          Add
        </Button>
      </form>
    </Dialog>
  )
}
