import type { ApiKey, IssuedApiKey } from '@bureau/protocol'
import { API_KEY_SCOPES } from '@bureau/protocol/platform-names'
import { type ReactNode, useState } from 'react'
import type { Door } from '../server/credentials.ts'
import { Badges, Status } from '../ui/badge.tsx'
import { type Column, timeColumn } from '../ui/data-table.tsx'
import { FormDialog } from '../ui/dialog.tsx'
import { CheckList, SelectField, TextField } from '../ui/field.tsx'
import { Empty } from '../ui/page.tsx'
import { useCreate } from './change.ts'
import { PagedTable } from './paged-table.tsx'
import { Secret } from './secret.tsx'

/** Without any of them a key may do everything. */
const SCOPES = API_KEY_SCOPES.filter((scope) => scope !== '*')

/** Where keys are made and listed, and as whom. */
type Place = { readonly path: string; readonly door?: Door }

type ActionsOf = (key: ApiKey) => ReactNode

/** API keys, as an owner sees its own and the operator those of an owner. `actionsOf`: what can be done with one that is good. */
export const KeysTable = ({ actionsOf, ...place }: Place & { readonly actionsOf: ActionsOf }) => (
  <PagedTable
    label="API keys"
    {...place}
    columns={columns(actionsOf)}
    keyOf={(key) => key.id}
    empty={<Empty icon="key" title="No keys" />}
  />
)

type IssuedProps = { readonly issued: IssuedApiKey; readonly onClose: () => void }

export const IssuedKey = ({ issued: { name, token }, onClose }: IssuedProps) => (
  <Secret title={`Key ${name}`} secret={token} onClose={onClose} />
)

function columns(actionsOf: ActionsOf): readonly Column<ApiKey>[] {
  return [
    {
      name: 'Key',
      cell: ({ name, hint }) => (
        <span className="block max-w-56 wrap-anywhere">
          <span className="font-medium">{name}</span>{' '}
          <span className="font-mono text-xs whitespace-nowrap text-soft">…{hint}</span>
        </span>
      ),
    },
    { name: 'State', cell: (key) => <Status of={stateOf(key)} />, wideOnly: true },
    {
      name: 'May',
      cell: ({ scopes }) => <Badges of={scopes.map((scope) => (scope === '*' ? 'everything' : scope))} />,
      wideOnly: true,
    },
    timeColumn('Last used', ({ lastUsedAt }) => lastUsedAt, 'never'),
    timeColumn('Expires', ({ expiresAt }) => expiresAt, 'never'),
    {
      name: 'More',
      cell: (key) => stateOf(key) === 'active' && actionsOf(key),
      right: true,
    },
  ]
}

function stateOf({ revokedAt, expiresAt }: ApiKey): 'active' | 'revoked' | 'expired' {
  if (revokedAt !== null && Date.parse(revokedAt) <= Date.now()) return 'revoked'
  return expiresAt !== null && Date.parse(expiresAt) <= Date.now() ? 'expired' : 'active'
}

const DAY_MS = 86_400_000

const LIFETIMES = [
  { value: '', label: 'Never' },
  { value: '30', label: 'In 30 days' },
  { value: '90', label: 'In 90 days' },
  { value: '365', label: 'In a year' },
]

type NameFieldProps = {
  readonly value: string
  readonly onChange: (name: string) => void
  readonly hint: string
}

export const NameField = ({ value, onChange, hint }: NameFieldProps) => (
  <TextField
    label="Name"
    name="name"
    required
    maxLength={100}
    value={value}
    onChange={(event) => onChange(event.target.value)}
    hint={hint}
  />
)

type NewKeyProps = Place & { readonly onClose: () => void }

export function NewKey({ path, door, onClose }: NewKeyProps) {
  const [name, setName] = useState('')
  const [days, setDays] = useState('')
  const [expiresAt, setExpiresAt] = useState<string | null>(null)
  const [scopes, setScopes] = useState<ReadonlySet<string>>(new Set())
  const create = useCreate<IssuedApiKey>(path, 'The key is made', door)
  if (create.data) return <IssuedKey issued={create.data} onClose={onClose} />
  // Sent again, it is the same to the millisecond: the same request makes no second key.
  const pickDays = (picked: string): void => {
    setDays(picked)
    setExpiresAt(picked === '' ? null : new Date(Date.now() + Number(picked) * DAY_MS).toISOString())
  }
  return (
    <FormDialog
      title="New API key"
      onClose={onClose}
      action="Make the key"
      ready={name.trim() !== ''}
      onSubmit={() => create.mutate({ name, expiresAt, ...(scopes.size > 0 && { scopes: [...scopes] }) })}
      sent={create}
    >
      <NameField value={name} onChange={setName} hint="What it is for." />
      <SelectField label="Expires" name="expiresAt" value={days} choices={LIFETIMES} onPick={pickDays} />
      <CheckList
        name="scopes"
        legend="May do (none chosen: everything that you may give)"
        choices={SCOPES}
        chosen={scopes}
        onChange={setScopes}
      />
    </FormDialog>
  )
}
