import type { RunInput } from '@bureau/framework'
import { type Message, type WireItem, withoutMetadata } from '@bureau/protocol'
import { sandboxFilesHint } from '../../mount/sandbox-files.ts'
import type { HistoryMessage, RunContext } from './read-run-context.ts'

/** The content part of each attachment of the chat, by its id. */
export type AttachmentParts = ReadonlyMap<string, WireItem>

/** The chat as the agents see it: what was said before, and the message to answer. */
export function composeInput(context: RunContext, parts: AttachmentParts): RunInput {
  const { agent, runId, userId, userContext, given, history, input } = context
  const asked = history.findLast((message) => message.runId === runId && message.role === 'user')
  if (!asked) throw new Error('a run has a message to answer')
  const hint = sandboxFilesHint(input.sandboxFiles)
  const earlier = history.filter(({ seq, item }) => seq < asked.seq && !isEmptyAnswer(item))
  const { message, history: before, ...options } = given ?? { message: null, history: null }
  return {
    agent,
    userId,
    message: message ?? [withoutMetadata(withAttachments(asked, parts))],
    history: before ?? earlier.map((each) => withAttachments(each, parts)),
    ...options,
    ...(userContext && { userContext }),
    ...(hint !== undefined && { attachmentHint: hint }),
  }
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
