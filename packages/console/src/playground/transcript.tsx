import { type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { Button } from '../ui/button.tsx'
import { LongList } from '../ui/long-list.tsx'
import type { ChatSession } from '../chats/chat-session.ts'
import type { SessionView } from '../chats/chat.ts'
import { rowsOfTurn, textOfRow, type TurnRow, TurnRowView } from './turn-view.tsx'

const keyOf = ({ key }: TurnRow): string => key

/** Whoever is this close to the end, in pixels, wants to see what comes. */
const NEAR_END = 80

type Props = {
  readonly session: ChatSession
  readonly view: SessionView
  /** What is shown before the first message. */
  readonly opening: ReactNode
  /** What is shown behind the last one. */
  readonly closing: ReactNode
  /** Of the message that waits. */
  readonly takeBack: () => void
}

/** Keeps a list at its end while somebody is there; whoever sends a message wants to see its answer. */
function useEnd(chat: string, turns: number) {
  const scroller = useRef<HTMLDivElement>(null)
  const content = useRef<HTMLDivElement>(null)
  const pinned = useRef(true)
  const [atEnd, setAtEnd] = useState(true)
  const toEnd = useCallback(() => {
    const { current } = scroller
    if (current) current.scrollTop = current.scrollHeight
  }, [])
  useEffect(() => {
    const watch = new ResizeObserver(() => pinned.current && toEnd())
    if (content.current) watch.observe(content.current)
    return () => watch.disconnect()
  }, [toEnd])
  useEffect(() => {
    pinned.current = true
    toEnd()
  }, [chat, turns, toEnd])
  const onScroll = (): void => {
    const { scrollTop, scrollHeight, clientHeight } = scroller.current!
    pinned.current = scrollHeight - scrollTop - clientHeight < NEAR_END
    setAtEnd(pinned.current)
  }
  return { scroller, content, atEnd, toEnd, onScroll }
}

/** One chat, oldest turn first. */
export function Transcript({ session, view, opening, closing, takeBack }: Props) {
  const { turns } = view.chat
  const rows = useMemo(() => turns.flatMap(rowsOfTurn), [turns])
  const { scroller, content, atEnd, toEnd, onScroll } = useEnd(view.chat.id, turns.length)
  return (
    <div className="relative min-h-0 flex-1">
      <div
        ref={scroller}
        data-scroller
        onScroll={onScroll}
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label="Conversation"
        className="h-full overflow-y-auto"
      >
        <div ref={content} className="mx-auto flex max-w-3xl flex-col gap-3 px-4 py-3">
          {turns.length === 0 && opening}
          <LongList rows={rows} keyOf={keyOf} textOf={textOfRow}>
            {(row) => <TurnRowView row={row} session={session} busy={view.busy} />}
          </LongList>
          <Queued {...{ session, view, takeBack }} />
          {turns.length > 0 && closing}
        </div>
      </div>
      {!atEnd && (
        <Button
          icon="send"
          className="absolute bottom-3 left-1/2 -translate-x-1/2 rounded-full shadow-lg [&_svg]:rotate-180"
          onClick={toEnd}
        >
          To the end
        </Button>
      )}
    </div>
  )
}

function Queued({ session, view, takeBack }: Pick<Props, 'session' | 'view' | 'takeBack'>) {
  if (!view.queued) return null
  const isHeld = !view.busy && view.chat.turns.at(-1)?.status !== 'waiting'
  return (
    <div role="group" aria-label="Next message" data-item className="ml-auto flex max-w-[85%] items-center gap-2">
      <Button look="quiet" onClick={takeBack}>
        Take back
      </Button>
      {isHeld && <Button onClick={() => session.send(session.unqueue())}>Send now</Button>}
      <p
        dir="auto"
        className="rounded-2xl rounded-br-md border border-dashed border-strong-line px-3.5 py-2 whitespace-pre-wrap text-soft"
      >
        {view.queued.text || 'Files'}
        <span className="block text-xs">
          {isHeld ? 'was not sent, because the run did not complete' : 'is sent when the run has ended'}
        </span>
      </p>
    </div>
  )
}
