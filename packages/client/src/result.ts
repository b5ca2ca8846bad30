import type { Message, Usage } from '@bureau/protocol'
import { BureauError } from './error.ts'
import { Parts, textOf } from './parts.ts'
import type { Approval, StreamEvent } from './stream-event.ts'

/** How a run ended that did not fail, or that it waits until somebody has decided on its `approvals`. */
export type Result<Output = unknown> = {
  /** What the agents said to the user last. */
  readonly text: string
  /** The same read as JSON, of an agent with a structured output; undefined where `text` is not JSON. */
  readonly output: Output
  /** Everything that the run produced, in order. */
  readonly messages: readonly Message[]
  /** Null when the agent reports none. */
  readonly usage: Usage | null
  readonly run: string
  /** The `messages` frame as it came, e.g. with `chat_name`. */
  readonly frame: Readonly<Record<string, unknown>>
} & (
  | { readonly status: 'completed' | 'cancelled' }
  /** `approve` and `reject` of the run decide. */
  | { readonly status: 'waiting'; readonly approvals: readonly Approval[] }
)

/** What a stream says first: the ids. */
export type MetaFrame = { readonly run_id: string; readonly chatId?: string; readonly usageRequestId?: string | null }

/** The last frame but one of a stream. */
export type MessagesFrame = {
  readonly new_messages: readonly Message[]
  readonly run_id: string
  readonly usage?: Usage
  readonly status?: 'completed' | 'cancelled' | 'failed' | 'waiting'
  readonly approvals?: readonly Approval[]
  readonly cancelled?: boolean
  readonly error?: { readonly code: string; readonly message: string; readonly retryable?: boolean }
}

/** How a stream ended: its `messages` frame, if there was one, and the event before it. */
type End = { readonly frame: MessagesFrame | undefined; readonly last: StreamEvent | undefined }

/** The messages by which a chat goes on: none of a run that failed, so that its message may be sent again. */
export function messagesOf(end: End): readonly Message[] {
  return isFailed(end) ? [] : (end.frame?.new_messages ?? [])
}

/** @throws BureauError the run failed */
export function resultOf(end: End): Result {
  const { frame } = end
  if (!frame || isFailed(end)) throw failureOf(end)
  const { new_messages: messages, cancelled, usage = null, run_id: run, status, approvals = [] } = frame
  const text = answerOf(messages)
  const result = { text, output: jsonOf(text), messages, usage, run, frame }
  if (status === 'waiting') return { ...result, status, approvals }
  return { ...result, status: cancelled ? 'cancelled' : 'completed' }
}

function failureOf({ frame, last }: End): BureauError {
  if (frame?.error)
    return new BureauError(frame.error.code, frame.error.message, { retryable: frame.error.retryable ?? false })
  // Without the frame, the files of the request could not be used.
  const usual = frame ? 'run_failed' : 'attachment_rejected'
  if (last?.type !== 'error') return new BureauError(usual, 'The run failed.')
  return new BureauError(last.code ?? usual, last.content)
}

/** The platform says how a run ended. The self-hosted server reports its failure right before its end. */
function isFailed({ frame, last }: End): boolean {
  if (frame?.status !== undefined) return frame.status === 'failed'
  return !frame?.cancelled && last?.type === 'error'
}

function answerOf(messages: readonly Message[]): string {
  const answer = messages.findLast(
    ({ type = 'message', role, callerAgent }) => type === 'message' && role === 'assistant' && callerAgent == null,
  )
  return textOf(answer?.['content'])
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** What the agents say to the user, as it comes: piece by piece, or a whole message that nobody has streamed. */
export async function* textOfRun(events: AsyncIterable<StreamEvent>): AsyncGenerator<string, void> {
  const parts = new Parts()
  /** How many characters of each message the reader has. */
  const said = new Map<string, number>()
  let last: string | undefined
  for await (const event of events) {
    parts.add(event)
    for (const part of parts.all) {
      if (part.type !== 'text' || part.parent !== null) continue
      const { id, text } = part
      const from = said.get(id) ?? 0
      said.set(id, text.length)
      if (text.length <= from) continue
      // To cut a piece out of a long text takes as long as to write all of it anew.
      const more = event.type === 'raw_response_event' ? event.data.delta! : text.slice(from)
      yield last === undefined || last === id ? more : `\n\n${more}`
      last = id
    }
  }
}
