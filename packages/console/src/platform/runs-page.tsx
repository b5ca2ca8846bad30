import type { PlatformRun } from '@bureau/protocol'
import { Link } from '@tanstack/react-router'
import { Status, Version } from '../ui/badge.tsx'
import { type Column, timeColumn } from '../ui/data-table.tsx'
import { Select } from '../ui/field.tsx'
import { dollars, duration, millisecondsBetween, whole } from '../ui/format.ts'
import { Empty, Page } from '../ui/page.tsx'
import { IntegrationName, IntegrationSelect } from '../parts/integrations.tsx'
import { ConsumerFilter } from './integration-page.tsx'
import { PagedTable } from './paged-table.tsx'
import { usePlatformSearch } from './search.ts'

const STATUSES = ['', 'queued', 'running', 'cancelling', 'waiting', 'completed', 'failed', 'cancelled']

/** The runs of all integrations, newest first. */
export function PlatformRunsPage() {
  const [{ integration, status, consumer }, set] = usePlatformSearch()
  return (
    <Page
      title="Runs"
      about="Every run of the platform, as it is recorded."
      actions={
        <>
          <ConsumerFilter />
          <Select
            label="Status"
            value={status ?? ''}
            choices={STATUSES.map((value) => ({ value, label: value || 'Any status' }))}
            onPick={(value) => set({ status: value })}
          />
          <IntegrationSelect value={integration} onPick={(id) => set({ integration: id })} all="All integrations" />
        </>
      }
    >
      <PagedTable
        label="Runs"
        path="v1/runs"
        query={{ apiIntegrationId: integration, status, consumerId: consumer }}
        columns={COLUMNS}
        keyOf={(run) => run.runId}
        empty={<Empty icon="runs" title="No such runs" />}
      />
    </Page>
  )
}

const COLUMNS: readonly Column<PlatformRun>[] = [
  { name: 'Status', cell: ({ status }) => <Status of={status} /> },
  {
    name: 'Run',
    grows: true,
    cell: ({ runId, agent, message, error }) => (
      <Link
        to="/platform/runs/$run"
        params={{ run: runId }}
        className="block truncate font-medium underline-offset-2 hover:underline"
      >
        {message || runId}
        <span className="block truncate text-xs font-normal text-soft">{agent}</span>
        {error && <span className="block truncate text-xs font-normal text-bad">{error.message}</span>}
      </Link>
    ),
  },
  { name: 'Integration', cell: ({ apiIntegrationId: id }) => <IntegrationName id={id} />, short: true, wideOnly: true },
  { name: 'Version', cell: ({ agencyVersion }) => <Version of={agencyVersion} />, wideOnly: 'very' },
  { name: 'Consumer', cell: ({ consumerId }) => consumerId ?? '', short: true, wideOnly: true },
  { name: 'Tokens', cell: ({ usage }) => (usage ? whole(usage.total_tokens) : ''), right: true, wideOnly: 'very' },
  { name: 'Cost', cell: ({ usage }) => (usage ? dollars(usage.total_cost) : ''), right: true, wideOnly: true },
  {
    name: 'Took',
    cell: ({ startedAt, finishedAt }) => {
      const ms = millisecondsBetween(startedAt, finishedAt)
      return ms === null ? '…' : duration(ms)
    },
    right: true,
  },
  timeColumn('Began', ({ createdAt }) => createdAt),
]
