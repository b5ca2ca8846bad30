import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { memo, useState } from 'react'
import { recentRunQuery } from '../server/run-queries.ts'
import { factsQuery, useServerRoutes } from '../server/queries.ts'
import { Status } from '../ui/badge.tsx'
import { Button, buttonClass, IconButton } from '../ui/button.tsx'
import { Form } from '../ui/form.tsx'
import { counted, dollars, duration, moment, pretty, whole } from '../ui/format.ts'
import { Menu } from '../ui/menu.tsx'
import { copy } from '../ui/toasts.tsx'
import type { Chat, Turn } from '../chats/chat.ts'
import type { ChatSession } from '../chats/chat-session.ts'
import { asClientCode, asCurl, requestOf } from './copy-request.ts'
import { useEdit } from './edit-message.ts'
import { WhyFailed } from '../parts/run-facts.tsx'
import { type PartOfConversation, PartRow, partRows, textOfPart } from '../parts/part-view.tsx'
import { UserMessage } from '../parts/user-message.tsx'

/** A turn is shown as rows: the message of the user, what came of it part by part, and how it ended. */
export type TurnRow = { readonly key: string; readonly turn: Turn } & (
  | { readonly shows: 'message' }
  | { readonly shows: 'end' }
  | ({ readonly shows: 'part' } & PartOfConversation)
)

const known = new WeakMap<Turn, readonly TurnRow[]>()

/** The same objects for the same turn: of a long chat only the last one changes. */
export function rowsOfTurn(turn: Turn): readonly TurnRow[] {
  const rows = known.get(turn) ?? [
    { key: turn.id, turn, shows: 'message' },
    ...partRows(turn.parts, null).map((row) => ({
      key: `${turn.id} ${row.part.id}`,
      turn,
      shows: 'part' as const,
      ...row,
    })),
    { key: `${turn.id} end`, turn, shows: 'end' },
  ]
  known.set(turn, rows)
  return rows
}

export function textOfRow(row: TurnRow): string {
  if (row.shows === 'part') return textOfPart(row.part, row.turn.parts)
  return row.shows === 'message' ? row.turn.text : (row.turn.error?.message ?? '')
}

type Props = { readonly turn: Turn; readonly session: ChatSession; readonly busy: boolean }

export const TurnRowView = memo(function TurnRowView({
  row,
  ...rest
}: { readonly row: TurnRow } & Omit<Props, 'turn'>) {
  const { turn } = row
  if (row.shows === 'message') {
    return (
      <div role="group" aria-label={`Message of ${moment(turn.startedAt)}`} className="flex flex-col pt-3 pb-3">
        <Asked turn={turn} {...rest} />
      </div>
    )
  }
  return (
    <div className="min-w-0 pb-2.5">
      {row.shows === 'end' ? (
        <End turn={turn} {...rest} />
      ) : (
        <PartRow part={row.part} speaks={row.speaks} parts={turn.parts} times={turn.times} />
      )}
    </div>
  )
})

function End({ turn, ...rest }: Props) {
  const isLive = turn.status === 'running'
  return (
    <div className="flex flex-col gap-2.5" aria-live={isLive ? 'off' : 'polite'} aria-busy={isLive}>
      {isLive && turn.parts.length === 0 && <p className="blink text-[13px] text-soft">Thinking …</p>}
      {turn.status === 'lost' && <Lost />}
      {turn.error && <Problem turn={turn} session={rest.session} />}
      {!isLive && <Footer turn={turn} {...rest} />}
    </div>
  )
}

function Asked({ turn, session, busy }: Props) {
  const [mode, setMode] = useState<'read' | 'edited' | 'left'>('read')
  if (mode === 'edited') return <EditMessage {...{ turn, session, busy }} leave={() => setMode('left')} />
  return (
    <div className="group/message ml-auto flex max-w-[92%] items-start gap-1">
      <IconButton
        icon="edit"
        label={session.view.chat.platform ? 'Edit and send in a new chat' : 'Edit and send again'}
        disabled={busy}
        autoFocus={mode === 'left'}
        onClick={() => setMode('edited')}
        className="opacity-60 group-hover/message:opacity-100 focus-visible:opacity-100"
      />
      <UserMessage text={turn.text} files={turn.files} />
    </div>
  )
}

