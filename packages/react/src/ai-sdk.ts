import { BureauError, type Client, type Input, type Run } from '@bureau/client'
import type { ChatTransport, UIMessage, UIMessageChunk } from 'ai'
import { HistoryPlaces } from './history-places.ts'
import { pastMessages, piecesOf } from './messages.ts'
import { isDecidedElsewhere } from './turn.ts'
import { type Begun, chunksOf, uiPartOf } from './ui-chunks.ts'

/**
 * Lets the AI SDK's `useChat` talk to an agency of either server. The id of the chat is the client's `chat`; the last
 * message is sent, because the history is kept. Stopping stops the run at the server.
 *
 * Approvals: `addToolApprovalResponse` with `sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses`, with
 * other arguments behind `withArguments`.
 * What other agents do is in `data-nested` parts, sign-ins in `data-sign-in`, what tools emit in `data-custom`.
 */
export function bureauTransport(client: Client): ChatTransport<UIMessage> {
  /** Runs that wait for approvals, by chat. */
  const waiting = new Map<string, Run>()
  /** The ends of runs that were stopped, by chat: until then the platform refuses a message, and a history lacks what was said. */
  const stopping = new Map<string, Promise<void>>()
  const stops = new Stops()
  const places = new HistoryPlaces(client)
  /** By chat: when the reader of its last answer knows that it has ended. */
  const answers = new Map<string, Promise<void>>()
  /** The messages that have the beginnings of runs that went on after approvals, by run. */
  const begun = new Map<string, string>()
  let messagesSent = 0
  const stream = (chat: string, run: Run, stop: Promise<void>, onto: Begun | null): ReadableStream<UIMessageChunk> => {
    waiting.delete(chat)
    let isStopped = false
    const over = run.result.then(
      ({ status }) => void (status === 'waiting' && waiting.set(chat, run)),
      () => {},
    )
    void stop.then(() => {
      isStopped = true
      stopping.set(chat, over)
      run.cancel().catch(() => run.detach())
    })
    // What is shown of a chat while another answer of it is read is the state of that one: a failure has to come behind it.
    const before = answers.get(chat) ?? Promise.resolve()
    // What a run that was stopped has said until its end belongs to the history.
    const leave = (): unknown => setTimeout(() => isStopped || run.detach())
    const { chunks, ended } = chunksOf(run, { onto, begun, before, leave })
    answers.set(chat, ended)
    return chunks
  }
  return {
    // A run is replayed from its first event.
    resumeStreamIsReplay: true,

    async sendMessages({ chatId: chat, messages, trigger, abortSignal, body }) {
      const stop = stops.of(chat, abortSignal)
      await stopping.get(chat)
      const decided = decisionsIn(messages)
      const run = decided.size > 0 ? (waiting.get(chat) ?? (await client.attach({ chat }))) : null
      const next =
        run &&
        (await decide(run, decided).catch((error: unknown) => {
          // What became of it is looked for the next time.
          if (isDecidedElsewhere(error)) waiting.delete(chat)
          throw error
        }))
      const last = messages.at(-1)
      if (next) return stream(chat, next, stop, { id: last?.id ?? '', parts: run.parts })
      messagesSent++
      const asked = messages.findLast(({ role }) => role === 'user')
      const input = inputOf(client, asked?.parts ?? [], body)
      if (asked) places.take(chat, { id: asked.id, input, isRegenerated: trigger === 'regenerate-message' })
      const onto = last?.role === 'assistant' ? { id: last.id, parts: [] } : null
      return stream(chat, client.stream({ ...input, chat }), stop, onto)
    },

    async reconnectToStream({ chatId: chat, abortSignal }) {
      stops.resumed(chat)
      const stop = stops.of(chat, abortSignal)
      const before = messagesSent
      const run = await client.attach({ chat })
      // The run of a message that was sent meanwhile is shown already.
      return run && before === messagesSent ? stream(chat, run, stop, null) : null
    },
  }
}

/**
 * When the page stops a run. A component that mounts anew aborts as well, as all do in StrictMode, and resumes at once: its run
 * goes on.
 */
class Stops {
  /** Another one for each time that a chat is resumed. */
  readonly #resumes = new Map<string, object>()

  resumed(chat: string): void {
    this.#resumes.set(chat, {})
  }

  /** Resolves when what has this signal is stopped. */
  of(chat: string, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const stop = (): void => {
        const before = this.#resumes.get(chat)
        queueMicrotask(() => this.#resumes.get(chat) === before && resolve())
      }
      if (signal?.aborted) stop()
      signal?.addEventListener('abort', stop)
    })
  }
}

/**
 * What was said in a chat, for the `messages` of `useChat`: the latest part of a long history. The answer of an unfinished run is
 * left out, because `resume` brings it.
 *
 * @throws BureauError
 */
