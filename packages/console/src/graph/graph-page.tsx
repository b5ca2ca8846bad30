import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useSessions } from '../chats/sessions.ts'
import { routesQuery } from '../server/queries.ts'
import { buttonClass } from '../ui/button.tsx'
import { Select } from '../ui/field.tsx'
import { Icon } from '../ui/icons.tsx'
import { Heading } from '../ui/page.tsx'
import { AgencyGraph } from './agency-graph.tsx'

const route = getRouteApi('/server/graph/$agency')

/** An agency as a graph. */
export function GraphPage() {
  const { agency } = route.useParams()
  const navigate = route.useNavigate()
  const { data: routes } = useQuery(routesQuery)
  const session = useSessions().latest(agency)
  return (
    <div className="flex h-full flex-col">
      <header className="flex min-h-12 items-center gap-2 border-b border-line px-3">
        <Heading title="Graph" className="text-[13px] font-semibold" />
        <Select
          label="Agency"
          value={agency}
          choices={(routes?.agencies ?? [agency]).map((name) => ({ value: name, label: name }))}
          onPick={(name) => void navigate({ to: '/graph/$agency', params: { agency: name } })}
        />
        <span className="flex-1" />
        <Link
          to="/play/$agency"
          params={{ agency }}
          search={session ? { chat: session.view.chat.id, panel: 'graph' } : { panel: 'graph' }}
          className={buttonClass()}
        >
          <Icon name="chat" />
          Try it
        </Link>
      </header>
      <div className="min-h-0 flex-1">
        <AgencyGraph key={agency} agency={agency} session={session} />
      </div>
    </div>
  )
}
