import type { EventBatch, LogEvent } from './run-log.ts'

/**
 * A wire format: the text of one event for one reader; empty for what the format does not show. Called for every event
 * of a stream in order.
 */
export type EncodeEvent = (event: LogEvent, seq: number) => string

/** A piece is complete when it has this many characters: some formats repeat the whole conversation with every item. */
const PIECE_CHARACTERS = 1_048_576

/**
 * The text of a stream: `first`, if there is any, and one piece for each batch that has text, or several where it has much. A
 * batch comes from the memory of this process, from another process or from storage.
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
  let batch: EventBatch | undefined
  return {
    next: async () => {
      if (begin !== '') {
        const value = begin
        begin = ''
        return { done: false, value }
      }
      for (;;) {
        const next = batch ? { done: false, value: batch } : await iterator.next()
        if (next.done) return { done: true, value: undefined }
        const { text, rest } = encodePiece(next.value, encode)
        batch = rest
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

function encodePiece(
  { first, events }: EventBatch,
  encode: EncodeEvent,
): { readonly text: string; readonly rest: EventBatch | undefined } {
  let text = ''
  let at = 0
  while (at < events.length && text.length < PIECE_CHARACTERS) text += encode(events[at]!, first + at++)
  return { text, rest: at < events.length ? { first: first + at, events: events.slice(at) } : undefined }
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
