import type { Part, Run } from '@bureau/client'
import { useEffect, useState } from 'react'
import { failureOf } from '../chats/chat.ts'
import { platformClient } from '../chats/sessions.ts'

const COMMIT_MS = 100

type Followed = { readonly parts: readonly Part[]; readonly failure: string | null }

/**
 * What a run of the platform shows, replayed from its events; it goes on as long as the run does, or until it waits.
 *
 * @param pause - Changes when a run that has waited goes on, or waits for less: then it is followed again.
 */
export function useFollowedParts(integration: string, run: string, pause: string): Followed {
  const [followed, setFollowed] = useState<Followed>({ parts: [], failure: null })
  useEffect(() => {
    let attached: Run | null = null
    let left = false
    const timer = setInterval(() => attached && setFollowed({ parts: attached.parts, failure: null }), COMMIT_MS)
    const follow = async (): Promise<void> => {
      attached = await platformClient(integration).attach({ run })
      if (left) return attached?.detach()
      if (!attached) return setFollowed({ parts: [], failure: 'The events of this run are not kept any more.' })
      const { result } = attached
      await result.catch(() => {}) // How the run ended is known from its record.
      setFollowed({ parts: attached.parts, failure: null })
    }
    const fail = (error: unknown): void => {
      if (!left) setFollowed({ parts: [], failure: failureOf(error).message })
    }
    void follow()
      .catch(fail)
      .finally(() => clearInterval(timer))
    return () => {
      left = true
      clearInterval(timer)
      attached?.detach()
    }
  }, [integration, run, pause])
  return followed
}
