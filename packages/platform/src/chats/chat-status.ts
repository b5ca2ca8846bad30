import { type ChatStatus, type PlatformRun, ServiceError } from '@bureau/protocol'
import { and, eq } from 'drizzle-orm'
import { tenantOperation, type Tx } from '../db/operation.ts'
import { together } from '../db/together.ts'
import { chats, runs } from '../db/schema.ts'
import { requireIntegration } from '../members/members.repo.ts'
import { findRun, type RunRow } from '../run-records/runs.repo.ts'
import { runViews } from '../run-records/run-views.ts'
import { type ChatKey, type ChatRow, findActiveRunId, hasAlias } from './chats.repo.ts'
import type { Reach } from '../run-records/read-runs.ts'
import { requireChat } from './manage-chats.ts'

type RequestKey = {
  readonly ownerId: string
  readonly integrationId: string
  readonly usageRequestId: string
  /** Only a request of this consumer's. */
  readonly consumerId?: string
}

/**
 * What became of a request.
 *
 * @throws ServiceError `integration_not_found` (also foreign), `usage_request_not_found`: nothing is reserved under the
 *   id at this moment, sending the same request with the same id is safe.
 */
export const findRequestStatus = tenantOperation(
  { source: import.meta.url, name: 'findRequestStatus', lane: 'interactive', onlyReads: true },
  async (tx, args: RequestKey): Promise<ChatStatus> => {
    const { ownerId, integrationId, usageRequestId, consumerId } = args
    const [found] = await tx
      .select({ run: runs, chat: chats })
      .from(runs)
      .innerJoin(chats, eq(chats.id, runs.chatId))
      .where(
        and(
          eq(runs.integrationId, integrationId),
          eq(runs.usageRequestId, usageRequestId),
          eq(runs.ownerId, ownerId),
          consumerId === undefined ? undefined : eq(runs.consumerId, consumerId),
        ),
      )
    if (found) return statusView(tx, found.chat, found.run)
    await requireIntegration(tx, ownerId, integrationId)
    throw new ServiceError('usage_request_not_found')
  },
)

type AliasKey = Omit<RequestKey, 'usageRequestId'> & Reach & { readonly alias: string }

/** The same by the alias of a chat. @throws ServiceError `integration_not_found` (also foreign), `chat_not_found` */
export const findAliasStatus = tenantOperation(
  { source: import.meta.url, name: 'findAliasStatus', lane: 'interactive', onlyReads: true },
  async (tx, args: AliasKey): Promise<ChatStatus> => {
    const { ownerId, integrationId, alias } = args
    const [chat] = await tx.select().from(chats).where(hasAlias({ ownerId, integrationId, alias }))
    if (!chat) {
      await requireIntegration(tx, ownerId, integrationId)
      throw new ServiceError('chat_not_found')
    }
    await requireChat(tx, { ...args, chatId: chat.id })
    const run = chat.lastRunId === null ? undefined : await findRun(tx, { ownerId, runId: chat.lastRunId })
    return statusView(tx, chat, run)
  },
)

/** Where a chat stands with its latest run. @throws ServiceError `chat_not_found` */
export const getChatStatus = tenantOperation(
  { source: import.meta.url, name: 'getChatStatus', lane: 'interactive', onlyReads: true },
  async (tx, args: ChatKey & Reach): Promise<ChatStatus> => {
    const chat = await requireChat(tx, args)
    const run =
      chat.lastRunId === null ? undefined : await findRun(tx, { ownerId: args.ownerId, runId: chat.lastRunId })
    return statusView(tx, chat, run)
  },
)

/** The route adds `recovery.eventsUrl` for `attach`. */
async function statusView(tx: Tx, chat: ChatRow, row: RunRow | undefined): Promise<ChatStatus> {
  const { ownerId } = chat
  const [activeRunId, [run]] = await together(
    findActiveRunId(tx, { ownerId, chatId: chat.id }),
    runViews(tx, ownerId, row ? [row] : []),
  )
  const active = activeRunId ?? null
  return {
    object: 'chat_status',
    apiIntegrationId: chat.integrationId,
    chatId: chat.id,
    aliasChatId: chat.alias,
    chatState: active === null ? 'idle' : 'busy',
    activeRunId: active,
    usageRequestId: row?.usageRequestId ?? null,
    consumerId: row?.consumerId ?? null,
    run: run ?? null,
    recovery: { ...recoveryOf(run), eventsUrl: null },
  }
}

/** What a caller does next: follow the run, wait for it to stop, take its result, or ask anew with a new id. */
function recoveryOf(run: PlatformRun | undefined): Omit<ChatStatus['recovery'], 'eventsUrl'> {
  switch (run?.status) {
    case undefined:
      return { action: 'new_request', reason: 'the chat has no run yet' }
    case 'queued':
    case 'running':
      return { action: 'attach', reason: 'the run is active' }
    case 'waiting':
      return { action: 'wait', reason: 'a person has to decide' }
    case 'cancelling':
      return { action: 'wait', reason: 'the run is being cancelled' }
    case 'completed':
      return { action: 'use_result', reason: 'the run completed' }
    case 'failed':
      return { action: 'new_request', reason: `run failed: ${run.error?.code}` }
    case 'cancelled':
      return { action: 'new_request', reason: 'the run was cancelled' }
  }
}
