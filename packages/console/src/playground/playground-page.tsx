import { useQuery } from '@tanstack/react-query'
import { Suspense, useEffect, useState } from 'react'
import type { ChatSession } from '../chats/chat-session.ts'
import type { Draft } from '../chats/chat.ts'
import { useSession, useSessions } from '../chats/sessions.ts'
import { CallAgainContext, type ToolCall } from '../parts/tool-card.tsx'
import { routesQuery } from '../server/queries.ts'
import { lazyPart } from '../server/request.ts'
import { Empty, Loading } from '../ui/page.tsx'
import { ChatList } from './chat-list.tsx'
import { Composer } from './composer.tsx'
import { Pane } from './pane.tsx'
import { partnerOf, renewed, type Side, usePlace } from './place.ts'

const Inspector = lazyPart(() => import('./inspector.tsx'), 'Inspector')

/** An agency or an integration to talk to, or two beside each other. Which, and in which chats, is in the address. */
export function PlaygroundPage() {
  const { main, beside, toMain, toBeside } = usePlace()
  const first = useOpenSession(main, toMain)
  const second = useOpenSession(beside, toBeside)
  const onlyAgui = useOnlyAgui(main) ?? useOnlyAgui(beside)
  if (onlyAgui) return onlyAgui
  if (!first || (beside && !second)) return <Loading />
  if (beside && second) return <Comparison key={first.view.chat.id + second.view.chat.id} sessions={[first, second]} />
  return <Single key={first.view.chat.id} session={first} />
}

/** The chat of a side; a side without one gets a new one. */
function useOpenSession(side: Side | undefined, change: (side: Side) => void): ChatSession | undefined {
  const sessions = useSessions()
  const [session, setSession] = useState<ChatSession>()
  const key = JSON.stringify(side)
  useEffect(() => {
    let wanted = true
    setSession(undefined)
    if (side?.chat !== undefined) {
      void sessions.open(partnerOf(side), side.chat).then((opened) => wanted && setSession(opened))
    } else if (side) change(renewed(side))
    return () => {
      wanted = false
    }
  }, [sessions, key])
  return session
}

function useOnlyAgui(side: Side | undefined) {
  const isOwn = side !== undefined && side.on === undefined
  const { data: routes } = useQuery({ ...routesQuery, enabled: isOwn })
  if (!isOwn || !routes?.onlyAgui.has(side.agency)) return undefined
  return (
    <Empty icon="chat" title="This agency speaks AG-UI at get_response_stream">
      The server was started with enableAgui, and the playground speaks the agency protocol. Start it without.
    </Empty>
  )
}

function Single({ session }: { readonly session: ChatSession }) {
  const { main, panel, toMain, toggle } = usePlace()
  const [again, setAgain] = useState<ToolCall>()
  const callAgain = (call: ToolCall): void => {
    setAgain(call)
    if (panel !== 'tools') toggle('tools')
  }
  return (
    <div className="flex h-full min-h-0">
      <ChatList side={main} change={toMain} />
      <CallAgainContext value={main.on === undefined ? callAgain : undefined}>
        <Pane session={session} side={main} change={toMain} writable />
      </CallAgainContext>
      {panel && (
        <Suspense fallback={null}>
          <Inspector panel={panel} side={main} session={session} again={again} />
        </Suspense>
      )}
    </div>
  )
}

/** Two chats, to which the same is sent. */
function Comparison({ sessions: [first, second] }: { readonly sessions: readonly [ChatSession, ChatSession] }) {
  const { main, beside, toMain, toBeside } = usePlace()
  const views = [useSession(first), useSession(second)]
  const busy = views.some((view) => view.busy)
  const send = (draft: Draft): void => [first, second].forEach((session) => session.send(draft))
  const stop = async (mode: 'immediate' | 'after_turn'): Promise<void> => {
    await Promise.all([first, second].map((session) => session.cancel(mode)))
  }
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="flex min-h-0 flex-1 flex-col divide-y divide-line md:flex-row md:divide-x md:divide-y-0">
        <Pane session={first} side={main} change={toMain} />
        {beside && <Pane session={second} side={beside} change={toBeside} writer={first} />}
      </div>
      <div className="border-t border-line px-3 pt-2 pb-3">
        <Composer
          session={first}
          busy={busy}
          send={send}
          stop={stop}
          picturesOnly={views.some(({ chat }) => chat.platform !== undefined)}
          label="Message to both"
        />
      </div>
    </div>
  )
}
