import { type Approval, BureauError, type HistoryEntry, type Part, partsOf, type Run } from '@bureau/client'

/** A message of the user, or everything with which the agents answered it. It never changes: another takes its place. */
export type UiMessage = {
  readonly id: string
  readonly role: 'user' | 'assistant'
  readonly parts: readonly Part[]
  /** `queued`: it is sent when the run before it is over. `waiting`: tool calls wait for approvals. */
  readonly state: 'queued' | 'running' | 'waiting' | 'done' | 'cancelled' | 'failed'
  /** Why it failed. */
  readonly error: BureauError | null
}

/** What a view shows of a chat. */
export type ConversationState = {
  /** Oldest first. */
  readonly messages: readonly UiMessage[]
  /** `resuming`: history and an unfinished run are being looked for. `error`: the last message failed, see `error`. */
  readonly status: 'idle' | 'resuming' | 'sending' | 'running' | 'waiting' | 'error'
  readonly connection: Run['connection']
  readonly error: BureauError | null
  /** Of the last run that ended. */
  readonly usage: Awaited<Run['result']>['usage']
  /** Tool calls that wait for a decision. */
  readonly approvals: readonly Approval[]
  /** Whether the history has earlier messages, which `loadEarlier` brings. */
  readonly hasEarlier: boolean
}

/** A message of a history, and how many items of the history come before it. */
export type PastMessage = UiMessage & { readonly at: number }

/** A piece of a user's message: text, or a picture or file by its address. */
type Piece = {
  readonly text?: string
  readonly image_url?: string
  readonly file_data?: string
  readonly file_url?: string
  readonly filename?: string
}

/** The pieces of a user's message, whether it is about to be sent or comes from a stored history. */
export function piecesOf(message: unknown): readonly Piece[] {
  const items: readonly { readonly content?: unknown }[] = Array.isArray(message) ? message : [{ content: message }]
  return items.flatMap(({ content }): readonly Piece[] => {
    if (typeof content === 'string') return [{ text: content }]
    return Array.isArray(content) ? content : []
  })
}

/** The message of a user, as it was sent. */
export function userMessage(id: string, message: unknown): Omit<UiMessage, 'state' | 'error'> {
  const parts = piecesOf(message).flatMap((piece, at): readonly Part[] => {
    const base = { id: `${id}-${at}`, agent: '', parent: null }
    const { text, image_url: picture = '' } = piece
    if (text !== undefined) return [{ ...base, type: 'text', text, state: 'done' }]
    const [, mediaType, data] = /^data:(.+?);base64,(.+)/.exec(picture) ?? []
    return mediaType && data ? [{ ...base, type: 'file', mediaType, data }] : []
  })
  return { id, role: 'user', parts }
}

/** The messages of a history: each of the user's, and what followed it as one. */
export function pastMessages(entries: readonly HistoryEntry[]): PastMessage[] {
  const messages: PastMessage[] = []
  let answer: HistoryEntry[] = []
  const endAnswer = (at: number): void => {
    const [first] = answer
    if (!first) return
    const parts = partsOf(answer.map(({ item }) => item))
    const failure = answer.find(({ error }) => error)?.error
    const error = failure ? new BureauError(failure.code, failure.message) : null
    const id = `${first.run ?? `history-${at - answer.length}`}-answer`
    answer = []
    if (parts.length === 0 && !error) return
    messages.push({ id, role: 'assistant', parts, state: error ? 'failed' : 'done', error, at })
  }
  for (const [at, entry] of entries.entries()) {
    const { type = 'message', role, callerAgent, content } = entry.item
    if (type === 'message' && role === 'user' && callerAgent == null) {
      endAnswer(at)
      const message = userMessage(`${entry.run ?? `history-${at}`}-question`, [{ content }])
      messages.push({ ...message, state: 'done', error: null, at })
    } else if (role !== 'system') answer.push(entry)
  }
  endAnswer(entries.length)
  return messages
}

/** How many items of the history come before a message, by the id that it has there; undefined of other messages. */
export function indexOfPast(id: string): number | undefined {
  const [, index] = /^history-(\d+)-question$/.exec(id) ?? []
  return index === undefined ? undefined : Number(index)
}

/** What was asked last, if there is no answer or it failed. */
export function unansweredOf(messages: readonly UiMessage[]): string | undefined {
  const [before, last] = messages.slice(-2)
  if (last?.role === 'assistant' && last.state !== 'failed') return undefined
  const asked = last?.role === 'assistant' ? before : (last ?? before)
  return asked?.parts.map((part) => (part.type === 'text' ? part.text : '')).join('')
}

export function asBureauError(error: unknown): BureauError {
  if (error instanceof BureauError) return error
  return new BureauError('refused', error instanceof Error ? error.message : String(error), { cause: error })
}
