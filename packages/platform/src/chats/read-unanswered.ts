import { and, desc, eq, gte, not, sql } from 'drizzle-orm'
import { tenantOperation } from '../db/operation.ts'
import { chats, messages } from '../db/schema.ts'
import { askedText, isNotFromUser } from '../run-records/runs.repo.ts'
import { hasAlias, isChat } from './chats.repo.ts'

/** A chat, by its id or its alias. */
export type ChatName = {
  readonly ownerId: string
  readonly integrationId: string
  readonly chatId?: string
  readonly aliasChatId?: string
}

/** More than anybody says without an answer. */
const MOST_READ = 100

/** What the user has said at the end of a chat and nobody has answered, because the runs failed or were cancelled: the texts, in order. */
export const readUnanswered = tenantOperation(
  { source: import.meta.url, name: 'readUnanswered', lane: 'interactive', onlyReads: true },
  async (tx, { ownerId, integrationId, chatId, aliasChatId: alias = '' }: ChatName): Promise<string[]> => {
    const isNamed = chatId === undefined ? hasAlias({ ownerId, integrationId, alias }) : isChat({ ownerId, chatId })
    const [chat] = await tx.select({ id: chats.id, nextSeq: chats.nextSeq }).from(chats).where(isNamed)
    if (!chat) return []
    const isLatest = and(eq(messages.chatId, chat.id), gte(messages.seq, chat.nextSeq - MOST_READ))
    const latest = await tx
      .select({
        status: messages.status,
        text: sql<string | null>`CASE WHEN ${not(isNotFromUser)} THEN ${askedText} END`,
      })
      .from(messages)
      .where(and(eq(messages.ownerId, ownerId), isLatest))
      .orderBy(desc(messages.seq))
    const answer = latest.findIndex(
      ({ text, status }) => text === null && status !== 'failed' && status !== 'cancelled',
    )
    const unanswered = answer === -1 ? latest : latest.slice(0, answer)
    return unanswered.flatMap(({ text }) => text ?? []).toReversed()
  },
)
