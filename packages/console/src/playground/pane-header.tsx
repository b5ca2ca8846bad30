import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { ChatSession } from '../chats/chat-session.ts'
import type { SessionView } from '../chats/chat.ts'
import { factsQuery } from '../server/queries.ts'
import { ask } from '../server/request.ts'
import { IconButton } from '../ui/button.tsx'
import { Select } from '../ui/field.tsx'
import { pretty } from '../ui/format.ts'
import { Menu } from '../ui/menu.tsx'
import { Heading } from '../ui/page.tsx'
import { saveFile } from '../ui/save-file.ts'
import { failedToast } from '../ui/toasts.tsx'
import { type PartnerAgent, usePartners } from './partner.ts'
import { type Panel, renewed, type Side, usePlace } from './place.ts'

type Props = {
  readonly session: ChatSession
  readonly view: SessionView
  readonly side: Side
  readonly change: (side: Side) => void
  readonly agents: readonly PartnerAgent[]
  readonly entry: string | undefined
  readonly showOptions: () => void
  /** No other chat is beside it. */
  readonly isSingle: boolean
}

/** Whom a chat is with, and what else can be seen of it. */
export function PaneHeader({ session, view, side, change, agents, entry, showOptions, isSingle }: Props) {
  return (
    <header className="flex min-h-12 flex-wrap items-center gap-2 border-b border-line px-3 py-1.5 max-md:[&>select]:flex-auto max-md:[&>select:last-of-type]:max-w-[calc(100%-2.5rem)]">
      <Heading title="Playground" className="sr-only" />
      <PartnerSelect side={side} change={change} />
      <Select
        label="Agent"
        value={view.chat.agent ?? ''}
        disabled={view.busy}
        choices={agentChoices(agents, entry)}
        onPick={(agent) => session.configure({ agent: agent === '' ? null : agent })}
      />
      {side.on === 'platform' && <ConsumerField side={side} change={change} />}
      {view.connection === 'reconnecting' && (
        <span role="status" className="rounded-md bg-warn-soft px-2 py-0.5 text-xs whitespace-nowrap text-warn">
          Reconnecting …
        </span>
      )}
      <span className="ml-auto flex gap-2">
        {isSingle ? <Panels side={side} view={view} /> : <BesideButtons side={side} showOptions={showOptions} />}
      </span>
    </header>
  )
}

const keyOf = ({ agency, on }: Side): string => `${on ?? ''} ${agency}`

function PartnerSelect({ side, change }: Pick<Props, 'side' | 'change'>) {
  const known = usePartners()
  const partners = known.some((each) => keyOf(each.side) === keyOf(side))
    ? known
    : [{ side, label: side.agency }, ...known]
  return (
    <Select
      label="Agency"
      value={keyOf(side)}
      choices={partners.map((each) => ({ value: keyOf(each.side), label: each.label }))}
      onPick={(key) => {
        const picked = partners.find((each) => keyOf(each.side) === key)
        if (picked) change(renewed(picked.side))
      }}
    />
  )
}

type Members = { readonly data: readonly { readonly consumerId: string }[] }

/** In whose name one speaks. Another consumer is another chat. */
function ConsumerField({ side, change }: Pick<Props, 'side' | 'change'>) {
  const [text, setText] = useState(side.consumer ?? '')
  const { data: members } = useQuery({
    queryKey: ['platform', 'consumers', side.agency],
    queryFn: () => ask<Members>('platform', `v1/integrations/${encodeURIComponent(side.agency)}/members?limit=100`),
    retry: false,
  })
  const list = `consumers-of-${side.agency}`
  const apply = (): void => {
    const { consumer: before = '', ...rest } = side
    const consumer = text.trim()
    if (consumer !== before) change(renewed({ ...rest, ...(consumer !== '' && { consumer }) }))
  }
  return (
    <form
      className="min-w-0 max-md:order-last max-md:w-full"
      onSubmit={(event) => {
        event.preventDefault()
        apply()
      }}
    >
      <input
        aria-label="Consumer"
        className="input max-w-full md:w-36!"
        placeholder="Consumer"
        list={list}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onBlur={apply}
      />
      <datalist id={list}>
        {members?.data.map(({ consumerId }) => (
          <option key={consumerId} value={consumerId} />
        ))}
      </datalist>
    </form>
  )
}

function Panels({ side, view: { chat } }: Pick<Props, 'side' | 'view'>) {
  const { data: facts } = useQuery(factsQuery)
  const { panel, toggle, toBeside } = usePlace()
  const isOwn = side.on === undefined
  const saveTest = async (): Promise<void> => {
    if (!chat.turns.some(({ status }) => status === 'completed')) return failedToast('Nothing was answered yet.')
    const { testOf } = await import('./save-as-test.ts')
    const { name, text } = testOf(chat, facts?.agencies === 'token')
    saveFile(name, text)
  }
  const button = (name: Panel, label: string) => (
    <IconButton
      icon={name === 'tools' ? 'tool' : name}
      label={label}
      aria-pressed={panel === name}
      onClick={() => toggle(name)}
      className={`max-md:hidden ${panel === name ? 'bg-hover text-ink' : ''}`}
    />
  )
  const item = (name: Panel, label: string) =>
    ({ label, icon: name === 'tools' ? 'tool' : name, act: () => toggle(name), narrowOnly: true }) as const
  return (
    <>
      {isOwn && button('tools', 'Tools')}
      {isOwn && button('graph', 'Graph')}
      {button('events', 'Events')}
      <Menu
        label="More about this chat"
        items={[
          ...(isOwn ? [item('tools', 'Tools'), item('graph', 'Graph')] : []),
          item('events', 'Events'),
          { label: 'Compare with another', icon: 'chat', act: () => toBeside(renewed(side)) },
          { label: 'Save as a test', icon: 'check', act: () => void saveTest().catch(failedToast) },
          { label: 'Export', icon: 'download', act: () => saveFile(`chat-${chat.id}.json`, pretty(chat)) },
        ]}
      />
    </>
  )
}

/** Of one of two chats that are compared. */
function BesideButtons({ side, showOptions }: Pick<Props, 'side' | 'showOptions'>) {
  const { main, beside, keep } = usePlace()
  const close = (): void => keep(side.chat === main.chat && beside ? beside : main)
  return (
    <>
      <IconButton icon="settings" label="Options of this chat" onClick={showOptions} />
      <IconButton icon="close" label="Close this chat" onClick={close} />
    </>
  )
}

function agentChoices(agents: readonly PartnerAgent[], entry: string | undefined) {
  return [
    { value: '', label: entry === undefined ? 'Entry point' : `${entry} (entry point)` },
    ...agents.filter(({ id }) => id !== entry).map(({ id, label }) => ({ value: id, label })),
  ]
}
