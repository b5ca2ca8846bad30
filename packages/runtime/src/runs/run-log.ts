import type { RunSink } from '@bureau/framework'
import type { RunEvent } from '@bureau/protocol'

/** A reader this many bytes behind stops the run from reading its model further. */
const MAX_UNREAD_BYTES = 1_048_576

/**
 * The events of one run on their way to its reader, in this process.
 *
 * What has been read is let go, so an open stream costs what its reader has not taken yet, at most about 1 MiB.
 */
export class RunLog implements RunSink {
  #unread: RunEvent[] = []
  #unreadBytes = 0
  #ended = false
  #abandoned = false
  #wake: (() => void) | undefined
  #drained: PromiseWithResolvers<void> | undefined

  emit(event: RunEvent): void {
    if (this.#abandoned) return
    this.#unread.push(event)
    this.#unreadBytes += event.type === 'model.event' ? event.json.length : 512
    if (event.type === 'run.ended') this.#ended = true
    this.#wake?.()
  }

  ready(): Promise<void> | undefined {
    if (this.#unreadBytes <= MAX_UNREAD_BYTES) return undefined
    this.#drained ??= Promise.withResolvers<void>()
    return this.#drained.promise
  }

  /**
   * Yields the events in batches, each as large as what came since the last one, and returns after `run.ended`.
   * For one reader. When it stops early the run is no longer held back and its events are dropped.
   */
  async *read(): AsyncGenerator<readonly RunEvent[], void> {
    try {
      for (;;) {
        if (this.#unread.length === 0 && this.#ended) return
        if (this.#unread.length === 0) await this.#nextEvent()
        const batch = this.#unread
        this.#unread = []
        yield batch
        this.#release(batch)
      }
    } finally {
      this.#abandoned = true
      this.#unread = []
      this.#unreadBytes = 0
      this.#drained?.resolve()
    }
  }

  async #nextEvent(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#wake = resolve
    await promise
    this.#wake = undefined
  }

  #release(batch: readonly RunEvent[]): void {
    for (const event of batch) this.#unreadBytes -= event.type === 'model.event' ? event.json.length : 512
    if (this.#unreadBytes > MAX_UNREAD_BYTES / 2) return
    this.#drained?.resolve()
    this.#drained = undefined
  }
}
