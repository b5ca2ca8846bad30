import { BureauError, type Input, type Part, partsOf, type Run, type StreamEvent } from '@bureau/client'
import type { Message, Usage } from '@bureau/protocol'
import { reasonOf } from '../server/reason.ts'

/** What goes to the agency with every message of a chat. */
export type ChatOptions = {
  /** Readable by tools. */
  readonly context?: Readonly<Record<string, unknown>>
  readonly instructions?: string
  readonly model?: string
}

/** A file in a message: its content is a data URL. */
export type ChatFile = { readonly name: string; readonly type: string; readonly size: number; readonly data: string }

type TurnStatus = 'running' | 'completed' | 'cancelled' | 'waiting' | 'failed' | 'lost'

/** A message and everything that came of it. */
export type Turn = {
  readonly id: string
  readonly text: string
  readonly files: readonly ChatFile[]
  readonly agent: string | null
  readonly run: string | null
  readonly status: TurnStatus
  readonly parts: readonly Part[]
  /** What the run added to the history. */
  readonly messages: readonly Message[]
  readonly usage: Usage | null
  readonly error: { readonly code: string; readonly message: string } | null
  readonly startedAt: number
  readonly endedAt: number | null
  /** When parts began and ended, in milliseconds since the epoch; only of runs that were seen live. */
  readonly times: Readonly<Record<string, readonly [began: number, ended: number | null]>>
}

/** Whom one talks to. */
export type Partner = {
  /** The name of an agency of the self-hosted server; with `platform` the id of an integration. */
  readonly agency: string
  /** Set: it is an integration of the platform, which keeps the chat itself. */
  readonly platform?: {
    /** In whose name messages are sent. */
    readonly consumer?: string
  }
}

/** A message as somebody has written it. */
export type Draft = { readonly text: string; readonly files: readonly ChatFile[] }

export const NO_DRAFT: Draft = { text: '', files: [] }

/** Two messages that are sent as one. */
export function together(before: Draft, { text, files }: Draft): Draft {
  const texts = [before.text, text].filter((each) => each !== '')
  return { text: texts.join('\n\n'), files: [...before.files, ...files] }
}

/** A conversation of this browser. A self-hosted server keeps none itself. */
export type Chat = Partner & {
  /** On the platform also its alias there. */
  readonly id: string
  readonly title: string
  /** The agent that is addressed; null: the entry point. */
  readonly agent: string | null
  readonly options: ChatOptions
  /** What went before the first turn: of a chat that continues a run. */
  readonly earlier: readonly Message[]
  readonly turns: readonly Turn[]
  /** What is in the field when the chat is opened: it was made to send it. */
  readonly unsent?: Draft
  readonly updatedAt: number
}

const TITLE_LENGTH = 60

/** A letter first, so that it is not taken for a number in an address. */
export const newChatId = (): string =>
  `c${Array.from(crypto.getRandomValues(new Uint32Array(3)), (part) => part.toString(36)).join('')}`

export function newChat({ agency, platform }: Partner, id = newChatId()): Chat {
  return {
    id,
    agency,
    ...(platform && { platform }),
    title: 'New chat',
    agent: null,
    options: {},
    earlier: [],
    turns: [],
    updatedAt: Date.now(),
  }
}

/** A message that is sent now. */
export function newTurn(chat: Chat, { text, files }: Draft): Turn {
  return {
    id: `${chat.turns.length}-${Date.now()}`,
    text,
    files,
    agent: chat.agent,
    run: null,
    status: 'running',
    parts: [],
    messages: [],
    usage: null,
    error: null,
    startedAt: Date.now(),
    endedAt: null,
    times: {},
  }
}

/** The title of a chat is how it began. */
export const titleOf = (text: string): string => text.trim().split('\n')[0]!.slice(0, TITLE_LENGTH) || 'Files'

/** What the next message is sent with. A run that failed leaves nothing, so that its message can be sent again. */
export const historyOf = ({ earlier, turns }: Chat): Message[] => [
  ...earlier,
  ...turns.flatMap(({ messages }) => messages),
]

/** What is sent of a message, as its server takes it. */
export function inputOf(chat: Chat, draft: Draft): Input {
  const { id, agent, options, platform } = chat
  if (!platform) return { chat: id, message: messageOf(draft), body: { ...bodyOf(options), recipient_agent: agent } }
  return {
    chat: id,
    message: draft.text,
    ...(agent !== null && { agent }),
    ...(options.context && { context: options.context }),
    body: completionOf(platform, draft),
  }
}

/** Of a completion, what is neither the message nor where it goes. */
export function completionOf({ consumer }: NonNullable<Partner['platform']>, { files }: Pick<Draft, 'files'>) {
  const attachments = files.map(({ data }) => ({
    type: 'input_image' as const,
    image_url: data,
    detail: 'auto' as const,
  }))
  return { ...(consumer && { consumerId: consumer }), ...(attachments.length > 0 && { attachments }) }
}

