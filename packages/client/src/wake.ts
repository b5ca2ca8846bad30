/** As far as a page has them; in Node there is none of it. */
type Page = {
  readonly addEventListener?: Listen
  readonly document?: { readonly hidden: boolean; addEventListener: Listen }
}
type Listen = (type: string, listener: () => void, options: { signal: AbortSignal }) => void

/**
 * Calls `woken` when a connection may be there again or may have died unnoticed: the network is back, the page is looked
 * at again, or it comes from the back/forward cache. Returns what ends it.
 */
export function onWake(woken: () => void): () => void {
  const page = globalThis as Page
  const listening = new AbortController()
  page.addEventListener?.('online', woken, listening)
  page.addEventListener?.('pageshow', woken, listening)
  const seen = (): void => {
    if (!page.document?.hidden) woken()
  }
  page.document?.addEventListener('visibilitychange', seen, listening)
  return () => listening.abort()
}
