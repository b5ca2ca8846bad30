import type { ChatMessage, PlatformRun } from '@bureau/protocol'
import { useNavigate } from '@tanstack/react-router'
import { newChat, placeOf, titleOf } from '../chats/chat.ts'
import { useSessions } from '../chats/sessions.ts'
import { ask } from '../server/request.ts'
import { textOf } from '../ui/format.ts'

const MAX_PAGES = 20

/** Opens the playground with what a run was asked, its agent and its consumer, in a new chat: it is sent by hand. */
export function useReproduce(): (run: PlatformRun) => Promise<void> {
  const sessions = useSessions()
  const navigate = useNavigate()
  return async (run) => {
    const text = await messageOfRun(run)
    const platform = run.consumerId === null ? {} : { consumer: run.consumerId }
    const chat = newChat({ agency: run.apiIntegrationId, platform })
    sessions.begin({ ...chat, title: titleOf(text), agent: run.agent, unsent: { text, files: [] } })
    void navigate({ to: '/play/$agency', ...placeOf(chat) })
  }
}

/** @throws Error the message is too far back in its chat. */
async function messageOfRun({ chatId, runId }: PlatformRun): Promise<string> {
  for (let cursor: string | null = '', pages = 0; cursor !== null && pages < MAX_PAGES; pages += 1) {
    const page: { data: ChatMessage[]; nextCursor: string | null } = await ask(
      'platform',
      `v1/chats/${encodeURIComponent(chatId)}/messages?order=desc&limit=100${cursor && `&cursor=${encodeURIComponent(cursor)}`}`,
    )
    const sent = page.data.find(
      ({ runId: of, role, item }) => of === runId && role === 'user' && item.callerAgent == null,
    )
    if (sent) return textOf(sent.item['content'])
    cursor = page.nextCursor
  }
  throw new Error('What this run was asked is not among the latest messages of its chat.')
}