export async function chatMessages(client: Client, chat: string): Promise<UIMessage[]> {
  const run = await client.attach({ chat })
  const unfinished = run ? await idUnlessOver(run) : undefined
  const { entries } = await client.history(chat)
  const kept = entries.filter(({ run: of, item }) => of !== unfinished || item.role === 'user')
  const said = pastMessages(kept).map(({ id, role, parts, at }) => {
    const shown = role === 'user' ? sentParts([kept[at]?.item]) : parts.map(uiPartOf)
    return { id, role, parts: shown }
  })
  const isAsked = unfinished === undefined || entries.some(({ run: of }) => of === unfinished)
  const asked: UIMessage[] =
    run?.message === undefined || isAsked
      ? []
      : [{ id: run.request ?? chat, role: 'user', parts: sentParts(run.message) }]
  // An answer that failed before its first word is none.
  return [...said, ...asked].filter(({ role, parts }) => role === 'user' || parts.length > 0)
}

/** A message of the user as the page sent it, so that it can be sent again: `inputOf` the other way round. */
function sentParts(message: unknown): UIMessage['parts'] {
  return piecesOf(message).flatMap((piece): UIMessage['parts'] => {
    const { text, image_url: picture, file_data, file_url, filename } = piece
    if (text !== undefined) return [{ type: 'text', text }]
    const url = picture ?? file_data ?? file_url
    if (url === undefined) return []
    const [, mediaType = picture ? 'image/*' : 'application/octet-stream'] = /^data:([^;,]+)/.exec(url) ?? []
    return [{ type: 'file', mediaType, url, ...(filename !== undefined && { filename }) }]
  })
}

/** The messages with other arguments for a call that waits, where the descriptor of its approval says `edit`: they go with the approval. */
export function withArguments(messages: readonly UIMessage[], callId: string, input: unknown): UIMessage[] {
  const changed = (part: UIMessage['parts'][number]): UIMessage['parts'][number] =>
    part.type === 'dynamic-tool' && part.toolCallId === callId && part.state === 'approval-requested'
      ? { ...part, input }
      : part
  return messages.map((message) => ({ ...message, parts: message.parts.map(changed) }))
}

/** Detaches from a run. One whose last event has come already will not be found again, and its answer is in the history. */
async function idUnlessOver(run: Run): Promise<string | undefined> {
  const { run: id } = await run.started
  run.detach()
  const isUnfinished = await run.result.then(
    ({ status }) => status === 'waiting',
    (error: unknown) => error instanceof BureauError && error.code === 'detached',
  )
  return isUnfinished ? id : undefined
}

type Decision = { readonly approved: boolean; readonly reason?: string; readonly input: unknown }

/** Everything that was decided on, by the id of the call; what does not wait any more among it. */
function decisionsIn(messages: readonly UIMessage[]): ReadonlyMap<string, Decision> {
  const parts = messages.flatMap((message) => message.parts)
  return new Map(
    parts.flatMap((part) =>
      'approval' in part && part.state === 'approval-responded'
        ? [[part.approval.id, { ...part.approval, input: part.input }]]
        : [],
    ),
  )
}

/** @returns The run that goes on; null when nothing of it waits, or something still does. */
async function decide(run: Run, decided: ReadonlyMap<string, Decision>): Promise<Run | null> {
  const result = await run.result
  let next: Run | null = null
  for (const { call_id: id } of result.status === 'waiting' ? result.approvals : []) {
    const decision = decided.get(id)
    if (!decision) continue
    const { approved, reason, input } = decision
    const asked = run.parts.find((part) => part.type === 'tool' && part.id === id)
    const other = asked?.type === 'tool' && ordered(asked.input) !== ordered(input) && { arguments: input }
    if (approved) next = await run.approve(id, { reason, ...other })
    else next = await run.reject(id, reason)
  }
  return next
}

/** The same text for the same value, in whatever order its members come. */
const ordered = (value: unknown): string | undefined =>
  JSON.stringify(value, (_name, member: unknown) =>
    typeof member === 'object' && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  )

function inputOf({ histories }: Client, parts: UIMessage['parts'], body: object = {}): Input {
  const text = parts.map((part) => (part.type === 'text' ? part.text : '')).join('')
  const files = parts.flatMap((part): object[] => {
    if (part.type !== 'file') return []
    const { url, mediaType, filename } = part
    if (mediaType.startsWith('image/')) return [{ type: 'input_image', image_url: url }]
    const isInline = histories !== undefined && url.startsWith('data:')
    const file = isInline ? { file_data: url } : { file_url: url }
    return [{ type: 'input_file', ...file, ...(filename !== undefined && { filename }) }]
  })
  if (files.length === 0) return { message: text, body }
  if (!histories) return { message: text, body: { ...body, attachments: files } as NonNullable<Input['body']> }
  return { message: [{ role: 'user', content: [{ type: 'input_text', text }, ...files] }], body }
}
