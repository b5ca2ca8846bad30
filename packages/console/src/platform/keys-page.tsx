import type { ApiKey, IssuedApiKey } from '@bureau/protocol'
import { useState } from 'react'
import { ask } from '../server/request.ts'
import { Badge, Status } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import type { Column } from '../ui/data-table.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { CheckList, SelectField, TextField } from '../ui/field.tsx'
import { moment } from '../ui/format.ts'
import { Menu } from '../ui/menu.tsx'
import { Empty, Page } from '../ui/page.tsx'
import { once, useChange } from './change.ts'
import { PagedTable } from './paged-table.tsx'
import { Secret } from './secret.tsx'

const SCOPES = [
  'runs',
  'chats:read',
  'chats:write',
  'members:read',
  'members:write',
  'usage:read',
  'integrations:read',
  'integrations:write',
  'files:read',
  'files:write',
  'webhooks',
  'keys',
] as const

/** The API keys of the owner. */
export function KeysPage() {
  const [creating, setCreating] = useState(false)
  const [issued, setIssued] = useState<IssuedApiKey>()
  return (
    <Page
      title="API keys"
      about="What programs sign in with. A key is shown once, when it is made."
      actions={
        <Button look="primary" icon="plus" onClick={() => setCreating(true)}>
          New key
        </Button>
      }
    >
      <PagedTable
        label="API keys"
        path="v1/api_keys"
        columns={columns(setIssued)}
        keyOf={(key) => key.id}
        empty={<Empty icon="key" title="No keys" />}
      />
      {creating && (
        <NewKey
          onClose={() => setCreating(false)}
          onIssued={(key) => {
            setCreating(false)
            setIssued(key)
          }}
        />
      )}
      {issued?.token && (
        <Secret title={`Key ${issued.name}`} secret={issued.token} onClose={() => setIssued(undefined)} />
      )}
    </Page>
  )
}

function columns(onIssued: (key: IssuedApiKey) => void): readonly Column<ApiKey>[] {
  return [
    {
      name: 'Key',
      cell: ({ name, hint }) => (
        <>
          <span className="font-medium">{name}</span> <span className="font-mono text-xs text-soft">…{hint}</span>
        </>
      ),
    },
    { name: 'State', cell: (key) => <Status of={stateOf(key)} /> },
    {
      name: 'May',
      cell: ({ scopes }) => (
        <span className="flex flex-wrap gap-1">
          {scopes.map((scope) => (
            <Badge key={scope}>{scope === '*' ? 'everything' : scope}</Badge>
          ))}
        </span>
      ),
      wideOnly: true,
    },
    {
      name: 'Last used',
      cell: ({ lastUsedAt }) => (lastUsedAt === null ? 'never' : moment(lastUsedAt)),
      right: true,
      wideOnly: true,
    },
    {
      name: 'Expires',
      cell: ({ expiresAt }) => (expiresAt === null ? 'never' : moment(expiresAt)),
      right: true,
      wideOnly: true,
    },
    {
      name: 'More',
      cell: (key) => stateOf(key) === 'active' && <KeyMenu apiKey={key} onIssued={onIssued} />,
      right: true,
    },
  ]
}

function stateOf({ revokedAt, expiresAt }: ApiKey): 'active' | 'revoked' | 'expired' {
  if (revokedAt !== null && Date.parse(revokedAt) <= Date.now()) return 'revoked'
  return expiresAt !== null && Date.parse(expiresAt) <= Date.now() ? 'expired' : 'active'
}

const OVERLAP_SECONDS = 86_400

function KeyMenu({ apiKey, onIssued }: { readonly apiKey: ApiKey; readonly onIssued: (key: IssuedApiKey) => void }) {
  const path = `v1/api_keys/${encodeURIComponent(apiKey.id)}`
  const rotate = useChange(
    () =>
      ask<IssuedApiKey>('platform', `${path}/rotate`, {
        method: 'POST',
        body: { overlapSeconds: OVERLAP_SECONDS },
        headers: once(),
      }),
    'The old key works for another day',
  )
  const revoke = useChange(() => ask('platform', path, { method: 'DELETE' }), 'The key is revoked')
  return (
    <Menu
      label={`More about ${apiKey.name}`}
      items={[
        { label: 'Replace it', icon: 'retry', act: () => rotate.mutate(undefined, { onSuccess: onIssued }) },
        {
          label: 'Revoke it',
          icon: 'trash',
          danger: true,
          act: () => {
            if (confirm(`Revoke ${apiKey.name}? Programs that use it are refused at once.`)) revoke.mutate(undefined)
          },
        },
      ]}
    />
  )
}

type NewKeyProps = { readonly onClose: () => void; readonly onIssued: (key: IssuedApiKey) => void }

const DAY_MS = 86_400_000

function NewKey({ onClose, onIssued }: NewKeyProps) {
  const [name, setName] = useState('')
  const [days, setDays] = useState('')
  const [scopes, setScopes] = useState<ReadonlySet<string>>(new Set())
  const create = useChange(
    (body: object) => ask<IssuedApiKey>('platform', 'v1/api_keys', { method: 'POST', body, headers: once() }),
    'The key is made',
  )
  const submit = (): void => {
    const expiresAt = days === '' ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString()
    create.mutate({ name, expiresAt, ...(scopes.size > 0 && { scopes: [...scopes] }) }, { onSuccess: onIssued })
  }
  return (
    <Dialog open onClose={onClose} title="New API key">
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault()
          submit()
        }}
      >
        <TextField
          label="Name"
          required
          maxLength={100}
          value={name}
          onChange={(event) => setName(event.target.value)}
          hint="What it is for."
        />
        <SelectField
          label="Expires"
          value={days}
          choices={[
            { value: '', label: 'Never' },
            { value: '30', label: 'In 30 days' },
            { value: '90', label: 'In 90 days' },
            { value: '365', label: 'In a year' },
          ]}
          onPick={setDays}
        />
        <CheckList
          legend="May do (none chosen: everything that your key may)"
          choices={SCOPES}
          chosen={scopes}
          onChange={setScopes}
        />
        <Button look="primary" type="submit" disabled={name.trim() === '' || create.isPending}>
          Make the key
        </Button>
      </form>
    </Dialog>
  )
}
