/** As far as a page has them; in Node there is none of it. */
type Page = {
  readonly addEventListener?: Listen
  readonly removeEventListener?: Listen
  readonly document?: { readonly visibilityState: string; addEventListener: Listen; removeEventListener: Listen }
}
type Listen = (type: string, listener: () => void) => void

/**
 * Calls `woken` when a connection may be there again or may have died unnoticed: the network is back, the page is looked
 * at again, or it comes from the back/forward cache. Returns what ends it.
 */
export function onWake(woken: () => void): () => void {
  const page = globalThis as Page
  const seen = (): void => {
    if (page.document?.visibilityState === 'visible') woken()
  }
  page.addEventListener?.('online', woken)
  page.addEventListener?.('pageshow', woken)
  page.document?.addEventListener('visibilitychange', seen)
  return () => {
    page.removeEventListener?.('online', woken)
    page.removeEventListener?.('pageshow', woken)
    page.document?.removeEventListener('visibilitychange', seen)
  }
}
