import type { RunSink } from '@bureau/framework'
import type { RunEvent } from '@bureau/protocol'
import type { EventBatch, LogEvent } from './run-log.ts'

/** A reader this many bytes behind stops the run from reading its model further. */
const MAX_UNREAD_BYTES = 1_048_576
/** What an event is taken for that is not a model's: they are few, and to measure them would cost more than it tells. */
const USUAL_BYTES = 512

/** For one reader. */
export interface EventBatches extends AsyncIterableIterator<EventBatch, void> {
  return(): Promise<IteratorReturnResult<void>>
}

/**
 * The log of a run that nobody can resume, for its one reader in this process.
 *
 * What was read is forgotten, so an open stream costs what its reader has not taken yet, at most about 1 MiB.
 */
export class UnkeptRunLog implements RunSink {
  #unread: LogEvent[] = []
  #readSeq = 0
  #unreadBytes = 0
  #takenBytes = 0
  #ended = false
  #abandoned = false
  #wake: (() => void) | undefined
  #drained: PromiseWithResolvers<void> | undefined

  emit(event: RunEvent): void {
    if (this.#abandoned) return
    this.#unread.push(event)
    this.#unreadBytes += event.type === 'model.event' ? event.json.length : USUAL_BYTES
    if (event.type === 'run.ended') {
      this.#unread.push({ type: 'log.ended' })
      this.#ended = true
    }
    this.#wakeReader()
  }

  ready(): Promise<void> | undefined {
    if (this.#unreadBytes <= MAX_UNREAD_BYTES) return undefined
    this.#drained ??= Promise.withResolvers<void>()
    return this.#drained.promise
  }

  /**
   * Yields the events in batches, each as large as what came since the last one, and returns after `log.ended`.
   * For one reader. When it stops early the run is no longer held back and its events are dropped.
   *
   * Not a generator: a waiting generator keeps what it has yielded last.
   */
  read(): EventBatches {
    return {
      next: () => this.#next(),
      return: async () => this.#abandon(),
      [Symbol.asyncIterator]() {
        return this
      },
    }
  }

  async #next(): Promise<IteratorResult<EventBatch, void>> {
    this.#release()
    if (this.#unread.length === 0 && !this.#ended && !this.#abandoned) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    return this.#unread.length === 0 ? this.#abandon() : { done: false, value: this.#take() }
  }

  /** Once for all that comes before the reader runs: to resolve a promise again takes longer than all else that an event costs. */
  #wakeReader(): void {
    const wake = this.#wake
    this.#wake = undefined
    wake?.()
  }

  #take(): EventBatch {
    const batch = { first: this.#readSeq + 1, events: this.#unread }
    this.#readSeq += this.#unread.length
    this.#unread = []
    this.#takenBytes = this.#unreadBytes
    return batch
  }

  /** What was taken counts as unread until the reader asks for more. */
  #release(): void {
    this.#unreadBytes -= this.#takenBytes
    this.#takenBytes = 0
    if (this.#unreadBytes > MAX_UNREAD_BYTES / 2) return
    this.#drained?.resolve()
    this.#drained = undefined
  }

  #abandon(): IteratorReturnResult<void> {
    this.#abandoned = true
    this.#unread = []
    this.#unreadBytes = this.#takenBytes = 0
    this.#drained?.resolve()
    return { done: true, value: undefined }
  }
}
