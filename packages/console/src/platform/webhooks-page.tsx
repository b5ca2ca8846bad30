import type { NewWebhookEndpoint, WebhookDelivery, WebhookEndpoint, WebhookTest } from '@bureau/protocol'
import { WEBHOOK_EVENTS } from '@bureau/protocol/platform-names'
import { useState } from 'react'
import { ask } from '../server/request.ts'
import { Badge, Badges, Status } from '../ui/badge.tsx'
import { type Column, timeColumn } from '../ui/data-table.tsx'
import { Dialog, DialogButton, FormDialog } from '../ui/dialog.tsx'
import { CheckList, TextField } from '../ui/field.tsx'
import { moment } from '../ui/format.ts'
import { Menu } from '../ui/menu.tsx'
import { Empty, Page } from '../ui/page.tsx'
import { failedToast, showToast } from '../ui/toasts.tsx'
import { useChange, useCreate, useRemove } from './change.ts'
import { PagedTable } from './paged-table.tsx'
import { Secret } from './secret.tsx'

/** Where events are delivered to, and how that went. */
export function WebhooksPage() {
  const [shown, setShown] = useState<WebhookEndpoint>()
  return (
    <Page
      title="Webhooks"
      about="Addresses of yours that are notified of what happens."
      actions={
        <DialogButton label="New endpoint" icon="plus" look="primary">
          {(close) => <NewEndpoint onClose={close} />}
        </DialogButton>
      }
    >
      <PagedTable
        label="Webhook endpoints"
        path="v1/webhook_endpoints"
        columns={columns(setShown)}
        keyOf={({ id }) => id}
        empty={<Empty icon="webhook" title="No webhooks yet" />}
      />
      {shown && <Deliveries endpoint={shown} onClose={() => setShown(undefined)} />}
    </Page>
  )
}

const pathOf = ({ id }: WebhookEndpoint): string => `v1/webhook_endpoints/${encodeURIComponent(id)}`

function columns(show: (endpoint: WebhookEndpoint) => void): readonly Column<WebhookEndpoint>[] {
  return [
    {
      name: 'Address',
      cell: (endpoint) => (
        <button
          type="button"
          className="block max-w-48 truncate sm:max-w-72 text-left font-medium underline-offset-2 hover:underline"
          onClick={() => show(endpoint)}
        >
          {endpoint.url}
        </button>
      ),
    },
    {
      name: 'State',
      cell: ({ status, failingSince }) => (
        <span className="flex gap-1">
          <Status of={status} />
          {failingSince !== null && <Badge tone="bad">failing since {moment(failingSince)}</Badge>}
        </span>
      ),
      wideOnly: true,
    },
    { name: 'Events', cell: ({ events }) => <Badges of={events} />, wideOnly: true },
    { name: 'More', cell: (endpoint) => <More endpoint={endpoint} show={() => show(endpoint)} />, right: true },
  ]
}

function More({ endpoint, show }: { readonly endpoint: WebhookEndpoint; readonly show: () => void }) {
  const isEnabled = endpoint.status === 'enabled'
  const change = useChange(
    () => ask('platform', pathOf(endpoint), { method: 'PATCH', body: { status: isEnabled ? 'disabled' : 'enabled' } }),
    isEnabled ? 'Nothing is delivered there any more' : 'Events are delivered there again',
  )
  const remove = useRemove(pathOf(endpoint), 'The endpoint is gone')
  const test = async (): Promise<void> => {
    const sent = await ask<WebhookTest>('platform', `${pathOf(endpoint)}/test`, { method: 'POST' })
    if (sent.problem !== null) throw new Error(sent.problem)
    showToast(`Delivered, answered with ${sent.responseStatus}`)
  }
  return (
    <Menu
      label={`More about ${endpoint.url}`}
      items={[
        { label: 'Deliveries', icon: 'events', act: show },
        { label: 'Send a test', icon: 'send', act: () => void test().catch(failedToast) },
        { label: isEnabled ? 'Switch off' : 'Switch on', icon: 'plug', act: () => change.mutate(undefined) },
        {
          label: 'Delete',
          icon: 'trash',
          question: `Delete ${endpoint.url}? What was not delivered yet is dropped.`,
          act: () => remove.mutate(),
        },
      ]}
    />
  )
}

function Deliveries({ endpoint, onClose }: { readonly endpoint: WebhookEndpoint; readonly onClose: () => void }) {
  return (
    <Dialog open wide onClose={onClose} title="Deliveries" about={endpoint.url}>
      <PagedTable
        label="Deliveries"
        path={`${pathOf(endpoint)}/deliveries`}
        columns={DELIVERY_COLUMNS}
        keyOf={({ eventId }) => eventId}
        empty={<Empty icon="webhook" title="Nothing was delivered yet" />}
      />
    </Dialog>
  )
}

const DELIVERY_COLUMNS: readonly Column<WebhookDelivery>[] = [
  { name: 'Event', cell: ({ type, eventId }) => <span title={eventId}>{type}</span> },
  { name: 'State', cell: ({ state }) => <Status of={state} /> },
  { name: 'Answer', cell: ({ responseStatus }) => responseStatus ?? '–', right: true },
  { name: 'Attempts', cell: ({ attempts }) => attempts, right: true },
  timeColumn('Next', ({ nextAttemptAt }) => nextAttemptAt),
  timeColumn('At', ({ createdAt }) => createdAt),
]

function NewEndpoint({ onClose }: { readonly onClose: () => void }) {
  const [url, setUrl] = useState('')
  const [events, setEvents] = useState<ReadonlySet<string>>(new Set(['run.completed', 'run.failed']))
  const add = useCreate<NewWebhookEndpoint>('v1/webhook_endpoints', 'Events are delivered there from now on')
  if (add.data) return <Secret title="Secret of the endpoint" secret={add.data.secret} onClose={onClose} />
  return (
    <FormDialog
      title="New endpoint"
      onClose={onClose}
      action="Add"
      ready={url !== '' && events.size > 0}
      onSubmit={() => add.mutate({ url, events: [...events] })}
      sent={add}
    >
      <TextField
        label="Address"
        name="url"
        type="url"
        required
        placeholder="https://"
        value={url}
        onChange={(event) => setUrl(event.target.value)}
        hint="A public HTTPS address."
      />
      <CheckList legend="Events" name="events" choices={WEBHOOK_EVENTS} chosen={events} onChange={setEvents} />
    </FormDialog>
  )
}
