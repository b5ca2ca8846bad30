import { useEffect, useState } from 'react'
import type { ChatHead } from './chat-store.ts'
import { useSessions } from './sessions.ts'

/** The chats of an agency, or of all, in this browser; latest first. */
export function useChats(agency?: string): readonly ChatHead[] {
  const { store } = useSessions()
  const [chats, setChats] = useState<readonly ChatHead[]>([])
  useEffect(() => {
    const read = (): void => void store.list(agency).then(setChats, () => {})
    read()
    return store.subscribe(read)
  }, [store, agency])
  return chats
}