/** Where a chat is shown. */
export const placeOf = ({ id, agency, platform }: Pick<Chat, 'id' | 'agency' | 'platform'>) => ({
  params: { agency },
  search: { chat: id, ...(platform && { on: 'platform' as const, ...platform }) },
})

/** The message of a turn as a self-hosted server takes it. */
export function messageOf({ text, files }: Draft): string | Record<string, unknown>[] {
  if (files.length === 0) return text
  const content = [
    ...(text === '' ? [] : [{ type: 'input_text', text }]),
    ...files.map(({ name, type, data }) =>
      type.startsWith('image/')
        ? { type: 'input_image', image_url: data, detail: 'auto' }
        : { type: 'input_file', filename: name, file_data: data },
    ),
  ]
  return [{ role: 'user', content }]
}

/** The members of the request's body that the options of a chat make. */
export function bodyOf({ context, instructions, model }: ChatOptions) {
  return {
    ...(context && { user_context: context }),
    ...(instructions && { additional_instructions: instructions }),
    ...(model && { client_config: { model } }),
  }
}

type Ended = Pick<Turn, 'status' | 'messages' | 'usage'>

/** What a run does after an approval is added to what it did before. */
export const added = (before: Ended, { status, messages, usage }: Ended): Omit<Ended, 'status'> => ({
  messages: status === 'failed' ? [] : [...before.messages, ...messages],
  usage: addUsage(before.usage, usage),
})

/** What two parts of a run have spent together: each reports its own. */
function addUsage(before: Usage | null, after: Usage | null): Usage | null {
  if (!before || !after) return after ?? before
  const names = [
    'request_count',
    'cached_tokens',
    'input_tokens',
    'output_tokens',
    'total_tokens',
    'total_cost',
  ] as const
  return { ...after, ...Object.fromEntries(names.map((name) => [name, before[name] + after[name]])) }
}

/** An event of a turn, and when it was seen. */
export type LoggedEvent = { readonly at: number; readonly turn: string; readonly event: StreamEvent }

/** What a view shows: another object after every change. */
export type SessionView = {
  readonly chat: Chat
  readonly busy: boolean
  readonly connection: Run['connection'] | null
  /** Sent as soon as a run has completed; kept when one fails or is stopped. */
  readonly queued: Draft | null
  /** How many `events` there are. */
  readonly eventCount: number
}

/** When calls began and ended, with one more event, which was seen at `at`. */
export function timed(times: Turn['times'], event: StreamEvent, at: number): Turn['times'] {
  if (event.type !== 'run_item_stream_event') return times
  const { call_id: id, type = '' } = event.item.raw_item
  if (id === undefined) return times
  const known = times[id]
  if (type.endsWith('_call_output')) return known ? { ...times, [id]: [known[0], at] } : times
  return known ? times : { ...times, [id]: [at, null] }
}

/** The chat with other members of one of its turns. */
export const withTurn = (chat: Chat, turnId: string, changes: Partial<Turn>): Chat => ({
  ...chat,
  turns: chat.turns.map((turn) => (turn.id === turnId ? { ...turn, ...changes } : turn)),
})

/** The ids of the calls on which a person has to decide before the run goes on, as one text. */
export const waitsFor = (turn: Pick<Turn, 'parts'> | undefined): string =>
  (turn?.parts ?? []).flatMap((part) => (part.type === 'tool' && part.approval ? [part.id] : [])).join()

/** A call that waited, once it is decided on. */
export function begun(part: Part): Part {
  if (part.type !== 'tool' || !part.approval) return part
  const { approval: _, ...rest } = part
  return { ...rest, state: 'running' }
}

/** What there is to show of a run and of what it continues. The outputs of calls that began there are in the messages alone. */
export function joined(
  before: readonly Part[],
  parts: readonly Part[],
  messages: readonly Message[] = [],
): readonly Part[] {
  if (before.length === 0) return parts
  const now = new Map(parts.map((part) => [part.id, part]))
  const said = new Map(partsOf(messages).map((part) => [part.id, part]))
  const earlier = before.map((part) => {
    return now.get(part.id) ?? ((part.type === 'tool' && part.state === 'running' && said.get(part.id)) || part)
  })
  const known = new Set(before.map(({ id }) => id))
  return [...earlier, ...parts.filter(({ id }) => !known.has(id))]
}

/** Why a run failed, as a turn shows it. */
export function failureOf(error: unknown): NonNullable<Turn['error']> {
  if (error instanceof BureauError) return { code: error.code, message: error.message }
  return { code: 'internal_error', message: reasonOf(error) }
}
