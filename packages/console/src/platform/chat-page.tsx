import { type Part, partsOf } from '@bureau/client'
import type { ChatMessage, PlatformChat } from '@bureau/protocol'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useMemo } from 'react'
import { type PartOfConversation, PartRow, partRows, textOfPart } from '../parts/part-view.tsx'
import { UserMessage } from '../parts/user-message.tsx'
import { ask } from '../server/request.ts'
import { Status } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { moment, pretty, textOf, whole } from '../ui/format.ts'
import { Icon } from '../ui/icons.tsx'
import { LongList } from '../ui/long-list.tsx'
import { Page, UnreadPage } from '../ui/page.tsx'
import { saveFile } from '../ui/save-file.ts'
import { useRemove } from './change.ts'
import { IntegrationName } from '../parts/integrations.tsx'

const route = getRouteApi('/platform/chats/$chat')

const FOLLOW_MS = 2_000
const PAGE_SIZE = 100
/** Longer chats show their beginning, and say so. */
const MAX_PAGES = 100

/** A chat as its user saw it, failed responses included. */
export function ChatPage() {
  const { chat: id } = route.useParams()
  const chat = useQuery({
    queryKey: ['platform', 'chat', id],
    queryFn: () => ask<PlatformChat>('platform', `v1/chats/${encodeURIComponent(id)}`),
    refetchInterval: ({ state }) => (state.data?.chatState === 'busy' ? FOLLOW_MS : false),
  })
  const messages = useQuery({
    queryKey: ['platform', 'chat', id, 'messages', chat.data?.messageCount, chat.data?.chatState],
    queryFn: () => allMessages(id),
    enabled: chat.data !== undefined,
    placeholderData: (before) => before,
  })
  if (!chat.data) return <UnreadPage title="Chat" of={chat} />
  if (!messages.data) return <UnreadPage title="Chat" of={messages} />
  return (
    <Page
      title={chat.data.title ?? chat.data.aliasChatId ?? 'Chat'}
      about={<About chat={chat.data} />}
      actions={<Actions chat={chat.data} messages={messages.data} />}
      of={chat.error ? chat : messages}
    >
      <div className="mx-auto flex max-w-3xl flex-col gap-3">
        {chat.data.lastRunStatus === 'waiting' && <Waits run={chat.data.lastRunId ?? ''} />}
        <Conversation messages={messages.data} />
        {messages.data.length === 0 && <p className="text-center text-soft">Nothing was said yet.</p>}
        {messages.data.length >= MAX_PAGES * PAGE_SIZE && (
          <p className="text-center text-[13px] text-soft">
            Only the first {whole(messages.data.length)} messages are shown.
          </p>
        )}
      </div>
    </Page>
  )
}

function Waits({ run }: { readonly run: string }) {
  return (
    <Link
      to="/platform/runs/$run"
      params={{ run }}
      className="flex items-center gap-2 rounded-xl border border-warn/50 bg-warn-soft px-3.5 py-2.5 text-[13px]"
    >
      <Icon name="clock" className="text-warn" />
      This chat waits until somebody has decided on a call.
      <span className="link">Decide</span>
    </Link>
  )
}

async function allMessages(chat: string): Promise<readonly ChatMessage[]> {
  const all: ChatMessage[] = []
  for (let cursor: string | null = '', pages = 0; cursor !== null && pages < MAX_PAGES; pages += 1) {
    const page: { data: ChatMessage[]; nextCursor: string | null } = await ask(
      'platform',
      `v1/chats/${encodeURIComponent(chat)}/messages?limit=${PAGE_SIZE}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`,
    )
    all.push(...page.data)
    cursor = page.nextCursor
  }
  return all
}

function About({ chat }: { readonly chat: PlatformChat }) {
  return (
    <>
      <Link to="/platform/chats" className="link">
        Chats
      </Link>{' '}
      / <IntegrationName id={chat.apiIntegrationId} />
      {chat.createdByConsumerId !== null && ` / ${chat.createdByConsumerId}`} /{' '}
      <code className="text-xs">{chat.chatId}</code>
    </>
  )
}

