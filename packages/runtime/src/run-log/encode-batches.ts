import type { EventBatch, LogEvent } from './run-log.ts'

/**
 * A wire format: the text of one event for one reader; empty for what the format does not show. Called for every event
 * of a stream in order.
 */
export type EncodeEvent = (event: LogEvent, seq: number) => string

/**
 * The text of a stream: `first`, if there is any, and one piece for each batch that has text. A batch comes from
 * the memory of this process, from another process or from storage.
 *
 * Not a generator: a waiting generator keeps what it has yielded last.
 */
export function encodeBatches(
  batches: AsyncIterable<EventBatch>,
  encode: EncodeEvent,
  first = '',
): AsyncIterableIterator<string, void> {
  const iterator = batches[Symbol.asyncIterator]()
  let begin = first
  return {
    next: async () => {
      if (begin !== '') {
        const value = begin
        begin = ''
        return { done: false, value }
      }
      for (;;) {
        const { done, value } = await iterator.next()
        if (done) return { done, value: undefined }
        const text = encodeBatch(value, encode)
        if (text !== '') return { done: false, value: text }
      }
    },
    return: async () => {
      await iterator.return?.()
      return { done: true, value: undefined }
    },
    [Symbol.asyncIterator]() {
      return this
    },
  }
}

function encodeBatch({ first, events }: EventBatch, encode: EncodeEvent): string {
  let text = ''
  let seq = first
  for (const event of events) text += encode(event, seq++)
  return text
}

/** The pieces of a stream, and in place of what it fails with the words for that, if there are any. */
export function endingWith(
  chunks: AsyncIterableIterator<string, void>,
  wordsFor: (error: unknown) => string | undefined,
): AsyncIterableIterator<string, void> {
  let isOver = false
  const ending: AsyncIterableIterator<string, void> = {
    next: async () => {
      if (isOver) return { done: true, value: undefined }
      try {
        return await chunks.next()
      } catch (error) {
        const value = wordsFor(error)
        if (value === undefined) throw error
        isOver = true
        return { done: false, value }
      }
    },
    return: async () => chunks.return!(),
    [Symbol.asyncIterator]: () => ending,
  }
  return ending
}