function EditMessage({ turn, session, busy, leave }: Props & { readonly leave: () => void }) {
  const [text, setText] = useState(turn.text)
  const [refusal, setRefusal] = useState<unknown>()
  const edit = useEdit(session)
  return (
    <Form
      className="ml-auto w-full max-w-[85%] gap-2!"
      onSubmit={() => void edit(turn, { text, files: turn.files }).then(leave, setRefusal)}
      refusal={refusal}
      buttons={
        <div className="flex justify-end gap-2">
          <Button look="quiet" onClick={leave}>
            Keep it
          </Button>
          <Button look="primary" type="submit" disabled={busy || (text.trim() === '' && turn.files.length === 0)}>
            Send again
          </Button>
        </div>
      }
    >
      <textarea
        aria-label="Edit the message"
        autoFocus
        rows={3}
        className="input"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={({ key, nativeEvent }) => key === 'Escape' && !nativeEvent.isComposing && leave()}
      />
    </Form>
  )
}

function Lost() {
  return (
    <p className="rounded-lg bg-warn-soft px-3 py-2 text-[13px] text-warn">
      The server does not know this run any more, so that its answer cannot be shown. Send the message again.
    </p>
  )
}

/** Why the run failed, what to do, and, where the server keeps it, what was thrown. */
function Problem({ turn, session }: Pick<Props, 'turn' | 'session'>) {
  const { data: routes } = useServerRoutes()
  const isKept = turn.run !== null && !session.view.chat.platform && routes?.hasRuns === true
  const run = useQuery({ ...recentRunQuery(turn.run ?? ''), enabled: isKept })
  return (
    // A guardrail's frame has no code; the record of the run has one.
    <div role="alert">
      <WhyFailed error={run.data?.error ?? turn.error!} failure={run.data?.failure} />
    </div>
  )
}

function Footer({ turn, session, busy }: Props) {
  const { usage, startedAt, endedAt, run, status } = turn
  const { data: routes } = useServerRoutes()
  const isOnPlatform = session.view.chat.platform !== undefined
  return (
    <div className="flex flex-wrap items-center gap-x-2 gap-y-1 text-xs text-soft tabular-nums [&_button]:size-7">
      {status !== 'completed' && <Status of={status} />}
      {endedAt !== null && <span>{duration(endedAt - startedAt)}</span>}
      {usage && (
        <>
          <span
            title={`${whole(usage.input_tokens)} in, ${whole(usage.output_tokens)} out, ${whole(usage.cached_tokens)} cached`}
          >
            {counted(usage.total_tokens, 'token')}
          </span>
          <span>{dollars(usage.total_cost)}</span>
        </>
      )}
      {run !== null && isOnPlatform && (
        <Link to="/platform/runs/$run" params={{ run }} className="link hover:text-ink">
          Run
        </Link>
      )}
      {run !== null && !isOnPlatform && routes?.hasRuns && (
        <Link to="/runs/$run" params={{ run }} className="link hover:text-ink">
          Timeline
        </Link>
      )}
      <Actions chat={session.view.chat} turn={turn} session={session} busy={busy} />
    </div>
  )
}

function Actions({ chat, turn, session, busy }: Props & { readonly chat: Chat }) {
  const { data: facts } = useQuery(factsQuery)
  const request = () => requestOf(chat, turn, facts?.agencies === 'token')
  // The platform keeps its chats: what was said there stays.
  const sendAgain = (): void => (chat.platform ? session.send(turn) : session.replace(turn.id, turn))
  return (
    <span className="ml-auto flex">
      <IconButton icon="retry" label="Send again" disabled={busy} onClick={sendAgain} />
      <IconButton icon="copy" label="Copy the answer" onClick={() => void copy(answerOf(turn), 'Answer')} />
      <Menu
        label="More about this message"
        items={[
          { label: 'Copy as curl', icon: 'code', act: () => void copy(asCurl(request()), 'curl') },
          { label: 'Copy as client code', icon: 'code', act: () => void copy(asClientCode(request()), 'Client code') },
          { label: 'Copy the new messages', icon: 'copy', act: () => void copy(pretty(turn.messages), 'Messages') },
        ]}
      />
    </span>
  )
}

const answerOf = ({ parts }: Turn): string =>
  parts.flatMap((part) => (part.type === 'text' && part.parent === null ? [part.text] : [])).join('\n\n')

/** Starters and quick replies. */
export function Suggestions({
  texts,
  pick,
}: {
  readonly texts: readonly string[]
  readonly pick: (text: string) => void
}) {
  return (
    <div className="flex flex-wrap gap-2">
      {texts.map((text) => (
        <button
          key={text}
          type="button"
          className={`${buttonClass()} h-auto text-left whitespace-normal! wrap-anywhere`}
          onClick={() => pick(text)}
        >
          {text}
        </button>
      ))}
    </div>
  )
}