function Actions({ chat, messages }: { readonly chat: PlatformChat; readonly messages: readonly ChatMessage[] }) {
  const navigate = useNavigate()
  const remove = useRemove(
    `v1/chats/${encodeURIComponent(chat.chatId)}`,
    'The chat is deleted; its content is erased within a day',
  )
  const confirmRemoval = (): void => {
    if (!confirm('Delete this chat for its user and for you?')) return
    remove.mutate(undefined, { onSuccess: () => void navigate({ to: '/platform/chats' }) })
  }
  return (
    <>
      <Button icon="download" onClick={() => saveFile(`chat-${chat.chatId}.json`, pretty(messages))}>
        Export
      </Button>
      <Button icon="trash" look="danger" disabled={remove.isPending} onClick={confirmRemoval}>
        Delete
      </Button>
    </>
  )
}

/** A run is shown as rows: what was asked, what came of it part by part, and how it ended. */
type ChatRow = { readonly key: string; readonly messages: readonly ChatMessage[] } & (
  | { readonly shows: 'end' }
  | { readonly shows: 'message'; readonly message: ChatMessage }
  | ({ readonly shows: 'part'; readonly parts: readonly Part[] } & PartOfConversation)
)

function rowsOf(messages: readonly ChatMessage[]): ChatRow[] {
  return [...Map.groupBy(messages, ({ runId }) => runId)].flatMap(([run, own]): ChatRow[] => {
    const asked = own.filter(({ role, item }) => role === 'user' && item.callerAgent == null)
    const parts = partsOf(own.map(({ item }) => item).toSorted(byTime))
    return [
      ...asked.map((message) => ({ key: message.id, messages: own, shows: 'message' as const, message })),
      ...partRows(parts, null).map((row) => ({
        key: `${run} ${row.part.id}`,
        messages: own,
        shows: 'part' as const,
        parts,
        ...row,
      })),
      { key: `${run} end`, messages: own, shows: 'end' },
    ]
  })
}

/** A message to another agent is kept when it is answered: after the conversation that came of it. */
const byTime = (a: ChatMessage['item'], b: ChatMessage['item']): number => (a['timestamp'] ?? 0) - (b['timestamp'] ?? 0)

function textOfRow(row: ChatRow): string {
  if (row.shows === 'part') return textOfPart(row.part, row.parts)
  return row.shows === 'message' ? textOf(row.message.item['content']) : (problemOf(row.messages) ?? '')
}

const problemOf = (messages: readonly ChatMessage[]): string | undefined =>
  messages.find(({ error }) => error !== null)?.error?.message

const keyOf = ({ key }: ChatRow): string => key

function Conversation({ messages }: { readonly messages: readonly ChatMessage[] }) {
  const rows = useMemo(() => rowsOf(messages), [messages])
  return (
    <LongList rows={rows} keyOf={keyOf} textOf={textOfRow}>
      {(row) => (
        <div className={row.shows === 'end' ? 'pb-6' : 'pb-2.5'}>
          {row.shows === 'message' && (
            <div className="ml-auto w-fit max-w-[85%]">
              <UserMessage text={textOf(row.message.item['content'])} files={row.message.attachments.map(fileOf)} />
            </div>
          )}
          {row.shows === 'part' && <PartRow part={row.part} speaks={row.speaks} parts={row.parts} times={{}} />}
          {row.shows === 'end' && <End messages={row.messages} />}
        </div>
      )}
    </LongList>
  )
}

const fileOf = ({ filename, type }: ChatMessage['attachments'][number]) => ({ name: filename ?? type })

function End({ messages }: { readonly messages: readonly ChatMessage[] }) {
  const problem = problemOf(messages)
  const unusual = messages.find(({ status }) => status !== 'ok')
  const { runId: run, createdAt } = messages[0]!
  return (
    <div className="flex flex-col gap-2.5">
      {problem !== undefined && <p className="rounded-lg bg-bad-soft px-3 py-2 text-[13px] text-bad">{problem}</p>}
      <p className="flex items-center gap-2 text-xs text-soft">
        {unusual && <Status of={unusual.status} />}
        {moment(createdAt)}
        <Link to="/platform/runs/$run" params={{ run }} className="link">
          Run
        </Link>
      </p>
    </div>
  )
}
