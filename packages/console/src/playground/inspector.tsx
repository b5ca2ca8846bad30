import type { StreamEvent } from '@bureau/client'
import { useVirtualizer } from '@tanstack/react-virtual'
import { Suspense, useRef, useState } from 'react'
import { IconButton } from '../ui/button.tsx'
import { Loading } from '../ui/page.tsx'
import { JsonBlock } from '../ui/json-view.tsx'
import type { LoggedEvent } from '../chats/chat.ts'
import type { ChatSession } from '../chats/chat-session.ts'
import { useSession } from '../chats/sessions.ts'
import type { ToolCall } from '../parts/tool-card.tsx'
import { lazyPart } from '../server/request.ts'
import { type Panel, type Side, usePlace } from './place.ts'

const ToolPanel = lazyPart(() => import('./tool-panel.tsx'), 'ToolPanel')
const AgencyGraph = lazyPart(() => import('../graph/agency-graph.tsx'), 'AgencyGraph')

type Props = {
  readonly panel: Panel
  readonly side: Side
  readonly session: ChatSession
  /** The call that is to be made again. */
  readonly again: ToolCall | undefined
}

const TITLES: Readonly<Record<Panel, string>> = { events: 'Events', graph: 'Graph', tools: 'Tools' }

/** What lies behind a chat: the events of its runs, or where in the agency they are. */
export function Inspector({ panel, side, session, again }: Props) {
  const { options } = useSession(session).chat
  const { toggle } = usePlace()
  const title = TITLES[panel]
  return (
    <aside
      aria-label={title}
      className="fixed inset-0 z-30 flex flex-col bg-page md:static md:z-auto md:w-[42%] md:max-w-2xl md:shrink-0 md:border-l md:border-line"
    >
      <div className="flex min-h-12 items-center justify-between border-b border-line px-3">
        <h2 className="text-[13px] font-semibold">{title}</h2>
        <IconButton icon="close" label="Close" onClick={() => toggle(panel)} />
      </div>
      <div className="min-h-0 flex-1">
        <Suspense fallback={<Loading />}>
          {panel === 'events' && <Events session={session} />}
          {panel === 'graph' && <AgencyGraph agency={side.agency} session={session} />}
          {panel === 'tools' && (
            <ToolPanel key={JSON.stringify(again)} agency={side.agency} context={options.context} again={again} />
          )}
        </Suspense>
      </div>
    </aside>
  )
}

function Events({ session }: { readonly session: ChatSession }) {
  const { eventCount } = useSession(session)
  const [wanted, setWanted] = useState('')
  const [open, setOpen] = useState<LoggedEvent>()
  const shown = session.events.slice(0, eventCount).filter(({ event }) => nameOf(event).includes(wanted))
  return (
    <div className="flex h-full flex-col">
      <div className="p-2">
        <input
          aria-label="Filter by type"
          className="input"
          placeholder="Filter by type"
          value={wanted}
          onChange={(event) => setWanted(event.target.value)}
        />
      </div>
      <EventList events={shown} open={open} setOpen={setOpen} />
      {open && (
        <div className="max-h-1/2 overflow-auto border-t border-line p-3">
          <JsonBlock label={nameOf(open.event)} value={open.event} />
        </div>
      )}
    </div>
  )
}

type ListProps = {
  readonly events: readonly LoggedEvent[]
  readonly open: LoggedEvent | undefined
  readonly setOpen: (event: LoggedEvent) => void
}

const ROW_HEIGHT = 28

function EventList({ events, open, setOpen }: ListProps) {
  const scroller = useRef<HTMLDivElement>(null)
  const virtual = useVirtualizer({
    count: events.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 20,
  })
  if (events.length === 0)
    return (
      <p className="p-4 text-[13px] text-soft">
        Events come here while a run goes on. Those of earlier page loads are not kept.
      </p>
    )
  const first = events[0]!.at
  return (
    <div
      ref={scroller}
      tabIndex={0}
      role="group"
      aria-label="Event list"
      className="min-h-0 flex-1 overflow-auto px-2 pb-2"
    >
      <div className="relative" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map(({ index, start }) => {
          const logged = events[index]!
          return (
            <button
              key={index}
              type="button"
              aria-pressed={logged === open}
              onClick={() => setOpen(logged)}
              className={`absolute inset-x-0 flex h-7 items-center gap-2 rounded px-2 text-left font-mono text-xs hover:bg-hover ${logged === open ? 'bg-hover' : ''}`}
              style={{ top: start }}
            >
              <span className="w-14 shrink-0 text-right text-soft tabular-nums">
                {((logged.at - first) / 1_000).toFixed(2)} s
              </span>
              <span className="min-w-0 flex-1 truncate">{nameOf(logged.event)}</span>
              <span className="max-w-28 truncate text-soft">{'agent' in logged.event ? logged.event.agent : ''}</span>
            </button>
          )
        })}
      </div>
    </div>
  )
}

/** What is most telling of an event. */
function nameOf(event: StreamEvent): string {
  if (event.type === 'raw_response_event') return event.data.type
  if (event.type === 'run_item_stream_event') return event.name
  if (event.type === 'custom') return event.name
  return event.type
}
