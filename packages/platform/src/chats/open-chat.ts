import { ServiceError } from '@bureau/protocol'
import { sql } from 'drizzle-orm'
import { sqlstateOf } from '../db/database-error.ts'
import { type Tx } from '../db/operation.ts'
import { prepared } from '../db/prepared.ts'
import { chats } from '../db/schema.ts'
import { newId } from '../ids.ts'
import { type AliasKey, type ChatRow, hasAlias, isChat, lockChat } from './chats.repo.ts'

type ChatChoice = {
  readonly ownerId: string
  readonly integrationId: string
  readonly chatId: string | null
  readonly aliasChatId: string | null
  readonly consumerId: string | null
  /** The chat belongs to the consumer that opened it. */
  readonly boundToConsumer: boolean
}

/**
 * The chat that a completion names, locked; null when it names none.
 *
 * By id; by alias, created when there is none; or by id with an alias that is bound to it. Runs in the reservation's
 * transaction, so a refused request leaves no chat behind.
 *
 * @throws ServiceError `chat_not_found`, `chat_alias_conflict`
 */
export async function openChat(tx: Tx, choice: ChatChoice): Promise<ChatRow | null> {
  const { chatId, aliasChatId } = choice
  if (chatId === null) return aliasChatId === null ? null : openByAlias(tx, choice, aliasChatId)
  const chat = await lockChat(tx, { ownerId: choice.ownerId, chatId })
  if (!chat || !isUsable(chat, choice)) throw new ServiceError('chat_not_found')
  if (aliasChatId === null || chat.alias === aliasChatId) return chat
  if (chat.alias !== null) throw new ServiceError('chat_alias_conflict')
  return bindAlias(tx, chat, aliasChatId)
}

async function openByAlias(tx: Tx, choice: ChatChoice, alias: string): Promise<ChatRow> {
  const chat = (await lockByAlias(tx, choice, alias)) ?? (await insertChat(tx, choice, alias))
  if (!isUsable(chat, choice)) throw new ServiceError('chat_not_found')
  return chat
}

const selectLockedByAlias = prepared((tx, key: AliasKey) => tx.select().from(chats).where(hasAlias(key)).for('update'))

async function lockByAlias(
  tx: Tx,
  { ownerId, integrationId }: ChatChoice,
  alias: string,
): Promise<ChatRow | undefined> {
  const [chat] = await selectLockedByAlias(tx, { ownerId, integrationId, alias })
  return chat
}

type NewChat = Pick<ChatRow, 'id' | 'ownerId' | 'integrationId' | 'alias' | 'createdByConsumer'>

const insertRow = prepared((tx, { id, ownerId, integrationId, alias, createdByConsumer }: NewChat) =>
  tx.insert(chats).values({ id, ownerId, integrationId, alias, createdByConsumer }).onConflictDoNothing().returning(),
)

async function insertChat(tx: Tx, choice: ChatChoice, alias: string): Promise<ChatRow> {
  const { ownerId, integrationId, consumerId } = choice
  const [created] = await insertRow(tx, {
    id: newId('chat'),
    ownerId,
    integrationId,
    alias,
    createdByConsumer: consumerId,
  })
  // Another request created the alias at the same moment: its chat is the one.
  const chat = created ?? (await lockByAlias(tx, choice, alias))
  if (!chat) throw new ServiceError('chat_not_found')
  return chat
}

async function bindAlias(tx: Tx, chat: ChatRow, alias: string): Promise<ChatRow> {
  await tx.execute(sql`SAVEPOINT bind_alias`)
  try {
    const key = { ownerId: chat.ownerId, chatId: chat.id }
    const [bound] = await tx.update(chats).set({ alias }).where(isChat(key)).returning()
    return bound ?? chat
  } catch (error) {
    if (sqlstateOf(error) !== '23505') throw error
    await tx.execute(sql`ROLLBACK TO SAVEPOINT bind_alias`)
    throw new ServiceError('chat_alias_conflict')
  }
}

function isUsable(chat: ChatRow, { integrationId, consumerId, boundToConsumer }: ChatChoice): boolean {
  // A chat that was created empty belongs to the first consumer that uses it.
  const isOwn = chat.createdByConsumer === null || chat.createdByConsumer === consumerId
  return chat.integrationId === integrationId && (!boundToConsumer || isOwn)
}
