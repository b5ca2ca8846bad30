import { useEffect, useState } from 'react'
import { useValue } from '../observable.ts'
import type { ChatHead } from './chat-store.ts'
import { useSessions } from './sessions.ts'

/** The chats of an agency, or of all, in this browser; latest first. */
export function useChats(agency?: string): readonly ChatHead[] {
  const { store } = useSessions()
  const [chats, setChats] = useState<readonly ChatHead[]>([])
  const changes = useValue(store.changes)
  useEffect(() => void store.list(agency).then(setChats, () => {}), [store, agency, changes])
  return chats
}
