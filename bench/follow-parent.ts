/**
 * Ties a measured process to the benchmark that started it: on request it collects garbage and says what is left of its
 * heap, so that memory is read at the same point everywhere, and it ends when the benchmark is gone. Does nothing in a
 * process that was started by hand.
 */
export function followParent(): void {
  if (!process.send) return
  process.on('message', (message) => {
    if (message !== 'collect garbage') return
    globalThis.gc?.()
    globalThis.gc?.()
    process.send?.(process.memoryUsage().heapUsed)
  })
  process.once('disconnect', () => process.exit(0))
}
