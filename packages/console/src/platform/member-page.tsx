import type { LedgerEntry, Member } from '@bureau/protocol'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { ask } from '../server/request.ts'
import { Badge, Status } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { type Column, timeColumn } from '../ui/data-table.tsx'
import { DialogButton, FormDialog } from '../ui/dialog.tsx'
import { TextField } from '../ui/field.tsx'
import { counted, dollars, moment, whole } from '../ui/format.ts'
import { Empty, Page, UnreadPage } from '../ui/page.tsx'
import { AllowanceBars } from './allowance-bars.tsx'
import { useChange, useCreate } from './change.ts'
import { IntegrationName, integrationPath } from '../parts/integrations.tsx'
import { PagedTable } from './paged-table.tsx'

const route = getRouteApi('/platform/members/$integration/$consumer')

/** One member: what was used and booked in this period. */
export function MemberPage() {
  const { integration, consumer } = route.useParams()
  const path = `${integrationPath(integration)}/members/${encodeURIComponent(consumer)}`
  const query = useQuery({
    queryKey: ['platform', path],
    queryFn: () => ask<Member>('platform', path),
  })
  const { data: member } = query
  if (!member) return <UnreadPage title="Member" of={query} />
  return (
    <Page
      title={member.displayName ?? member.consumerId}
      about={<About member={member} />}
      actions={<Actions member={member} path={path} />}
      of={query}
    >
      <Cards member={member} />
      <h2 className="mb-2 font-semibold">Booked</h2>
      <PagedTable
        label="Ledger"
        path={`${path}/allowance/ledger`}
        columns={COLUMNS}
        keyOf={(entry) => entry.id}
        empty={<Empty icon="chart" title="Nothing was booked yet" />}
      />
    </Page>
  )
}

function Cards({ member }: { readonly member: Member }) {
  return (
    <div className="mb-4 grid gap-4 md:grid-cols-2">
      <section className="card p-4">
        <h2 className="mb-3 font-semibold">This {member.allowance.period}</h2>
        <AllowanceBars allowance={member.allowance} />
        <p className="mt-3 text-xs text-soft">
          Since {moment(member.allowance.periodStart)}
          {member.allowance.periodEnd !== null && `, until ${moment(member.allowance.periodEnd)}`}. Limits of the{' '}
          {member.allowance.source === 'member' ? 'member' : 'integration'}; at most{' '}
          {counted(member.allowance.maxConcurrentRuns, 'run')} at once.
        </p>
      </section>
      <section className="card p-4 text-[13px]">
        <h2 className="mb-3 font-semibold">Member</h2>
        <p className="flex items-center gap-2">
          <Status of={member.status} />
          {member.allowance.exhausted && <Badge tone="bad">used up</Badge>}
          {counted(member.activeRuns, 'active run')}
        </p>
        <p className="mt-2 flex gap-3">
          <Link to="/platform/chats" search={{ consumer: member.consumerId }} className="link">
            Chats
          </Link>
          <Link to="/platform/runs" search={{ consumer: member.consumerId }} className="link">
            Runs
          </Link>
          <Link
            to="/platform/tokens"
            search={{ integration: member.apiIntegrationId, consumer: member.consumerId }}
            className="link"
          >
            Tokens
          </Link>
        </p>
      </section>
    </div>
  )
}

function About({ member }: { readonly member: Member }) {
  return (
    <>
      <Link to="/platform/members" search={{ integration: member.apiIntegrationId }} className="link">
        Members
      </Link>{' '}
      / <IntegrationName id={member.apiIntegrationId} /> / {member.consumerId}
    </>
  )
}

function Actions({ member, path }: { readonly member: Member; readonly path: string }) {
  const isActive = member.status === 'active'
  const change = useChange(
    (status: string) => ask('platform', path, { method: 'PATCH', body: { status } }),
    isActive ? 'The member may not send messages any more' : 'The member may send messages again',
  )
  return (
    <>
      <Button onClick={() => change.mutate(isActive ? 'inactive' : 'active')}>
        {isActive ? 'Deactivate' : 'Activate'}
      </Button>
      <DialogButton label="Grant more" icon="plus" look="primary">
        {(close) => <Grant path={path} onClose={close} />}
      </DialogButton>
    </>
  )
}

function Grant({ path, onClose }: { readonly path: string; readonly onClose: () => void }) {
  const [amounts, setAmounts] = useState<Record<string, string>>({})
  const [note, setNote] = useState('')
  const grant = useCreate(`${path}/allowance/adjustments`, 'It is granted for this period')
  const given = Object.entries(amounts)
    .filter(([, amount]) => amount !== '')
    .map(([name, amount]) => [name, Number(amount)])
  return (
    <FormDialog
      title="Grant more"
      about="On top of the limits, in this period."
      onClose={onClose}
      action="Grant"
      ready={given.length > 0 && note !== ''}
      onSubmit={() => grant.mutate({ kind: 'grant', note, ...Object.fromEntries(given) }, { onSuccess: onClose })}
      sent={grant}
    >
      {[
        ['messages', 'Messages'],
        ['tokens', 'Tokens'],
        ['costUsd', 'Dollars'],
      ].map(([name, label]) => (
        <TextField
          key={name}
          name={name}
          label={label!}
          type="number"
          min={0}
          step={name === 'costUsd' ? 'any' : 1}
          value={amounts[name!] ?? ''}
          onChange={(event) => setAmounts({ ...amounts, [name!]: event.target.value })}
        />
      ))}
      <TextField
        label="Note"
        name="note"
        required
        maxLength={500}
        value={note}
        onChange={(event) => setNote(event.target.value)}
        hint="Why; it is kept with the booking."
      />
    </FormDialog>
  )
}

const COLUMNS: readonly Column<LedgerEntry>[] = [
  {
    name: 'Kind',
    cell: ({ kind, estimated }) => (
      <Badge tone={kind === 'grant' || kind === 'refund' ? 'good' : 'plain'}>
        {estimated ? `${kind}, estimated` : kind}
      </Badge>
    ),
  },
  {
    name: 'For',
    grows: true,
    cell: ({ runId, note }) =>
      runId === null ? (
        note
      ) : (
        <Link to="/platform/runs/$run" params={{ run: runId }} className="block truncate font-mono text-xs link">
          {runId}
        </Link>
      ),
  },
  { name: 'Messages', cell: ({ messages }) => whole(messages), right: true, wideOnly: true },
  { name: 'Tokens', cell: ({ tokens }) => whole(tokens), right: true },
  { name: 'Cost', cell: ({ costUsd }) => dollars(costUsd), right: true },
  timeColumn('At', ({ createdAt }) => createdAt),
]
