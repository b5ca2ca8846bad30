/**
 * Passes items on until the signal aborts, and then throws its reason at once.
 *
 * Unlike `pipeline` it does not wait for a source that is in the middle of producing its next item.
 */
export async function* abortable<T>(source: AsyncIterable<T>, signal: AbortSignal | undefined): AsyncGenerator<T> {
  signal?.throwIfAborted()
  const iterator = source[Symbol.asyncIterator]()
  const aborted = Promise.withResolvers<never>()
  const abort = (): void => aborted.reject(signal?.reason)
  aborted.promise.catch(() => {}) // An abort after the last item is nobody's business.
  signal?.addEventListener('abort', abort, { once: true })
  try {
    for (;;) {
      const next = await Promise.race([iterator.next(), aborted.promise])
      if (next.done === true) return
      yield next.value
    }
  } finally {
    signal?.removeEventListener('abort', abort)
    // Not awaited: a generator that is waiting for something answers only when it has it.
    iterator.return?.().catch(() => {})
  }
}
