/**
 * Ties a measured process to the benchmark that started it: it collects garbage on request, so that memory is read at
 * the same point everywhere, and ends when the benchmark is gone. Does nothing in a process that was started by hand.
 */
export function followParent(): void {
  if (!process.send) return
  process.on('message', (message) => {
    if (message !== 'collect garbage') return
    globalThis.gc?.()
    globalThis.gc?.()
    process.send?.('collected')
  })
  process.once('disconnect', () => process.exit(0))
}
