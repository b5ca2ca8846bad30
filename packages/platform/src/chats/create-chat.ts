import { tenantOperation } from '../db/operation.ts'
import { chats } from '../db/schema.ts'
import { newId } from '../ids.ts'
import { requireIntegration } from '../members/members.repo.ts'

/** An empty chat. One that never sees a run is deleted after 30 days. @throws ServiceError `integration_not_found` */
export const createChat = tenantOperation(
  { source: import.meta.url, name: 'createChat', lane: 'interactive' },
  async (tx, args: { ownerId: string; integrationId: string }): Promise<{ chatId: string }> => {
    const { ownerId, integrationId } = args
    await requireIntegration(tx, ownerId, integrationId)
    const chatId = newId('chat')
    await tx.insert(chats).values({ id: chatId, ownerId, integrationId })
    return { chatId }
  },
)
