import { type Overflow, type RunInput, summaryMessage } from '@bureau/framework'
import { type Message, type WireItem, withoutMetadata } from '@bureau/protocol'
import { sandboxFilesHint } from '../../mount/sandbox-files.ts'
import type { LeftOut } from './left-out.ts'
import type { HistoryMessage, RunContext } from './read-run-context.ts'

/** The content part of each attachment of the chat, by its id. */
export type AttachmentParts = ReadonlyMap<string, WireItem>

/** What is to be summed up of the chat, and where the summary goes. */
export type ToSummarize = LeftOut & Pick<Overflow, 'summary' | 'keep' | 'failed'>

/** The chat as the agents see it: what was said before, and the message to answer. */
export function composeInput(context: RunContext, parts: AttachmentParts, leftOut?: ToSummarize): RunInput {
  const { agent, runId, userId, userContext, given, history, input, summarized } = context
  const asked = history.findLast((message) => message.runId === runId && message.role === 'user')
  if (!asked) throw new Error('a run has a message to answer')
  const hint = sandboxFilesHint(input.sandboxFiles)
  const earlier = history.filter(({ seq, item }) => seq < asked.seq && !isEmptyAnswer(item))
  const { message, history: before, ...options } = given ?? { message: null, history: null }
  const inFull = (messages: readonly HistoryMessage[]): Message[] =>
    messages.map((each) => withAttachments(each, parts))
  const known = summarized.summary === null || leftOut ? [] : [summaryMessage(summarized.summary)]
  const later = earlier.filter(({ seq }) => seq > (leftOut?.upTo ?? 0))
  return {
    agent,
    userId,
    message: message ?? [withoutMetadata(withAttachments(asked, parts))],
    history: before ?? [...known, ...inFull(later)],
    ...(leftOut && { overflow: overflowOf(leftOut, inFull(earlier.filter(({ seq }) => seq <= leftOut.upTo))) }),
    ...options,
    ...(userContext && { userContext }),
    ...(hint !== undefined && { attachmentHint: hint }),
  }
}

/** @param spare - What would be sent as well, if there is no summary. */
function overflowOf({ unsent, summary, keep, failed }: ToSummarize, spare: readonly Message[]): Overflow {
  return { messages: [...unsent.map(({ item }) => item), ...spare], spare: spare.length, summary, keep, failed }
}

/** A failed response that had said nothing yet. */
function isEmptyAnswer({ type, role, content }: Message): boolean {
  return type === 'message' && role === 'assistant' && Array.isArray(content) && content.length === 0
}

/** The attachments follow the text of the message that they came with. */
function withAttachments({ item, attachments }: HistoryMessage, parts: AttachmentParts): Message {
  const added = attachments.flatMap(({ id }) => parts.get(id) ?? [])
  if (added.length === 0) return item
  return { ...item, content: [...(Array.isArray(item['content']) ? (item['content'] as unknown[]) : []), ...added] }
}
