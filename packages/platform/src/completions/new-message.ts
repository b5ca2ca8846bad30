import type { RunInput } from '@bureau/framework'
import type { WireItem } from '@bureau/protocol'
import { type ChatName, readUnanswered } from '../chats/read-unanswered.ts'
import type { Database } from '../db/database.ts'

/**
 * The message without what was said in its chat before. Clients that know no chats send all that the user has said since the last
 * answer: when runs have failed, more than what is new.
 */
export async function newMessage(
  db: Database,
  chat: ChatName,
  given: RunInput['message'],
): Promise<readonly WireItem[]> {
  const message = typeof given === 'string' ? [{ role: 'user', content: given }] : given
  const isKept = chat.chatId !== undefined || chat.aliasChatId !== undefined
  if (!isKept || message.filter(isFromUser).length < 2) return message
  const said = (await db.run(readUnanswered, chat)).join('\n\n')
  const next = message.findIndex((item, at) => isFromUser(item) && textOf(message.slice(0, at)) === said)
  return message.filter((item, at) => at >= next || !isFromUser(item))
}

/** What a chat keeps of the message: its text. */
export function textOf(items: readonly WireItem[]): string {
  return items
    .filter(isFromUser)
    .flatMap(({ content }) => (typeof content === 'string' ? content : textParts(content)))
    .join('\n\n')
}

const isFromUser = ({ role }: WireItem): boolean => role === 'user'

function textParts(content: unknown): string[] {
  const parts = Array.isArray(content) ? (content as { readonly text?: unknown }[]) : []
  return parts.flatMap(({ text }) => (typeof text === 'string' ? text : []))
}
