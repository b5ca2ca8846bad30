import type { ApiKey, Owner, OwnerPatch } from '@bureau/protocol'
import { useState } from 'react'
import { ask } from '../server/request.ts'
import { PlatformDoor } from '../shell/doors.tsx'
import { Status } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { type Column, timeColumn } from '../ui/data-table.tsx'
import { Dialog, DialogButton, FormDialog } from '../ui/dialog.tsx'
import { CheckList } from '../ui/field.tsx'
import { Menu } from '../ui/menu.tsx'
import { Empty, Page } from '../ui/page.tsx'
import { useChange, useCreate, useRemove } from './change.ts'
import { KeysTable, NameField, NewKey } from './keys-table.tsx'
import { PagedTable } from './paged-table.tsx'

const PATH = 'v1/admin/owners'
const EVERY_AGENCY = 'every agency'

const pathOf = ({ id }: Owner): string => `${PATH}/${encodeURIComponent(id)}`

/** The owners of the platform, for whoever runs it. */
export function OwnersPage() {
  const [shown, setShown] = useState<Owner>()
  return (
    <PlatformDoor door="operator">
      <Page
        title="Owners"
        about="Who has agencies, chats and keys on this platform. No owner sees anything of another."
        actions={
          <DialogButton label="New owner" icon="plus" look="primary">
            {(close) => <NewOwner onClose={close} onMade={setShown} />}
          </DialogButton>
        }
      >
        <PagedTable
          label="Owners"
          path={PATH}
          door="operator"
          columns={columns(setShown)}
          keyOf={({ id }) => id}
          empty={<Empty icon="users" title="No owners yet" />}
        />
        {shown && <OwnerKeys owner={shown} onClose={() => setShown(undefined)} />}
      </Page>
    </PlatformDoor>
  )
}

type Show = (owner: Owner) => void

function columns(show: Show): readonly Column<Owner>[] {
  return [
    {
      name: 'Owner',
      cell: (owner) => (
        <button
          type="button"
          className="block max-w-48 truncate text-left font-medium underline-offset-2 hover:underline sm:max-w-72"
          onClick={() => show(owner)}
        >
          {owner.name}
        </button>
      ),
    },
    { name: 'Id', cell: ({ id }) => <code className="text-xs text-soft">{id}</code>, wideOnly: true },
    { name: 'State', cell: ({ status }) => <Status of={status} /> },
    {
      name: 'Agencies',
      cell: ({ publishesAgencies }) => (publishesAgencies ? EVERY_AGENCY : 'those it has chosen'),
      wideOnly: true,
    },
    timeColumn('Since', ({ createdAt }) => createdAt),
    { name: 'More', cell: (owner) => <OwnerMenu owner={owner} show={show} />, right: true },
  ]
}

function OwnerMenu({ owner, show }: { readonly owner: Owner; readonly show: Show }) {
  const { name, status, publishesAgencies } = owner
  const change = useChange(
    (body: OwnerPatch) => ask('operator', pathOf(owner), { method: 'PATCH', body }),
    'The owner is changed',
  )
  return (
    <Menu
      label={`More about ${name}`}
      items={[
        { label: 'API keys', icon: 'key', act: () => show(owner) },
        {
          label: publishesAgencies ? 'Let it choose its agencies' : 'Give it every agency',
          icon: 'plug',
          act: () => change.mutate({ publishesAgencies: !publishesAgencies }),
        },
        status === 'active'
          ? {
              label: 'Disable it',
              icon: 'stop',
              question: `Disable ${name}? Its API keys are refused until it is enabled again.`,
              act: () => change.mutate({ status: 'disabled' }),
            }
          : { label: 'Enable it', icon: 'check', act: () => change.mutate({ status: 'active' }) },
      ]}
    />
  )
}

function NewOwner({ onClose, onMade }: { readonly onClose: () => void; readonly onMade: Show }) {
  const [name, setName] = useState('')
  const [gets, setGets] = useState<ReadonlySet<string>>(new Set([EVERY_AGENCY]))
  const create = useCreate<Owner>(PATH, 'The owner is made', 'operator')
  const submit = (): void => {
    const body = { name, publishesAgencies: gets.has(EVERY_AGENCY) }
    create.mutate(body, {
      onSuccess: (owner) => {
        onClose()
        onMade(owner)
      },
    })
  }
  return (
    <FormDialog
      title="New owner"
      about="Its first API key is made next."
      onClose={onClose}
      action="Make the owner"
      ready={name.trim() !== ''}
      onSubmit={submit}
      sent={create}
    >
      <NameField value={name} onChange={setName} hint="A company, a team or a product." />
      <CheckList
        legend="Has an integration of"
        choices={[EVERY_AGENCY]}
        about={{ [EVERY_AGENCY]: 'also of those that are added later' }}
        chosen={gets}
        onChange={setGets}
      />
    </FormDialog>
  )
}

/** The operator's way to an owner's keys: to give it the first one, or another when the last is lost. */
function OwnerKeys({ owner, onClose }: { readonly owner: Owner; readonly onClose: () => void }) {
  const path = `${pathOf(owner)}/api_keys`
  return (
    <Dialog
      open
      wide
      onClose={onClose}
      title={`API keys of ${owner.name}`}
      about="A key is shown once, when it is made."
    >
      <div className="flex flex-col gap-3">
        <KeysTable path={path} door="operator" actionsOf={(key) => <Revoke apiKey={key} path={path} />} />
        <div className="self-end">
          <DialogButton label="New key" icon="plus" look="primary">
            {(close) => <NewKey path={path} door="operator" onClose={close} />}
          </DialogButton>
        </div>
      </div>
    </Dialog>
  )
}

function Revoke({ apiKey: { id, name }, path }: { readonly apiKey: ApiKey; readonly path: string }) {
  const revoke = useRemove(`${path}/${encodeURIComponent(id)}`, 'The key is revoked', 'operator')
  const question = `Revoke ${name}? Programs that use it are refused at once.`
  return (
    <Button icon="trash" disabled={revoke.isPending} onClick={() => confirm(question) && revoke.mutate()}>
      Revoke
    </Button>
  )
}
