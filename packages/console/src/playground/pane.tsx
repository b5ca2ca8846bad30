import { useQuery } from '@tanstack/react-query'
import { Suspense, useEffect, useState } from 'react'
import type { ChatSession } from '../chats/chat-session.ts'
import { type SessionView, together } from '../chats/chat.ts'
import { useSession } from '../chats/sessions.ts'
import { DecideContext } from '../parts/approval-card.tsx'
import type { Decide } from '../server/approvals.ts'
import { platformRunQuery } from '../server/platform-run.ts'
import { useServerRoutes } from '../server/queries.ts'
import { lazyPart } from '../server/request.ts'
import { Failure, Loading } from '../ui/page.tsx'
import { Composer } from './composer.tsx'
import { OptionsDialog } from './options-dialog.tsx'
import { PaneHeader } from './pane-header.tsx'
import { type PartnerAgent, usePartner } from './partner.ts'
import type { Side } from './place.ts'
import { Transcript } from './transcript.tsx'
import { Suggestions } from './turn-view.tsx'

const VoiceBar = lazyPart(() => import('./voice-bar.tsx'), 'VoiceBar')

type Props = {
  readonly session: ChatSession
  readonly side: Side
  readonly change: (side: Side) => void
  /** It has a composer of its own. */
  readonly writable?: boolean
  /** The chat that keeps what is written, when it is another. */
  readonly writer?: ChatSession
}

/** One chat: whom it is with, what was said, and where the next message is written. */
export function Pane({ session, side, change, writable = false, writer = session }: Props) {
  const view = useSession(session)
  const { agents, entry, error, retry } = usePartner(side)
  const [options, setOptions] = useState(false)
  useDecidedElsewhere(session, view)
  const addressed = agents.find(({ id }) => id === (view.chat.agent ?? entry))
  const replies = view.chat.turns.at(-1)?.status === 'completed' ? (addressed?.quickReplies ?? []) : []
  const decide: Decide = (callId, decision) => session.decide(callId, decision)
  const say = (text: string): void => session.send({ text, files: [] })
  const showOptions = (): void => setOptions(true)
  const takeBack = (): void => {
    const queued = session.unqueue()
    writer.write((draft) => together(queued, draft))
  }
  return (
    <section aria-label={`Chat with ${side.agency}`} className="flex min-h-0 min-w-0 flex-1 flex-col">
      <PaneHeader {...{ session, view, side, change, agents, entry, showOptions }} isSingle={writable} />
      {error != null && (
        <div className="p-4">
          <Failure error={error} retry={retry} />
        </div>
      )}
      <DecideContext value={view.busy ? undefined : decide}>
        <Transcript
          session={session}
          view={view}
          opening={addressed && <Opening agent={addressed} say={say} />}
          takeBack={takeBack}
          closing={<Suggestions texts={replies} pick={say} />}
        />
      </DecideContext>
      {writable && <Writing {...{ session, view, side, showOptions }} entry={entry ?? null} />}
      {options && <OptionsDialog session={session} model={addressed?.model ?? ''} onClose={() => setOptions(false)} />}
    </section>
  )
}

/** A run of the platform that waits is decided on elsewhere too, for example in the inbox: then its chat goes on. */
function useDecidedElsewhere(session: ChatSession, { chat }: SessionView): void {
  const turn = chat.turns.at(-1)
  const waiting = chat.platform && turn?.status === 'waiting' ? turn : undefined
  const { data, dataUpdatedAt } = useQuery({ ...platformRunQuery(waiting?.run ?? ''), enabled: waiting !== undefined })
  // What was read before it waited says nothing.
  const isRead = waiting !== undefined && data !== undefined && dataUpdatedAt > waiting.endedAt!
  const goesOn = isRead && data.status !== 'waiting'
  useEffect(() => {
    if (goesOn) void session.comeBack()
  }, [session, goesOn])
}

type WritingProps = Pick<Props, 'session' | 'side'> & {
  readonly view: SessionView
  /** The agent that speaks aloud. */
  readonly entry: string | null
  readonly showOptions: () => void
}

/** Where the next message is written, or, of agencies with realtime, spoken. */
function Writing({ session, view, side, entry, showOptions }: WritingProps) {
  const [talking, setTalking] = useState(false)
  const { data: routes } = useServerRoutes()
  const canTalk = side.on === undefined && routes?.paths.includes(`/${side.agency}/realtime_ticket`) === true
  return (
    <div className="px-3 pt-1 pb-3">
      {talking ? (
        <Suspense fallback={<Loading />}>
          <VoiceBar session={session} agent={entry} onClose={() => setTalking(false)} />
        </Suspense>
      ) : (
        <Composer
          session={session}
          busy={view.busy}
          send={(draft) => session.send(draft)}
          stop={(mode) => session.cancel(mode)}
          showOptions={showOptions}
          talk={canTalk ? () => setTalking(true) : undefined}
          picturesOnly={view.chat.platform !== undefined}
        />
      )}
    </div>
  )
}

/** What is there before the first message. */
function Opening({ agent, say }: { readonly agent: PartnerAgent; readonly say: (text: string) => void }) {
  return (
    <div className="flex flex-col gap-3 pt-8">
      <h2 className="text-xl font-semibold">{agent.label}</h2>
      {agent.description && <p className="text-soft">{agent.description}</p>}
      <Suggestions texts={agent.conversationStarters ?? []} pick={say} />
    </div>
  )
}
