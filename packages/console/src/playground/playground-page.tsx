import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { Suspense, lazy, useEffect, useState } from 'react'
import type { AgencyMetadata } from '@bureau/protocol'
import { type AgentNode, agentsOf, metadataQuery, routesQuery } from '../server/queries.ts'
import { IconButton } from '../ui/button.tsx'
import { Select } from '../ui/field.tsx'
import { Empty, Failure, Loading } from '../ui/page.tsx'
import { DecideContext } from '../parts/approval-card.tsx'
import type { Decide } from '../server/approvals.ts'
import { ChatList } from './chat-list.tsx'
import type { ChatSession, SessionView } from '../chats/chat-session.ts'
import { Composer } from './composer.tsx'
import { OptionsDialog } from './options-dialog.tsx'
import { newChat } from '../chats/chat.ts'
import { useSession, useSessions } from '../chats/sessions.ts'
import { Transcript } from './transcript.tsx'
import { Suggestions } from './turn-view.tsx'

const Inspector = lazy(() => import('./inspector.tsx').then(({ Inspector }) => ({ default: Inspector })))

const route = getRouteApi('/server/play/$agency')

export type PlaySearch = {
  readonly chat?: string
  /** What is open beside the chat. */
  readonly panel?: 'events' | 'graph'
}

/** One agency to talk to. Which chat and which panel are open is in the address. */
export function PlaygroundPage() {
  const { agency } = route.useParams()
  const { chat } = route.useSearch()
  const navigate = route.useNavigate()
  const { data: routes } = useQuery(routesQuery)
  const session = useOpenSession(agency, chat)
  useEffect(() => {
    if (chat === undefined)
      void navigate({ search: (before) => ({ ...before, chat: newChat(agency).id }), replace: true })
  }, [agency, chat, navigate])
  if (routes?.onlyAgui.has(agency)) {
    return (
      <Empty icon="chat" title="This agency speaks AG-UI at get_response_stream">
        The server was started with enableAgui, and the playground speaks the agency protocol. Start it without.
      </Empty>
    )
  }
  if (!session) return <Loading />
  return <OpenPlayground key={session.view.chat.id} agency={agency} session={session} />
}

function useOpenSession(agency: string, chat: string | undefined): ChatSession | undefined {
  const sessions = useSessions()
  const [session, setSession] = useState<ChatSession>()
  useEffect(() => {
    let wanted = true
    setSession(undefined)
    if (chat !== undefined) void sessions.open(agency, chat).then((opened) => wanted && setSession(opened))
    return () => {
      wanted = false
    }
  }, [sessions, agency, chat])
  return session
}

function OpenPlayground({ agency, session }: { readonly agency: string; readonly session: ChatSession }) {
  const view = useSession(session)
  const { panel } = route.useSearch()
  const [options, setOptions] = useState(false)
  const metadata = useQuery(metadataQuery(agency))
  const last = view.chat.turns.at(-1)
  const addressed = addressedAgent(metadata.data, view.chat.agent)
  const replies = last?.status === 'completed' ? (addressed?.quickReplies ?? []) : []
  const decide: Decide = (callId, decision) => session.decide(callId, decision)
  const say = (text: string): void => session.send({ text, files: [] })
  return (
    <div className="flex h-full min-h-0">
      <ChatList agency={agency} open={view.chat.id} />
      <section aria-label="Chat" className="flex min-w-0 flex-1 flex-col">
        <Header agency={agency} session={session} view={view} />
        {metadata.error && (
          <div className="p-4">
            <Failure error={metadata.error} retry={() => void metadata.refetch()} />
          </div>
        )}
        <DecideContext value={view.busy ? undefined : decide}>
          <Transcript
            session={session}
            view={view}
            opening={addressed && <Opening agent={addressed} say={say} />}
            closing={<Suggestions texts={replies} pick={say} />}
          />
        </DecideContext>
        <div className="px-3 pt-1 pb-3">
          <Composer session={session} view={view} onOptions={() => setOptions(true)} />
        </div>
      </section>
      {panel && (
        <Suspense fallback={null}>
          <Inspector panel={panel} agency={agency} session={session} />
        </Suspense>
      )}
      {options && <OptionsDialog session={session} model={addressed?.model ?? ''} onClose={() => setOptions(false)} />}
    </div>
  )
}

function addressedAgent(metadata: AgencyMetadata | undefined, agent: string | null): AgentNode['data'] | undefined {
  const name = agent ?? metadata?.metadata.entryPoints[0]
  return agentsOf(metadata).find(({ id }) => id === name)?.data
}

/** What is there before the first message. */
function Opening({ agent, say }: { readonly agent: AgentNode['data']; readonly say: (text: string) => void }) {
  return (
    <div className="flex flex-col gap-3 pt-8">
      <h2 className="text-xl font-semibold">{agent.label}</h2>
      {agent.description && <p className="text-soft">{agent.description}</p>}
      <Suggestions texts={agent.conversationStarters ?? []} pick={say} />
    </div>
  )
}

type HeaderProps = { readonly agency: string; readonly session: ChatSession; readonly view: SessionView }

function Header({ agency, session, view }: HeaderProps) {
  const { panel } = route.useSearch()
  const navigate = route.useNavigate()
  const { data: routes } = useQuery(routesQuery)
  const { data: metadata } = useQuery(metadataQuery(agency))
  const agencies = routes?.agencies ?? [agency]
  const show = (next: PlaySearch['panel']): void =>
    void navigate({ search: ({ chat }) => ({ ...(chat && { chat }), ...(next && next !== panel && { panel: next }) }) })
  return (
    <header className="flex min-h-12 items-center gap-2 border-b border-line px-3 py-1.5 [&_select]:min-w-0 [&_select]:shrink">
      <h1 className="sr-only">Playground</h1>
      <Select
        label="Agency"
        value={agency}
        choices={agencies.map((name) => ({ value: name, label: name }))}
        onPick={(name) => void navigate({ to: '/play/$agency', params: { agency: name }, search: {} })}
      />
      <Select
        label="Agent"
        value={view.chat.agent ?? ''}
        disabled={view.busy}
        choices={agentChoices(agentsOf(metadata), metadata?.metadata.entryPoints[0])}
        onPick={(agent) => session.configure({ agent: agent === '' ? null : agent })}
      />
      {view.connection === 'reconnecting' && (
        <span role="status" className="rounded-md bg-warn-soft px-2 py-0.5 text-xs text-warn">
          Reconnecting …
        </span>
      )}
      <span className="flex-1" />
      <IconButton
        icon="graph"
        label="Graph"
        aria-pressed={panel === 'graph'}
        onClick={() => show('graph')}
        className={panel === 'graph' ? 'bg-hover text-ink' : ''}
      />
      <IconButton
        icon="events"
        label="Events"
        aria-pressed={panel === 'events'}
        onClick={() => show('events')}
        className={panel === 'events' ? 'bg-hover text-ink' : ''}
      />
    </header>
  )
}

function agentChoices(agents: ReturnType<typeof agentsOf>, entry: string | undefined) {
  return [
    { value: '', label: entry === undefined ? 'Entry point' : `${entry} (entry point)` },
    ...agents.filter(({ id }) => id !== entry).map(({ id, data }) => ({ value: id, label: data.label })),
  ]
}
