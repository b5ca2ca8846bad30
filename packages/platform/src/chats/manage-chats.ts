import { type PlatformChat, ServiceError } from '@bureau/protocol'
import { and, desc, eq, gt, inArray, isNull, sql } from 'drizzle-orm'
import { appendAudit } from '../audit/audit.repo.ts'
import { sqlstateOf } from '../db/database-error.ts'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { cutPage, olderThan, type Page, type PageRequest } from '../db/page.ts'
import { chats } from '../db/schema.ts'
import { type ChatKey, type ChatRow, findActiveRunId, isChat, requireLockedChat } from './chats.repo.ts'
import { chatViews } from './chat-views.ts'
import { newId } from '../ids.ts'
import { refusedField } from '../refused-field.ts'
import type { Reach } from '../run-records/read-runs.ts'
import { integrationsOf, requireIntegration } from '../members/members.repo.ts'

/** Creates an empty chat. A chat that never gets a run is deleted after 30 days. @throws ServiceError `integration_not_found` */
export const createChat = tenantOperation(
  { source: import.meta.url, name: 'createChat', lane: 'interactive' },
  async (tx, args: { ownerId: string; integrationId: string; consumerId?: string }): Promise<{ chatId: string }> => {
    const { ownerId, integrationId, consumerId } = args
    await requireIntegration(tx, ownerId, integrationId)
    const chatId = newId('chat')
    await tx.insert(chats).values({ id: chatId, ownerId, integrationId, createdByConsumer: consumerId ?? null })
    return { chatId }
  },
)

/** @throws ServiceError `chat_not_found` */
export const getChat = tenantOperation(
  { source: import.meta.url, name: 'getChat', lane: 'interactive', onlyReads: true },
  async (tx, key: ChatKey & Reach): Promise<PlatformChat> => viewOf(tx, await requireChat(tx, key)),
)

type ChatFilter = {
  readonly integrationId?: string
  readonly consumerId?: string
  readonly aliasChatId?: string
  /** RFC 3339. */
  readonly updatedAfter?: string
}

/** The latest activity first. */
export const listChats = tenantOperation(
  { source: import.meta.url, name: 'listChats', lane: 'interactive', onlyReads: true },
  async (tx, args: PageRequest & Reach & ChatFilter & { ownerId: string }): Promise<Page<PlatformChat>> => {
    const { ownerId, limit, after } = args
    const rows = await tx
      .select()
      .from(chats)
      .where(
        and(
          eq(chats.ownerId, ownerId),
          isNull(chats.deletedAt),
          ...filtersOf(tx, args),
          olderThan(chats.updatedAt, chats.id, after),
        ),
      )
      .orderBy(desc(chats.updatedAt), desc(chats.id))
      .limit(limit + 1)
    const page = cutPage(rows, limit, (row) => [row.updatedAt.toISOString(), row.id])
    return { items: await chatViews(tx, ownerId, page.items), next: page.next }
  },
)

function filtersOf(tx: Tx, args: Reach & ChatFilter & { readonly ownerId: string }) {
  const { ownerId, integrationIds, integrationId, consumerId, aliasChatId, updatedAfter } = args
  return [
    integrationIds ? inArray(chats.integrationId, [...integrationIds]) : undefined,
    integrationId === undefined ? undefined : eq(chats.integrationId, integrationId),
    consumerId === undefined ? undefined : eq(chats.createdByConsumer, consumerId),
    // With their integration, aliases have an index.
    aliasChatId === undefined
      ? undefined
      : and(eq(chats.alias, aliasChatId), inArray(chats.integrationId, integrationsOf(tx, ownerId))),
    updatedAfter === undefined ? undefined : gt(chats.updatedAt, new Date(updatedAfter)),
  ]
}

/** Null takes title or alias away. @throws ServiceError `chat_not_found`, `alias_in_use` */
export const updateChat = tenantOperation(
  { source: import.meta.url, name: 'updateChat', lane: 'interactive' },
  async (
    tx,
    args: ChatKey & Reach & { changes: { title?: string | null; aliasChatId?: string | null } },
  ): Promise<PlatformChat> => {
    const { title, aliasChatId } = args.changes
    await requireChat(tx, args)
    try {
      const [chat] = await tx
        .update(chats)
        .set({
          ...(title !== undefined && { title }),
          ...(aliasChatId !== undefined && { alias: aliasChatId }),
          updatedAt: sql`now()`,
        })
        .where(isChat(args))
        .returning()
      if (!chat) throw new ServiceError('chat_not_found')
      return await viewOf(tx, chat)
    } catch (error) {
      throw sqlstateOf(error) === '23505' ? refusedField('alias_in_use', 'aliasChatId') : error
    }
  },
)

/**
 * Takes a chat away; a sweep erases its content within a day. Runs and usage stay, without content.
 *
 * @throws ServiceError `chat_not_found`, `run_active`
 */
export const deleteChat = tenantOperation(
  { source: import.meta.url, name: 'deleteChat', lane: 'interactive' },
  async (tx, args: ChatKey & Reach & { actor: string }): Promise<void> => {
    await requireChat(tx, args)
    const chat = await requireLockedChat(tx, args)
    const active = await findActiveRunId(tx, args)
    if (active !== undefined) {
      throw new ServiceError('run_active', { headers: { 'X-Agent-Active-Run-Id': active, 'Retry-After': '2' } })
    }
    await tx
      .update(chats)
      .set({ deletedAt: sql`now()`, title: null, summary: null })
      .where(isChat(args))
    await appendAudit(tx, args.ownerId, { actor: args.actor, action: 'chat.deleted', target: chat.id })
  },
)

/** @throws ServiceError `chat_not_found` */
export async function requireChat(tx: Tx, key: ChatKey & Reach): Promise<ChatRow> {
  const [chat] = await tx.select().from(chats).where(isChat(key))
  const isOwn = key.consumerId === undefined || chat?.createdByConsumer === key.consumerId
  const seen = chat && isOwn && (!key.integrationIds || key.integrationIds.includes(chat.integrationId))
  if (!seen) throw new ServiceError('chat_not_found')
  return chat
}

export async function viewOf(tx: Tx, chat: ChatRow): Promise<PlatformChat> {
  const [view] = await chatViews(tx, chat.ownerId, [chat])
  if (!view) throw new Error('a chat has a view')
  return view
}
