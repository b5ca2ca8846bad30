import { useState } from 'react'
import { Button, IconButton } from '../ui/button.tsx'
import { moment } from '../ui/format.ts'
import { Dialog } from '../ui/dialog.tsx'
import { placeOf } from '../chats/chat.ts'
import type { ChatHead } from '../chats/chat-store.ts'
import { useSessions } from '../chats/sessions.ts'
import { useChats } from '../chats/use-chats.ts'
import { renewed, type Side } from './place.ts'

type Props = { readonly side: Side; readonly change: (side: Side) => void }

/** The chats of an agency in this browser, newest first; a dialog where there is little room. */
export function ChatList(props: Props) {
  const [shown, setShown] = useState(false)
  return (
    <>
      <nav
        aria-label="Chats"
        className="hidden w-56 shrink-0 flex-col overflow-y-auto border-r border-line p-2 lg:flex"
      >
        <Chats {...props} onPicked={() => {}} />
      </nav>
      <div className="border-line md:border-r md:p-2 lg:hidden">
        <IconButton
          icon="chat"
          label="Chats"
          className="max-md:fixed max-md:top-2 max-md:right-2 max-md:z-20"
          onClick={() => setShown(true)}
        />
      </div>
      <Dialog open={shown} onClose={() => setShown(false)} title="Chats">
        <Chats {...props} onPicked={() => setShown(false)} />
      </Dialog>
    </>
  )
}

/** Of thousands of chats, the latest are looked for here, and older ones in the search. */
const SHOWN_AT_ONCE = 100

function Chats({ side, change, onPicked }: Props & { readonly onPicked: () => void }) {
  const sessions = useSessions()
  const [shown, setShown] = useState(SHOWN_AT_ONCE)
  const chats = useChats(side.agency)
  const go = (to: Side): void => {
    onPicked()
    change(to)
  }
  const remove = async ({ id, platform, title }: ChatHead): Promise<void> => {
    if (!platform && !confirm(`Delete "${title}"? It is in this browser alone.`)) return
    await sessions.remove(id)
    if (id === side.chat) go(renewed(side))
  }
  return (
    <div className="flex flex-col gap-1">
      <Button icon="plus" className="mb-1" onClick={() => go(renewed(side))}>
        New chat
      </Button>
      {chats.slice(0, shown).map((chat) => (
        <Row
          key={chat.id}
          chat={chat}
          isOpen={chat.id === side.chat}
          open={() => go({ agency: chat.agency, ...placeOf(chat).search })}
          remove={() => void remove(chat)}
        />
      ))}
      {chats.length > shown && (
        <Button look="quiet" onClick={() => setShown(shown + SHOWN_AT_ONCE)}>
          Older chats
        </Button>
      )}
      {chats.length === 0 && (
        <p className="px-2 text-xs text-soft">
          {side.on === 'platform'
            ? 'What begins here is listed here. The platform keeps the chats.'
            : 'Chats stay in this browser.'}
        </p>
      )}
    </div>
  )
}

type RowProps = {
  readonly chat: ChatHead
  readonly isOpen: boolean
  readonly open: () => void
  readonly remove: () => void
}

function Row({ chat: { platform, title, updatedAt, waits }, isOpen, open, remove }: RowProps) {
  return (
    <div className={`group/chat flex items-center rounded-lg ${isOpen ? 'bg-hover' : 'hover:bg-hover'}`}>
      <button
        type="button"
        aria-current={isOpen}
        className="min-w-0 flex-1 rounded-lg px-2 py-1.5 text-left"
        onClick={open}
      >
        <span className="block truncate text-[13px]">{title}</span>
        <span className={`block text-xs ${waits ? 'text-warn' : 'text-soft'}`}>
          {waits ? 'waits for you' : moment(updatedAt)}
        </span>
      </button>
      <IconButton
        icon="trash"
        label={platform ? `Take ${title} off this list` : `Delete ${title}`}
        className="opacity-0 group-hover/chat:opacity-100 focus-visible:opacity-100 [@media(hover:none)]:opacity-100"
        onClick={remove}
      />
    </div>
  )
}
