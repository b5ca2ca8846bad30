/** `minor` is what V8 does all the time, with what was made lately; `major` is done now and then, with everything. */
const KINDS: Readonly<Record<string, 'major' | 'minor'>> = {
  'collect garbage': 'major',
  'collect young garbage': 'minor',
}

/**
 * Ties a measured process to the benchmark that started it: on request it collects garbage and says what is left of its
 * heap, so that memory is read at the same point everywhere, and it ends when the benchmark is gone. Does nothing in a
 * process that was started by hand.
 */
export function followParent(): void {
  if (!process.send) return
  process.on('message', (message) => {
    const type = KINDS[String(message)]
    if (type === undefined) return
    globalThis.gc?.({ type, execution: 'sync' })
    globalThis.gc?.({ type, execution: 'sync' })
    process.send?.(process.memoryUsage().heapUsed)
  })
  process.once('disconnect', () => process.exit(0))
}
