import type { ApiKey, IssuedApiKey } from '@bureau/protocol'
import { API_KEY_SCOPES } from '@bureau/protocol/platform-names'
import { useState } from 'react'
import { ask } from '../server/request.ts'
import { Badge, Status } from '../ui/badge.tsx'
import type { Column } from '../ui/data-table.tsx'
import { DialogButton, FormDialog } from '../ui/dialog.tsx'
import { CheckList, SelectField, TextField } from '../ui/field.tsx'
import { moment } from '../ui/format.ts'
import { Menu } from '../ui/menu.tsx'
import { Empty, Page } from '../ui/page.tsx'
import { useChange, useCreate } from './change.ts'
import { PagedTable } from './paged-table.tsx'
import { Secret } from './secret.tsx'

/** Without any of them a key may do everything. */
const SCOPES = API_KEY_SCOPES.filter((scope) => scope !== '*')

/** The API keys of the owner. */
export function KeysPage() {
  const [replacement, setReplacement] = useState<IssuedApiKey>()
  return (
    <Page
      title="API keys"
      about="What programs sign in with. A key is shown once, when it is made."
      actions={
        <DialogButton label="New key" icon="plus" look="primary">
          {(close) => <NewKey onClose={close} />}
        </DialogButton>
      }
    >
      <PagedTable
        label="API keys"
        path="v1/api_keys"
        columns={columns(setReplacement)}
        keyOf={(key) => key.id}
        empty={<Empty icon="key" title="No keys" />}
      />
      {replacement && <IssuedKey issued={replacement} onClose={() => setReplacement(undefined)} />}
    </Page>
  )
}

type IssuedProps = { readonly issued: IssuedApiKey; readonly onClose: () => void }

const IssuedKey = ({ issued: { name, token }, onClose }: IssuedProps) =>
  token && <Secret title={`Key ${name}`} secret={token} onClose={onClose} />

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
  const rotate = useCreate<IssuedApiKey>(`${path}/rotate`, 'The old key works for another day')
  const revoke = useChange(() => ask('platform', path, { method: 'DELETE' }), 'The key is revoked')
  return (
    <Menu
      label={`More about ${apiKey.name}`}
      items={[
        {
          label: 'Replace it',
          icon: 'retry',
          act: () => rotate.mutate({ overlapSeconds: OVERLAP_SECONDS }, { onSuccess: onIssued }),
        },
        {
          label: 'Revoke it',
          icon: 'trash',
          question: `Revoke ${apiKey.name}? Programs that use it are refused at once.`,
          act: () => revoke.mutate(undefined),
        },
      ]}
    />
  )
}

const DAY_MS = 86_400_000

const LIFETIMES = [
  { value: '', label: 'Never' },
  { value: '30', label: 'In 30 days' },
  { value: '90', label: 'In 90 days' },
  { value: '365', label: 'In a year' },
]

function NewKey({ onClose }: { readonly onClose: () => void }) {
  const [name, setName] = useState('')
  const [days, setDays] = useState('')
  const [scopes, setScopes] = useState<ReadonlySet<string>>(new Set())
  const create = useCreate<IssuedApiKey>('v1/api_keys', 'The key is made')
  if (create.data) return <IssuedKey issued={create.data} onClose={onClose} />
  const submit = (): void => {
    const expiresAt = days === '' ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString()
    create.mutate({ name, expiresAt, ...(scopes.size > 0 && { scopes: [...scopes] }) })
  }
  return (
    <FormDialog
      title="New API key"
      onClose={onClose}
      action="Make the key"
      ready={name.trim() !== '' && !create.isPending}
      onSubmit={submit}
    >
      <TextField
        label="Name"
        required
        maxLength={100}
        value={name}
        onChange={(event) => setName(event.target.value)}
        hint="What it is for."
      />
      <SelectField label="Expires" value={days} choices={LIFETIMES} onPick={setDays} />
      <CheckList
        legend="May do (none chosen: everything that your key may)"
        choices={SCOPES}
        chosen={scopes}
        onChange={setScopes}
      />
    </FormDialog>
  )
}
