import { useQueries } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type KeyboardEvent, useState } from 'react'
import { placeOf } from '../chats/chat.ts'
import { useChats } from '../chats/use-chats.ts'
import { agentsOf, metadataQuery, useServerRoutes } from '../server/queries.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Icon, type IconName } from '../ui/icons.tsx'
import { useSections } from './navigation.ts'

type Entry = {
  readonly key: string
  readonly label: string
  readonly kind: string
  readonly icon: IconName
  readonly go: () => void
}

const MAX_SHOWN = 12

/** Finds pages, agencies, agents, tools and chats by a few letters. */
export function Palette({ onClose }: { readonly onClose: () => void }) {
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const entries = useEntries()
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  const found = entries
    .filter(({ label, kind }) => words.every((word) => `${kind} ${label}`.toLowerCase().includes(word)))
    .slice(0, MAX_SHOWN)
  const pick = (entry: Entry | undefined): void => {
    if (!entry) return
    onClose()
    entry.go()
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.nativeEvent.isComposing) return
    if (event.key === 'Enter') pick(found[at])
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return
    event.preventDefault()
    setAt(Math.max(0, Math.min(found.length - 1, at + (event.key === 'ArrowDown' ? 1 : -1))))
  }
  return (
    <Dialog open onClose={onClose} title="Search">
      <input
        autoFocus
        role="combobox"
        aria-expanded="true"
        aria-controls="found"
        aria-activedescendant={found[at] ? `found-${at}` : undefined}
        aria-label="Search pages, agents, tools and chats"
        className="input mb-2"
        placeholder="Pages, agents, tools, chats"
        value={text}
        onChange={(event) => {
          setText(event.target.value)
          setAt(0)
        }}
        onKeyDown={onKeyDown}
      />
      <ul id="found" role="listbox" aria-label="Found" className="flex flex-col">
        {found.map((entry, index) => (
          <li
            key={entry.key}
            id={`found-${index}`}
            role="option"
            aria-selected={index === at}
            onClick={() => pick(entry)}
            onPointerMove={() => setAt(index)}
            className={`flex min-h-9 cursor-pointer items-center gap-2 rounded-lg px-2 text-[13px] ${index === at ? 'bg-hover' : ''}`}
          >
            <Icon name={entry.icon} className="text-soft" />
            <span className="min-w-0 flex-1 truncate">{entry.label}</span>
            <span className="text-xs text-soft">{entry.kind}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p className="p-2 text-[13px] text-soft">Nothing is called that.</p>}
    </Dialog>
  )
}

function useEntries(): readonly Entry[] {
  const navigate = useNavigate()
  const sections = useSections()
  const { data: routes } = useServerRoutes()
  const agencies = routes?.agencies ?? []
  const metadata = useQueries({ queries: agencies.map((agency) => metadataQuery(agency)) })
  const chats = useChats()
  const play = (agency: string) => (): void => void navigate({ to: '/play/$agency', params: { agency } })
  const graph = (agency: string) => (): void => void navigate({ to: '/graph/$agency', params: { agency } })
  return [
    ...sections.flatMap(({ label, items }) =>
      items.map(({ to, label: name, icon }) => ({
        key: to,
        label: name,
        kind: label ?? 'Page',
        icon,
        go: () => void navigate({ to }),
      })),
    ),
    ...agencies.map((agency) => ({
      key: `agency ${agency}`,
      label: agency,
      kind: 'Agency',
      icon: 'chat' as const,
      go: play(agency),
    })),
    ...agencies.flatMap((agency, index) =>
      agentsOf(metadata[index]?.data).flatMap(({ id, data }) => [
        {
          key: `agent ${agency} ${id}`,
          label: `${data.label} (${agency})`,
          kind: 'Agent',
          icon: 'agent' as const,
          go: graph(agency),
        },
        ...data.tools.map(({ name }) => ({
          key: `tool ${agency} ${id} ${name}`,
          label: `${name} of ${data.label}`,
          kind: 'Tool',
          icon: 'tool' as const,
          go: graph(agency),
        })),
      ]),
    ),
    ...chats.map((chat) => ({
      key: `chat ${chat.id}`,
      label: chat.title,
      kind: `Chat with ${chat.agency}`,
      icon: 'inbox' as const,
      go: () => void navigate({ to: '/play/$agency', ...placeOf(chat) }),
    })),
  ]
}
