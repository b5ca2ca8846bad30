import { type Overflow, type RunInput, summaryMessage } from '@bureau/framework'
import { type Message, type WireItem, withoutMetadata } from '@bureau/protocol'
import { sandboxFilesHint } from '../../mount/sandbox-files.ts'
import type { GivenInput } from '../admit/completion-request.ts'
import type { LeftOut } from './left-out.ts'
import { beginsTurn, type HistoryMessage, type RunContext } from '../admit/read-run-context.ts'

/** The content part of each attachment of the chat, by its id. */
export type AttachmentParts = ReadonlyMap<string, WireItem>

/** What is to be summed up of the chat, and where the summary goes. */
export type ToSummarize = LeftOut & Pick<Overflow, 'summary' | 'keep' | 'failed'>

/** The chat as the agents see it: what was said before, and the message to answer. */
export function composeInput(context: RunContext, parts: AttachmentParts, leftOut?: ToSummarize): RunInput {
  const { agent, runId, userId, userContext, given, history, input, summarized } = context
  const asked = history.find((message) => message.runId === runId && beginsTurn(message))
  if (!asked) throw new Error('a run has a message to answer')
  const hint = sandboxFilesHint(input.sandboxFiles)
  const earlier = history.filter((each) => each.seq < asked.seq && !isEmpty(each))
  const { message, history: before, ...options } = given ?? { message: null, history: null }
  const inFull = (messages: readonly HistoryMessage[]): Message[] =>
    messages.map((each) => withAttachments(each, parts))
  const known = summarized.summary === null || leftOut ? [] : [summaryMessage(summarized.summary)]
  const later = earlier.filter(({ seq }) => seq > (leftOut?.upTo ?? 0))
  return {
    agent,
    userId,
    message: message
      ? before
        ? message
        : withoutOtherOutputs(message, earlier)
      : [withoutMetadata(withAttachments(asked, parts))],
    history: before ?? [...known, ...inFull(later)],
    ...(leftOut && { overflow: overflowOf(leftOut, inFull(earlier.filter(({ seq }) => seq <= leftOut.upTo))) }),
    ...options,
    ...(userContext && { userContext }),
    ...(hint !== undefined && { attachmentHint: hint }),
  }
}

/** Of the outputs those count whose calls wait for them in the chat: clients bring others again, or of calls that it does not have. */
function withoutOtherOutputs(
  message: GivenInput['message'],
  earlier: readonly HistoryMessage[],
): GivenInput['message'] {
  const waiting = new Set<string | undefined>()
  for (const { item } of earlier) {
    if (item.type === 'function_call') waiting.add(item.call_id) // some model servers use ids again
    if (item.type === 'function_call_output') waiting.delete(item.call_id)
  }
  return message.filter(({ type, call_id: id }) => type !== 'function_call_output' || waiting.has(id))
}

/** @param spare - What would be sent as well, if there is no summary. */
function overflowOf({ unsent, summary, keep, failed }: ToSummarize, spare: readonly Message[]): Overflow {
  return { messages: [...unsent.map(({ item }) => item), ...spare], spare: spare.length, summary, keep, failed }
}

/** A failed response that had said nothing yet, or a user who has brought outputs alone. */
function isEmpty({ item: { type, content }, attachments }: HistoryMessage): boolean {
  return type === 'message' && Array.isArray(content) && content.length === 0 && attachments.length === 0
}

/** The attachments follow the text of the message that they came with. */
function withAttachments({ item, attachments }: HistoryMessage, parts: AttachmentParts): Message {
  const added = attachments.flatMap(({ id }) => parts.get(id) ?? [])
  if (added.length === 0) return item
  return { ...item, content: [...(Array.isArray(item['content']) ? (item['content'] as unknown[]) : []), ...added] }
}
