import type { ApiKey, IssuedApiKey } from '@bureau/protocol'
import { useState } from 'react'
import { DialogButton } from '../ui/dialog.tsx'
import { Menu } from '../ui/menu.tsx'
import { Page } from '../ui/page.tsx'
import { failedToast } from '../ui/toasts.tsx'
import { useCreate, useRemove } from './change.ts'
import { IssuedKey, KeysTable, NewKey } from './keys-table.tsx'

const PATH = 'v1/api_keys'

/** The API keys of the owner. */
export function KeysPage() {
  const [replacement, setReplacement] = useState<IssuedApiKey>()
  return (
    <Page
      title="API keys"
      about="What programs sign in with. A key is shown once, when it is made."
      actions={
        <DialogButton label="New key" icon="plus" look="primary">
          {(close) => <NewKey path={PATH} onClose={close} />}
        </DialogButton>
      }
    >
      <KeysTable path={PATH} actionsOf={(key) => <KeyMenu apiKey={key} onIssued={setReplacement} />} />
      {replacement && <IssuedKey issued={replacement} onClose={() => setReplacement(undefined)} />}
    </Page>
  )
}

const OVERLAP_SECONDS = 86_400

function KeyMenu({ apiKey, onIssued }: { readonly apiKey: ApiKey; readonly onIssued: (key: IssuedApiKey) => void }) {
  const path = `${PATH}/${encodeURIComponent(apiKey.id)}`
  const rotate = useCreate<IssuedApiKey>(`${path}/rotate`, 'The old key works for another day')
  const revoke = useRemove(path, 'The key is revoked')
  return (
    <Menu
      label={`More about ${apiKey.name}`}
      items={[
        {
          label: 'Replace it',
          icon: 'retry',
          act: () => rotate.mutate({ overlapSeconds: OVERLAP_SECONDS }, { onSuccess: onIssued, onError: failedToast }),
        },
        {
          label: 'Revoke it',
          icon: 'trash',
          question: `Revoke ${apiKey.name}? Programs that use it are refused at once.`,
          act: () => revoke.mutate(),
        },
      ]}
    />
  )
}
