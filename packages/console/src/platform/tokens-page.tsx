import type { ConsumerToken, ConsumerTokensRevoked } from '@bureau/protocol'
import { CONSUMER_SCOPES } from '@bureau/protocol/platform-names'
import { useState } from 'react'
import { integrationPath } from '../parts/integrations.tsx'
import { Badge } from '../ui/badge.tsx'
import type { Column } from '../ui/data-table.tsx'
import { DialogButton, FormDialog } from '../ui/dialog.tsx'
import { CheckList, SelectField } from '../ui/field.tsx'
import { moment } from '../ui/format.ts'
import { Empty } from '../ui/page.tsx'
import { useCreate } from './change.ts'
import { ConsumerField, IntegrationPage } from './integration-page.tsx'
import { PagedTable } from './paged-table.tsx'
import { usePlatformSearch } from './search.ts'
import { Secret } from './secret.tsx'

/** Tokens for the pages of consumers. They are signed and not stored: what can be listed is what was revoked. */
export function TokensPage() {
  const [{ consumer = '' }] = usePlatformSearch()
  return (
    <IntegrationPage
      title="Consumer tokens"
      about="Short-lived tokens that the page of a consumer may hold. Your server makes them for whoever has logged in; here you make one by hand."
      actions={(integration) => (
        <>
          <DialogButton label="New token" icon="plus" look="primary">
            {(close) => <NewToken integration={integration} consumer={consumer} onClose={close} />}
          </DialogButton>
          <DialogButton label="Revoke" icon="trash" look="danger">
            {(close) => <RevokeTokens integration={integration} consumer={consumer} onClose={close} />}
          </DialogButton>
        </>
      )}
    >
      {(integration) => (
        <PagedTable
          label="Revoked tokens"
          path={`${integrationPath(integration)}/consumer_token_revocations`}
          columns={COLUMNS}
          keyOf={({ consumerId }) => consumerId ?? ''}
          empty={
            <Empty icon="key" title="No tokens were revoked">
              Tokens are signed and not stored, so those that were made are not listed. Revoking refuses all that were
              made until then.
            </Empty>
          }
        />
      )}
    </IntegrationPage>
  )
}

const COLUMNS: readonly Column<ConsumerTokensRevoked>[] = [
  {
    name: 'Consumer',
    cell: ({ consumerId }) =>
      consumerId === null ? (
        <Badge tone="warn">every consumer</Badge>
      ) : (
        <span className="line-clamp-2 max-w-40 wrap-anywhere sm:max-w-72">{consumerId}</span>
      ),
  },
  {
    name: 'Refused if made before',
    cell: ({ notBefore }) => <span className="text-soft">{moment(notBefore)}</span>,
    right: true,
  },
]

type Props = { readonly integration: string; readonly consumer: string; readonly onClose: () => void }

const SCOPES = {
  chat: 'sends messages; follows and stops its runs',
  read: 'reads its own chats',
  upload: 'uploads files for its messages',
  approve: 'decides about calls of its runs',
} as const satisfies Record<(typeof CONSUMER_SCOPES)[number], string>

const LIFETIMES = [
  { value: '900', label: '15 minutes' },
  { value: '1800', label: '30 minutes' },
  { value: '3600', label: 'An hour' },
]

function NewToken({ integration, consumer, onClose }: Props) {
  const [consumerId, setConsumerId] = useState(consumer)
  const [scopes, setScopes] = useState<ReadonlySet<string>>(new Set(['chat', 'read']))
  const [seconds, setSeconds] = useState('900')
  const create = useCreate<ConsumerToken>('v1/consumer_tokens', 'The token is made')
  if (create.data) {
    const { token, consumerId: holder, scopes: may, expiresAt } = create.data
    return (
      <Secret
        title={`Token of ${holder}`}
        about={`Good for ${may.join(', ')} until ${moment(expiresAt)}.`}
        secret={token}
        onClose={onClose}
      />
    )
  }
  const body = { apiIntegrationId: integration, consumerId, scopes: [...scopes], expiresInSeconds: Number(seconds) }
  return (
    <FormDialog
      title="New consumer token"
      onClose={onClose}
      action="Make the token"
      ready={consumerId !== '' && scopes.size > 0}
      onSubmit={() => create.mutate(body)}
      sent={create}
    >
      <ConsumerField value={consumerId} onChange={setConsumerId} />
      <CheckList
        legend="May do"
        name="scopes"
        choices={CONSUMER_SCOPES}
        about={SCOPES}
        chosen={scopes}
        onChange={setScopes}
      />
      <SelectField label="Good for" name="expiresInSeconds" value={seconds} choices={LIFETIMES} onPick={setSeconds} />
    </FormDialog>
  )
}

function RevokeTokens({ integration, consumer, onClose }: Props) {
  const [consumerId, setConsumerId] = useState(consumer)
  const [whose, setWhose] = useState('one')
  const revoke = useCreate<ConsumerTokensRevoked>('v1/consumer_tokens/revoke', 'The tokens are refused from now on')
  const isOne = whose === 'one'
  return (
    <FormDialog
      title="Revoke tokens"
      about="All that were made until now are refused within five seconds. Later ones count."
      onClose={onClose}
      action="Revoke"
      ready={!isOne || consumerId !== ''}
      onSubmit={() =>
        revoke.mutate({ apiIntegrationId: integration, ...(isOne && { consumerId }) }, { onSuccess: onClose })
      }
      sent={revoke}
    >
      <SelectField
        label="Whose"
        value={whose}
        choices={[
          { value: 'one', label: 'Of one consumer' },
          { value: 'all', label: 'Of every consumer of the integration' },
        ]}
        onPick={setWhose}
      />
      {isOne && <ConsumerField value={consumerId} onChange={setConsumerId} />}
    </FormDialog>
  )
}
