import type { PlatformChat } from '@bureau/protocol'
import { and, eq, inArray } from 'drizzle-orm'
import type { Tx } from '../db/operation.ts'
import { runs } from '../db/schema.ts'
import { EXCERPT_LENGTH, listFirstTexts, RUN_FACTS } from '../run-records/runs.repo.ts'
import { isActive, statusOf } from '../run-records/run-view.ts'
import type { ChatRow } from './chats.repo.ts'

/** Views in the order of the rows. */
export async function chatViews(tx: Tx, ownerId: string, rows: readonly ChatRow[]): Promise<PlatformChat[]> {
  const ids = rows.flatMap((chat) => (chat.lastRunId === null ? [] : [chat.lastRunId]))
  const last =
    ids.length === 0
      ? []
      : await tx
          .select(RUN_FACTS)
          .from(runs)
          .where(and(inArray(runs.id, ids), eq(runs.ownerId, ownerId)))
  const chatIds = rows.map(({ id }) => id)
  const firstTexts = await listFirstTexts(tx, { ownerId, chatIds, length: EXCERPT_LENGTH })
  const byId = new Map(last.map((run) => [run.id, run]))
  return rows.map((chat) => {
    const run = byId.get(chat.lastRunId ?? '')
    // Runs of a chat follow each other, so the active one is the last one.
    const active = run && isActive(run) ? run : undefined
    return {
      object: 'chat',
      chatId: chat.id,
      aliasChatId: chat.alias,
      apiIntegrationId: chat.integrationId,
      title: chat.title,
      firstMessage: firstTexts.get(chat.id) ?? null,
      createdByConsumerId: chat.createdByConsumer,
      messageCount: chat.nextSeq - 1,
      chatState: active ? 'busy' : 'idle',
      activeRunId: active?.id ?? null,
      lastRunId: chat.lastRunId,
      lastRunStatus: run ? statusOf(run) : null,
      createdAt: chat.createdAt.toISOString(),
      updatedAt: chat.updatedAt.toISOString(),
    }
  })
}
