import type { Message, Usage } from '@bureau/protocol'
import { BureauError } from './error.ts'
import { textOf } from './parts.ts'
import type { StreamEvent } from './stream-event.ts'

/** How a run ended that did not fail. */
export type Result = {
  readonly status: 'completed' | 'cancelled'
  /** What the agents said to the user last; JSON where the agent has a structured output. */
  readonly text: string
  /** Everything that the run produced, in order. */
  readonly messages: readonly Message[]
  /** Null when the agent reports none. */
  readonly usage: Usage | null
  readonly run: string
  /** The `messages` frame as it came, e.g. with `chat_name`. */
  readonly frame: Readonly<Record<string, unknown>>
}

/** The last frame but one of a stream. */
export type MessagesFrame = {
  readonly new_messages: readonly Message[]
  readonly run_id: string
  readonly usage?: Usage
  readonly status?: 'completed' | 'cancelled' | 'failed'
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
  const { new_messages: messages, cancelled, usage = null, run_id: run } = frame
  return { status: cancelled ? 'cancelled' : 'completed', text: answerOf(messages), messages, usage, run, frame }
}

function failureOf({ frame, last }: End): BureauError {
  if (frame?.error) return new BureauError(frame.error.code, frame.error.message, { retryable: frame.error.retryable })
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
