import { ServiceError } from '@bureau/protocol'
import { and, eq, isNull, sql } from 'drizzle-orm'
import type { Tx } from '../db/operation.ts'
import { prepared } from '../db/prepared.ts'
import { chats, runs } from '../db/schema.ts'

export type ChatRow = typeof chats.$inferSelect
export type ChatKey = { readonly ownerId: string; readonly chatId: string }

export const isChat = ({ ownerId, chatId }: ChatKey) =>
  and(eq(chats.id, chatId), eq(chats.ownerId, ownerId), isNull(chats.deletedAt))

export type AliasKey = { readonly ownerId: string; readonly integrationId: string; readonly alias: string }

export const hasAlias = ({ ownerId, integrationId, alias }: AliasKey) =>
  and(
    eq(chats.integrationId, integrationId),
    eq(chats.alias, alias),
    eq(chats.ownerId, ownerId),
    isNull(chats.deletedAt),
  )

const selectLocked = prepared((tx, key: ChatKey) => tx.select().from(chats).where(isChat(key)).for('update'))

/** The chat's row, locked: whoever adds to a chat or starts a run in it comes one after the other. */
export async function lockChat(tx: Tx, key: ChatKey): Promise<ChatRow | undefined> {
  const [chat] = await selectLocked(tx, key)
  return chat
}

/** @throws ServiceError `chat_not_found` */
export async function requireLockedChat(tx: Tx, key: ChatKey): Promise<ChatRow> {
  const chat = await lockChat(tx, key)
  if (!chat) throw new ServiceError('chat_not_found')
  return chat
}

/** In the words of the indexes on active runs, so that they are found. */
export const isActiveRun = sql`${runs.state} IN ('reserved','running','waiting')`

const selectActive = prepared((tx, { ownerId, chatId }: ChatKey) =>
  tx
    .select({ id: runs.id })
    .from(runs)
    .where(and(eq(runs.chatId, chatId), eq(runs.ownerId, ownerId), isActiveRun)),
)

/** The run that occupies a chat. Exact while the chat's row is locked. */
export async function findActiveRunId(tx: Tx, key: ChatKey): Promise<string | undefined> {
  const [run] = await selectActive(tx, key)
  return run?.id
}
