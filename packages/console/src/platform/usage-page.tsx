import type { UsageSummary } from '@bureau/protocol'
import { queryOptions, useQuery } from '@tanstack/react-query'
import { Suspense, useState } from 'react'
import { ask, lazyPart, queryOf, send } from '../server/request.ts'
import { Button } from '../ui/button.tsx'
import { type Column, DataTable } from '../ui/data-table.tsx'
import { Select } from '../ui/field.tsx'
import { dayOf, dollars, whole } from '../ui/format.ts'
import { Empty, Loading, Page, Unread } from '../ui/page.tsx'
import { saveBlob } from '../ui/save-file.ts'
import { failedToast } from '../ui/toasts.tsx'
import { IntegrationName, IntegrationSelect } from '../parts/integrations.tsx'
import { usePlatformSearch } from './search.ts'

const UsageChart = lazyPart(() => import('./usage-chart.tsx'), 'UsageChart')

type Row = UsageSummary['data'][number]
type Group = 'day' | 'integration' | 'consumer' | 'model'

const GROUPS = [
  { value: 'day', label: 'By day' },
  { value: 'integration', label: 'By integration' },
  { value: 'consumer', label: 'By consumer' },
  { value: 'model', label: 'By model' },
]
const RANGES = ['7', '30', '90', '365'].map((value) => ({ value, label: `${value} days` }))
const DAY_MS = 86_400_000

/** Consumers that are listed: those that cost most. */
const MOST = 100

const summaryQuery = (query: Parameters<typeof queryOf>[0]) =>
  queryOptions({
    queryKey: ['platform', 'usage', query],
    queryFn: async () => (await ask<UsageSummary>('platform', `v1/usage/summary${queryOf(query)}`)).data,
  })

/** What runs have spent. */
export function UsagePage() {
  const [{ integration, group = 'day', days = '30' }, set] = usePlatformSearch()
  const [now] = useState(Date.now)
  const range = { from: new Date(new Date(now - Number(days) * DAY_MS).setHours(0, 0, 0, 0)).toISOString() }
  const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone
  const query = { apiIntegrationId: integration, timeZone, ...range }
  const usage = useQuery(summaryQuery({ ...query, groupBy: group, limit: group === 'consumer' ? MOST : undefined }))
  // A run that asked two models counts for both, and not all consumers are listed.
  const totals = useQuery(summaryQuery({ ...query, groupBy: 'integration' }))
  const download = async (): Promise<void> => {
    const path = `v1/usage/export${queryOf({ format: 'csv', apiIntegrationId: integration, ...range })}`
    saveBlob('usage.csv', await (await send('platform', path)).blob())
  }
  return (
    <Page
      title="Usage"
      about="What runs have spent, by what their models report."
      actions={
        <>
          <Select label="Group" value={group} choices={GROUPS} onPick={(value) => set({ group: value })} />
          <Select label="Range" value={days} choices={RANGES} onPick={(value) => set({ days: value })} />
          <IntegrationSelect value={integration} onPick={(id) => set({ integration: id })} all="All integrations" />
          <Button icon="download" onClick={() => void download().catch(failedToast)}>
            CSV
          </Button>
        </>
      }
    >
      <Unread of={usage} />
      {usage.data?.length === 0 && <Empty icon="chart" title="Nothing was spent in this time" />}
      {totals.data && totals.data.length > 0 && <Totals rows={totals.data} />}
      {usage.data && usage.data.length > 0 && (
        <Spent rows={usage.data} group={group as Group} range={{ ...range, to: new Date(now).toISOString() }} />
      )}
    </Page>
  )
}

type SpentProps = {
  readonly rows: readonly Row[]
  readonly group: Group
  readonly range: { readonly from: string; readonly to: string }
}

function Spent({ rows, group, range }: SpentProps) {
  return (
    <div className="mt-4 flex flex-col gap-4">
      {group === 'day' && (
        <Suspense fallback={<Loading />}>
          <UsageChart rows={rows} from={range.from} to={range.to} />
        </Suspense>
      )}
      {group === 'consumer' && rows.length === MOST && (
        <p className="text-[13px] text-soft">The {MOST} consumers that cost most. The CSV has the runs of all.</p>
      )}
      <DataTable
        label={`Usage by ${group}`}
        rows={group === 'day' ? rows.toReversed() : rows.toSorted(byCost)}
        keyOf={({ key }) => key ?? ''}
        columns={columns(group)}
      />
    </div>
  )
}

const byCost = (a: Row, b: Row): number => b.usage.total_cost - a.usage.total_cost || b.runs - a.runs

function Totals({ rows }: { readonly rows: readonly Row[] }) {
  const sum = (of: (row: Row) => number): number => rows.reduce((total, row) => total + of(row), 0)
  const totals = [
    ['Cost', dollars(sum(({ usage }) => usage.total_cost))],
    ['Runs', whole(sum(({ runs }) => runs))],
    ['Failed', whole(sum(({ failedRuns }) => failedRuns))],
    ['Tokens in', whole(sum(({ usage }) => usage.input_tokens))],
    ['Tokens out', whole(sum(({ usage }) => usage.output_tokens))],
  ]
  return (
    <dl className="grid grid-cols-2 gap-3 sm:grid-cols-5">
      {totals.map(([name, value]) => (
        <div key={name} className="card px-4 py-3 first:col-span-2 sm:first:col-span-1">
          <dt className="text-xs text-soft">{name}</dt>
          <dd className="text-lg font-semibold tabular-nums">{value}</dd>
        </div>
      ))}
    </dl>
  )
}

/** A day is written as everywhere else; local midnight, because it is a day of the reader. */
function nameOf(key: string | null, group: Group): string {
  if (!key) return 'nobody named'
  return group === 'day' ? dayOf(`${key}T00:00`) : key
}

function columns(group: Group): readonly Column<Row>[] {
  return [
    {
      name: group[0]!.toUpperCase() + group.slice(1),
      cell: ({ key }) => (
        <span className="block max-w-36 truncate font-medium sm:max-w-72">
          {group === 'integration' && key ? <IntegrationName id={key} /> : nameOf(key, group)}
        </span>
      ),
    },
    { name: 'Runs', cell: ({ runs }) => whole(runs), right: true },
    { name: 'Failed', cell: ({ failedRuns }) => whole(failedRuns), right: true, wideOnly: true },
    { name: 'In', cell: ({ usage }) => whole(usage.input_tokens), right: true, wideOnly: true },
    { name: 'Cached', cell: ({ usage }) => whole(usage.cached_tokens), right: true, wideOnly: true },
    { name: 'Out', cell: ({ usage }) => whole(usage.output_tokens), right: true, wideOnly: true },
    { name: 'Cost', cell: ({ usage }) => dollars(usage.total_cost), right: true },
  ]
}
