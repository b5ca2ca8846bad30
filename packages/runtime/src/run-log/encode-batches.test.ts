import { expect, test } from 'vitest'
import { encodeBatches } from './encode-batches.ts'
import type { EventBatch, LogEvent } from './run-log.ts'

const event: LogEvent = { type: 'log.ended' }

async function* batchesOf(...sizes: readonly number[]): AsyncGenerator<EventBatch, void> {
  let first = 1
  for (const size of sizes) {
    yield { first, events: Array.from({ length: size }, () => event) }
    first += size
  }
}

test('a batch is one piece, and several where its text is long, so that a reader takes one before the next is made', async () => {
  const made: number[] = []
  const pieces: string[] = []
  const madeBefore: number[] = []
  const stream = encodeBatches(batchesOf(3, 40), (_event, seq) => {
    made.push(seq)
    return seq <= 3 ? `${seq} ` : `${seq} `.padEnd(500_000)
  })

  for await (const piece of stream) {
    pieces.push(piece)
    madeBefore.push(made.length)
  }

  expect(pieces[0]).toBe('1 2 3 ')
  expect(madeBefore.slice(0, 3)).toEqual([3, 6, 9])
  expect(made).toEqual(Array.from({ length: 43 }, (_, at) => at + 1))
  expect(pieces.join('').split(/\s+/).filter(Boolean).map(Number)).toEqual(made)
})
