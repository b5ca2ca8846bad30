import type { RecentRun } from '@bureau/protocol'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { placeOf } from '../chats/chat.ts'
import type { ChatHead } from '../chats/chat-store.ts'
import { useChats } from '../chats/use-chats.ts'
import { useWaitingRuns } from '../server/approvals.ts'
import { useCredentials } from '../server/credentials.ts'
import { factsQuery, useServerAccess, useServerRoutes } from '../server/queries.ts'
import { isRefusal } from '../server/request.ts'
import { recentRunsQuery } from '../server/run-queries.ts'
import { moment } from '../ui/format.ts'
import { Icon } from '../ui/icons.tsx'
import { Empty, Failure, Loading, Page } from '../ui/page.tsx'
import { PlatformRuns } from './platform-runs.tsx'

/** Everything that waits for a person, over all chats. */
export function InboxPage() {
  const access = useServerAccess()
  const { data: routes } = useServerRoutes()
  const chats = useChats().filter(({ waits, platform }) => waits && !platform)
  const { data: runs = [] } = useQuery({ ...recentRunsQuery({ status: 'waiting' }), enabled: routes?.hasRuns === true })
  const waiting = useWaitingRuns()
  const platform = waiting.data?.runs ?? []
  const isEmpty = chats.length + runs.length + platform.length === 0 && !waiting.error
  return (
    <Page title="Inbox" about="Calls of tools that wait until somebody has decided on them.">
      {waiting.isLoading && <Loading />}
      {waiting.error && <Problem error={waiting.error} retry={() => void waiting.refetch()} />}
      {isEmpty && !waiting.isLoading && (
        <Empty icon="inbox" title="Nothing waits for you">
          A tool with <code>needsApproval</code> waits until somebody has approved or rejected its call.
        </Empty>
      )}
      <div className="flex flex-col gap-6">
        {platform.length > 0 && <PlatformRuns runs={platform} isCut={waiting.data?.isCut ?? false} />}
        {chats.length > 0 && <Chats chats={chats} />}
        {runs.length > 0 && <ServerRuns runs={runs} />}
      </div>
      <SignInHints isLocked={access === 'locked'} />
    </Page>
  )
}

/** Why it is not known what waits on the platform. */
function Problem({ error, retry }: { readonly error: Error; readonly retry: () => void }) {
  return (
    <>
      <Failure error={error} retry={retry} />
      {isRefusal(error, 403) && (
        <p className="mt-2 text-[13px] text-soft">
          Runs of the platform are shown to API keys with the scope <code>runs</code>; to decide takes{' '}
          <code>runs:approve</code>.
        </p>
      )}
    </>
  )
}

function Chats({ chats }: { readonly chats: readonly ChatHead[] }) {
  return (
    <Group title="Your chats that wait">
      {chats.map(({ id, agency, title, updatedAt }) => (
        <li key={id}>
          <Link
            to="/play/$agency"
            {...placeOf({ id, agency })}
            className="card flex min-h-12 items-center gap-3 px-4 py-2 hover:bg-hover"
          >
            <Icon name="clock" className="text-warn" />
            <span className="min-w-0 flex-1 truncate font-medium">{title}</span>
            <span className="text-[13px] text-soft">{agency}</span>
            <span className="text-[13px] text-soft">{moment(updatedAt)}</span>
          </Link>
        </li>
      ))}
    </Group>
  )
}

/** A self-hosted server gives what the decision needs to the client of the run alone. */
function ServerRuns({ runs }: { readonly runs: readonly RecentRun[] }) {
  return (
    <Group title="Runs of this server that wait" about="Those of other clients are decided on there.">
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
    </Group>
  )
}

type GroupProps = { readonly title: string; readonly about?: string; readonly children: ReactNode }

function Group({ title, about, children }: GroupProps) {
  return (
    <section>
      <h2 className="font-semibold">{title}</h2>
      {about && <p className="text-[13px] text-soft">{about}</p>}
      <ul aria-label={title} className="mt-2 flex flex-col gap-2">
        {children}
      </ul>
    </section>
  )
}

/** What waits at a door where nobody has signed in is not known. */
function SignInHints({ isLocked }: { readonly isLocked: boolean }) {
  const { data: facts } = useQuery(factsQuery)
  const { platform } = useCredentials()
  return (
    <p className="mt-4 flex flex-col gap-1 text-center text-[13px] text-soft">
      {isLocked && (
        <Link to="/play" className="link">
          Sign in to the server to see the runs that wait there
        </Link>
      )}
      {facts?.platform && platform === undefined && (
        <Link to="/platform" className="link">
          Sign in to the platform to see the runs that wait there
        </Link>
      )}
    </p>
  )
}
