import type { ReactNode } from 'react'
import { IntegrationSelect, NoIntegration, useIntegration } from '../parts/integrations.tsx'
import { TextField } from '../ui/field.tsx'
import { Page } from '../ui/page.tsx'
import { usePlatformSearch } from './search.ts'

type Props = {
  readonly title: string
  readonly about: string
  readonly actions: (integration: string) => ReactNode
  readonly children: (integration: string) => ReactNode
}

/** A page about one integration, which is chosen there and is in its address. */
export function IntegrationPage({ title, about, actions, children }: Props) {
  const [search, set] = usePlatformSearch()
  const integration = useIntegration(search.integration)
  return (
    <Page
      title={title}
      about={about}
      actions={
        <>
          <IntegrationSelect value={integration} onPick={(id) => set({ integration: id })} />
          {integration !== undefined && actions(integration)}
        </>
      }
    >
      {integration === undefined ? <NoIntegration /> : children(integration)}
    </Page>
  )
}

type ConsumerFieldProps = { readonly value: string; readonly onChange: (id: string) => void }

/** Whom something is for. */
export const ConsumerField = ({ value, onChange }: ConsumerFieldProps) => (
  <TextField
    label="Consumer id"
    name="consumerId"
    required
    maxLength={256}
    value={value}
    onChange={(event) => onChange(event.target.value)}
    hint="As your programs name the user: consumerId of a completion."
  />
)

/** Whose records a list shows: it may have been chosen at the page of a member. */
export function ConsumerFilter() {
  const [{ consumer = '' }, set] = usePlatformSearch()
  return (
    <input
      aria-label="Consumer"
      className="input w-40!"
      placeholder="Consumer id"
      value={consumer}
      onChange={(event) => set({ consumer: event.target.value })}
    />
  )
}
