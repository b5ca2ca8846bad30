import type { PlatformChat } from '@bureau/protocol'
import type { Chat, Draft, Turn } from '../chats/chat.ts'
import { newChatId } from '../chats/chat.ts'
import type { ChatSession } from '../chats/chat-session.ts'
import { useSessions } from '../chats/sessions.ts'
import { ask, queryOf } from '../server/request.ts'
import { usePlace } from './place.ts'

/**
 * Sends a message in other words. A chat that this browser keeps goes on from there; one of the platform stays as it is, and
 * the message goes to a branch of it, which is then shown in its place. Rejects when there can be no branch.
 */
export function useEdit(session: ChatSession): (turn: Turn, draft: Draft) => Promise<void> {
  const sessions = useSessions()
  const { main, beside, toMain, toBeside } = usePlace()
  return async (turn, draft) => {
    const { chat } = session.view
    const at = chat.turns.findIndex(({ id }) => id === turn.id)
    // The platform has no message that it has refused.
    const run = chat.turns.slice(at).find((each) => each.run !== null)?.run
    if (!chat.platform || run == null) return session.replace(turn.id, draft)
    const branch: Chat = { ...chat, id: newChatId(), turns: chat.turns.slice(0, at), updatedAt: Date.now() }
    await createBranch(chat, { beforeRunId: run, aliasChatId: branch.id })
    sessions.begin(branch).send(draft)
    if (beside?.chat === chat.id) toBeside({ ...beside, chat: branch.id })
    else toMain({ ...main, chat: branch.id })
  }
}

/** @throws RequestFailed */
async function createBranch(
  { id: aliasChatId, agency: apiIntegrationId }: Chat,
  branch: { readonly beforeRunId: string; readonly aliasChatId: string },
): Promise<void> {
  const { chatId } = await ask<Pick<PlatformChat, 'chatId'>>(
    'platform',
    `v1/chat_status${queryOf({ apiIntegrationId, aliasChatId })}`,
  )
  await ask('platform', `v1/chats/${encodeURIComponent(chatId)}/branches`, { method: 'POST', body: branch })
}
