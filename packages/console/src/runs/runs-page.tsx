import type { RecentRun } from '@bureau/protocol'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { textsOf } from '../address-search.ts'
import { routesQuery } from '../server/queries.ts'
import { Status, Version } from '../ui/badge.tsx'
import { type Column, DataTable, timeColumn } from '../ui/data-table.tsx'
import { Select } from '../ui/field.tsx'
import { dollars, duration, whole } from '../ui/format.ts'
import { Empty, Page, Unread } from '../ui/page.tsx'
import { recentRunsQuery } from '../server/run-queries.ts'

const route = getRouteApi('/server/runs')

type RunsSearch = { readonly agency?: string; readonly status?: string; readonly find?: string }

const STATUSES = ['', 'running', 'waiting', 'completed', 'failed', 'cancelled']

/** The latest runs of the server's process, whoever began them. */
export function RunsPage() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { data: routes } = useQuery(routesQuery)
  const { agency, status, find = '' } = search
  const runs = useQuery({ ...recentRunsQuery({ agency, status }), enabled: routes?.hasRuns === true })
  const set = (change: RunsSearch): void =>
    void navigate({
      search: (before) => textsOf({ ...before, ...change }, ['agency', 'status', 'find']),
      replace: true,
    })
  if (routes && !routes.hasRuns) return <Off />
  const shown = runs.data?.filter((run) => matches(run, find.toLowerCase()))
  return (
    <Page
      title="Runs"
      about="The latest 200 runs of this process. They are kept in its memory and gone when it ends."
      actions={<Filters search={search} agencies={routes?.agencies ?? []} set={set} />}
    >
      <Unread of={runs} />
      {shown?.length === 0 && (
        <Empty icon="runs" title="No runs yet">
          Send a message in the{' '}
          <Link to="/play" className="link">
            playground
          </Link>
          , or from a program of yours: it appears here at once.
        </Empty>
      )}
      {shown && shown.length > 0 && (
        <DataTable label="Runs" rows={shown} keyOf={(run) => run.run_id} columns={COLUMNS} />
      )}
    </Page>
  )
}

type FiltersProps = {
  readonly search: RunsSearch
  readonly agencies: readonly string[]
  readonly set: (change: RunsSearch) => void
}

function Filters({ search: { agency = '', status = '', find = '' }, agencies, set }: FiltersProps) {
  return (
    <>
      <input
        aria-label="Find"
        className="input w-44!"
        placeholder="Find in messages"
        value={find}
        onChange={(event) => set({ find: event.target.value })}
      />
      <Select
        label="Agency"
        value={agency}
        choices={[{ value: '', label: 'All agencies' }, ...agencies.map((name) => ({ value: name, label: name }))]}
        onPick={(value) => set({ agency: value })}
      />
      <Select
        label="Status"
        value={status}
        choices={STATUSES.map((value) => ({ value, label: value || 'Any status' }))}
        onPick={(value) => set({ status: value })}
      />
    </>
  )
}

const COLUMNS: readonly Column<RecentRun>[] = [
  { name: 'Status', cell: ({ status }) => <Status of={status} /> },
  {
    name: 'Message',
    grows: true,
    cell: ({ run_id: run, message, error }) => (
      <Link to="/runs/$run" params={{ run }} className="block truncate font-medium underline-offset-2 hover:underline">
        {message || '(files)'}
        {error && <span className="block truncate text-xs font-normal text-bad">{error.message}</span>}
      </Link>
    ),
  },
  { name: 'Agency', cell: ({ agency, agent }) => `${agency} / ${agent}`, short: true, wideOnly: true },
  { name: 'Version', cell: ({ agency_version: version }) => <Version of={version} />, wideOnly: 'very' },
  { name: 'Calls', cell: (run) => `${run.model_calls} + ${run.tool_calls}`, right: true, wideOnly: true },
  { name: 'Tokens', cell: ({ usage }) => (usage ? whole(usage.total_tokens) : ''), right: true, wideOnly: true },
  { name: 'Cost', cell: ({ usage }) => (usage ? dollars(usage.total_cost) : ''), right: true, wideOnly: true },
  { name: 'Took', cell: ({ duration_ms: ms }) => (ms === null ? '…' : duration(ms)), right: true },
  timeColumn('Began', ({ started_at: at }) => at),
]

function matches({ message, agency, agent, error, run_id: id }: RecentRun, find: string): boolean {
  return [message, agency, agent, error?.message ?? '', id].some((text) => text.toLowerCase().includes(find))
}

function Off() {
  return (
    <Page title="Runs">
      <Empty icon="runs" title="This server keeps no runs">
        In production they are kept only when that is asked for: with the option <code>keepRecentRuns</code> of{' '}
        <code>runServer</code>, or <code>BUREAU_KEEP_RECENT_RUNS=true</code>.
      </Empty>
    </Page>
  )
}
