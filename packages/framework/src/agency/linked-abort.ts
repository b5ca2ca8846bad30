/**
 * Aborts with `parent`, or alone. It lives as long as its parent, which is a run's or a request's. Unlike the result of
 * `AbortSignal.any` it goes with it: that one, and all that listens to it, is kept by V8 until a full collection.
 */
export function linkedAbort(parent: AbortSignal | undefined): AbortController {
  const controller = new AbortController()
  const abort = (): void => controller.abort(parent?.reason)
  if (parent?.aborted) abort()
  else parent?.addEventListener('abort', abort, { once: true })
  return controller
}
