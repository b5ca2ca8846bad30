import { useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import { isServerThere, useIsServerLost } from '../server/reachability.ts'
import { Icon } from '../ui/icons.tsx'

const ASK_AGAIN_MS = 2_000

/** Says that the server cannot be reached, as long as that is so, and then has everything read anew. */
export function LostServer() {
  const isLost = useIsServerLost()
  const queries = useQueryClient()
  useEffect(() => {
    if (!isLost) return
    const timer = setInterval(() => void isServerThere(), ASK_AGAIN_MS)
    return () => {
      clearInterval(timer)
      void queries.invalidateQueries()
    }
  }, [isLost, queries])
  if (!isLost) return null
  return (
    <div
      role="alert"
      className="flex shrink-0 flex-wrap items-center justify-center gap-x-2 border-b border-bad/40 bg-bad-soft px-3 py-1.5 text-[13px] text-bad"
    >
      <Icon name="alert" className="shrink-0" />
      <p>The server cannot be reached. It is asked again every two seconds; what you have written stays here.</p>
      <button type="button" className="font-medium underline underline-offset-2" onClick={() => void isServerThere()}>
        Try again now
      </button>
    </div>
  )
}
