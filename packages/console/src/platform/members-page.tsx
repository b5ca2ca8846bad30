import type { Member } from '@bureau/protocol'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { integrationPath } from '../parts/integrations.tsx'
import { Badge, Status } from '../ui/badge.tsx'
import type { Column } from '../ui/data-table.tsx'
import { DialogButton, FormDialog } from '../ui/dialog.tsx'
import { TextField } from '../ui/field.tsx'
import { Empty } from '../ui/page.tsx'
import { AllowanceBars } from './allowance-bars.tsx'
import { useCreate } from './change.ts'
import { ConsumerField, IntegrationPage } from './integration-page.tsx'
import { PagedTable } from './paged-table.tsx'

/** The members of an integration, with what is left of their allowances. */
export function MembersPage() {
  return (
    <IntegrationPage
      title="Members"
      about="Who may use an integration, and how much."
      actions={(integration) => (
        <DialogButton label="Add a member" icon="plus" look="primary">
          {(close) => <NewMember integration={integration} onClose={close} />}
        </DialogButton>
      )}
    >
      {(integration) => (
        <PagedTable
          label="Members"
          path={`${integrationPath(integration)}/members`}
          columns={COLUMNS}
          keyOf={(member) => member.id}
          empty={
            <Empty icon="users" title="No members yet">
              Members are needed where an integration has allowances, or admits members alone.
            </Empty>
          }
        />
      )}
    </IntegrationPage>
  )
}

const COLUMNS: readonly Column<Member>[] = [
  {
    name: 'Member',
    cell: ({ apiIntegrationId: integration, consumerId: consumer, displayName, allowance }) => (
      <Link
        to="/platform/members/$integration/$consumer"
        params={{ integration, consumer }}
        className="block max-w-36 font-medium underline-offset-2 hover:underline sm:max-w-72"
      >
        <span className="line-clamp-2 wrap-anywhere">{displayName ?? consumer}</span>
        {displayName !== null && (
          <span className="line-clamp-2 text-xs font-normal wrap-anywhere text-soft">{consumer}</span>
        )}
        {allowance.exhausted && <Badge tone="bad">used up</Badge>}
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
  const add = useCreate(`${integrationPath(integration)}/members`, 'The member is registered')
  const submit = (): void => {
    const allowance = costUsd === '' ? null : { costUsd: Number(costUsd) }
    add.mutate({ consumerId, displayName: displayName || null, allowance }, { onSuccess: onClose })
  }
  return (
    <FormDialog
      title="Add a member"
      onClose={onClose}
      action="Add"
      ready={consumerId !== ''}
      onSubmit={submit}
      sent={add}
    >
      <ConsumerField value={consumerId} onChange={setConsumerId} />
      <TextField
        label="Name"
        name="displayName"
        value={displayName}
        onChange={(event) => setDisplayName(event.target.value)}
      />
      <TextField
        label="Dollars a month"
        name="costUsd"
        type="number"
        min={0}
        step="any"
        value={costUsd}
        onChange={(event) => setCostUsd(event.target.value)}
        hint="Empty: the default of the integration."
      />
    </FormDialog>
  )
}
