import type { ChatMessage } from '@bureau/protocol'
import { and, asc, desc, eq, gt, inArray, lt } from 'drizzle-orm'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { type Page, type PageRequest, toPage } from '../db/page.ts'
import { messageAttachments, messages, runs } from '../db/schema.ts'
import { runErrorOf } from '../run-records/run-view.ts'
import { type AttachmentRow, attachmentView } from './attachments.repo.ts'
import type { ChatKey } from './chats.repo.ts'
import type { Reach } from '../run-records/read-runs.ts'
import { requireChat } from './manage-chats.ts'

const columns = {
  message: messages,
  errorCode: runs.errorCode,
  errorMessage: runs.errorMessage,
  errorClass: runs.errorClass,
}

type MessageRow = Parameters<typeof runErrorOf>[0] & { readonly message: typeof messages.$inferSelect }

/**
 * The messages of a chat by number, oldest first unless `order` is `desc`. The position of a page is that number.
 *
 * @throws ServiceError `chat_not_found`
 */
export const listMessages = tenantOperation(
  { source: import.meta.url, name: 'listMessages', lane: 'interactive', onlyReads: true },
  async (
    tx,
    args: PageRequest & ChatKey & Reach & { order: 'asc' | 'desc'; afterSeq?: number },
  ): Promise<Page<ChatMessage>> => {
    const { ownerId, chatId, order, afterSeq, limit, after } = args
    await requireChat(tx, args)
    const position = after ? Number(after[1]) : undefined
    const rows = await tx
      .select(columns)
      .from(messages)
      .leftJoin(runs, and(eq(runs.id, messages.runId), eq(runs.ownerId, ownerId), eq(messages.status, 'failed')))
      .where(
        and(
          eq(messages.chatId, chatId),
          eq(messages.ownerId, ownerId),
          afterSeq === undefined ? undefined : gt(messages.seq, afterSeq),
          position === undefined ? undefined : (order === 'asc' ? gt : lt)(messages.seq, position),
        ),
      )
      .orderBy((order === 'asc' ? asc : desc)(messages.seq))
      .limit(limit + 1)
    const attachments = await attachmentsOf(tx, args, rows)
    return toPage(
      rows,
      limit,
      (row) => messageView(row, attachments.get(row.message.seq) ?? []),
      ({ message }) => ['', String(message.seq)],
    )
  },
)

async function attachmentsOf(
  tx: Tx,
  { ownerId, chatId }: ChatKey,
  rows: readonly MessageRow[],
): Promise<Map<number, AttachmentRow[]>> {
  if (rows.length === 0) return new Map()
  const found = await tx
    .select()
    .from(messageAttachments)
    .where(
      and(
        eq(messageAttachments.chatId, chatId),
        eq(messageAttachments.ownerId, ownerId),
        inArray(
          messageAttachments.messageSeq,
          rows.map(({ message }) => message.seq),
        ),
      ),
    )
    .orderBy(asc(messageAttachments.messageSeq), asc(messageAttachments.idx))
  return Map.groupBy(found, (row) => row.messageSeq)
}

function messageView(found: MessageRow, attachments: readonly AttachmentRow[]): ChatMessage {
  const { message: row } = found
  return {
    object: 'message',
    id: row.id,
    seq: row.seq,
    role: row.role,
    status: row.status,
    error: runErrorOf(found),
    runId: row.runId,
    agent: row.role === 'user' ? null : (row.item.agent ?? null),
    item: row.item,
    attachments: attachments.map(attachmentView),
    createdAt: row.createdAt.toISOString(),
  }
}
