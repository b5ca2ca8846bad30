import { ServiceError } from '@bureau/protocol'
import type { LogEvent } from '@bureau/runtime'
import type { ServerContext } from '@modelcontextprotocol/server'
import { stepOf } from '../steps.ts'

/** Clients show the latest step: of those that come within a pause, the last one is shown after it. */
const PAUSE_MS = 250

/**
 * Shows the client of a call what its run does, when it wants to know. The report throws ServiceError
 * `oauth_needs_streaming` when a user would have to sign in and the client would not show where.
 */
export function progressReport({ mcpReq }: ServerContext): (event: LogEvent) => void {
  const progressToken = mcpReq._meta?.progressToken
  if (progressToken === undefined) return requireNoSignIn
  let progress = 0
  let shownAt = -Infinity
  let held: NodeJS.Timeout | undefined
  const show = (message: string): void => {
    shownAt = performance.now()
    const params = { progressToken, progress, message }
    // A client that has left is noticed elsewhere.
    mcpReq.notify({ method: 'notifications/progress', params }).catch(() => {})
  }
  mcpReq.signal.addEventListener('abort', () => clearTimeout(held), { once: true })
  return (event) => {
    if (event.type === 'run.ended') return clearTimeout(held)
    const message = stepOf(event)
    if (message === undefined) return
    progress += 1
    clearTimeout(held)
    const waitMs = shownAt + PAUSE_MS - performance.now()
    if (waitMs <= 0 || event.type === 'oauth.redirect') return show(message)
    held = setTimeout(show, waitMs, message).unref()
  }
}

function requireNoSignIn(event: LogEvent): void {
  if (event.type !== 'oauth.redirect') return
  const message = `${event.server} wants its user to sign in, which takes a client that shows progress, or a streaming route.`
  throw new ServiceError('oauth_needs_streaming', { message })
}
