import type { RecentRun } from '@bureau/protocol'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useChats } from '../chats/use-chats.ts'
import { routesQuery } from '../server/queries.ts'
import { recentRunsQuery } from '../server/run-queries.ts'
import { moment } from '../ui/format.ts'
import { Icon } from '../ui/icons.tsx'
import { Empty, Page } from '../ui/page.tsx'

/** Everything that waits for a person, over all chats. */
export function InboxPage() {
  const { data: routes } = useQuery(routesQuery)
  const waiting = useChats().filter(({ waits }) => waits)
  const { data: runs = [] } = useQuery({ ...recentRunsQuery({ status: 'waiting' }), enabled: routes?.hasRuns === true })
  return (
    <Page title="Inbox" about="Calls of tools that wait until somebody has decided on them.">
      {waiting.length + runs.length === 0 && (
        <Empty icon="inbox" title="Nothing waits for you">
          A tool with <code>needsApproval</code> waits until somebody has approved or rejected its call.
        </Empty>
      )}
      <ul aria-label="Your chats that wait" className="flex flex-col gap-2">
        {waiting.map(({ id, agency, title, updatedAt }) => (
          <li key={id}>
            <Link
              to="/play/$agency"
              params={{ agency }}
              search={{ chat: id }}
              className="card flex min-h-12 items-center gap-3 px-4 py-2 hover:bg-hover"
            >
              <Icon name="clock" className="text-warn" />
              <span className="min-w-0 flex-1 truncate font-medium">{title}</span>
              <span className="text-[13px] text-soft">{agency}</span>
              <span className="text-[13px] text-soft">{moment(updatedAt)}</span>
            </Link>
          </li>
        ))}
      </ul>
      {runs.length > 0 && <Waiting runs={runs} />}
    </Page>
  )
}

/** A self-hosted server gives what the decision needs to the client of the run alone. */
function Waiting({ runs }: { readonly runs: readonly RecentRun[] }) {
  return (
    <section className="mt-6">
      <h2 className="font-semibold">Runs of this server that wait</h2>
      <p className="mb-2 text-[13px] text-soft">Those of other clients are decided on there.</p>
      <ul className="flex flex-col gap-2">
        {runs.map(({ run_id: run, agency, message, started_at: at }) => (
          <li key={run}>
            <Link
              to="/runs/$run"
              params={{ run }}
              className="card flex min-h-12 items-center gap-3 px-4 py-2 hover:bg-hover"
            >
              <span className="min-w-0 flex-1 truncate">{message}</span>
              <span className="text-[13px] text-soft">{agency}</span>
              <span className="text-[13px] text-soft">{moment(at)}</span>
            </Link>
          </li>
        ))}
      </ul>
    </section>
  )
}
