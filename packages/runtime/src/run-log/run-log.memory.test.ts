import { setImmediate } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { decodeChunk } from './event-text.ts'
import {
  describeRunLogs,
  ENDING,
  event,
  eventsOf,
  LAST,
  newRun,
  type Numbered,
  numbered,
  readAll,
  TestChunks,
} from './run-log.contract.ts'
import { MemoryRunLogs } from './run-log.memory.ts'
import type { RunLog } from './run-log.ts'

describeRunLogs('memory', async () => {
  const logs = new MemoryRunLogs()
  return { logs, elsewhere: logs }
})

/** A log of which nothing that is stored stays in memory. */
function openLog(): { log: RunLog; chunks: TestChunks } {
  const chunks = new TestChunks()
  const snapshot = () => ({
    new_messages: [{ role: 'assistant' }],
    partial: { item_id: 'msg_2', text: 'so far' },
  })
  return { log: new MemoryRunLogs({ windowBytes: 0 }).create(newRun({ chunks, snapshot })), chunks }
}

/** All events that durable storage and the last transaction have. */
async function durable(chunks: TestChunks, log: RunLog): Promise<Numbered[]> {
  const { chunk } = await log.seal(ENDING)
  const rows = [...(await chunks.read(0)), ...(chunk ? [chunk] : [])]
  expect(new Set(rows.map(({ firstSeq }) => firstSeq)).size).toBe(rows.length)
  return numbered(await Promise.all(rows.map(decodeChunk)))
}

describe('MemoryRunLogs', () => {
  test('without storage what leaves the window is lost: a reset stands for it, and the rest follows', async () => {
    const snapshot = () => ({ new_messages: [], partial: { item_id: 'msg_1', text: 'so far' } })
    const { chunks: _, ...run } = newRun({ snapshot })
    const log = new MemoryRunLogs({ windowBytes: 1_000 }).create(run)
    for (let index = 0; index < 10; index++) log.append(event('x'.repeat(300)))
    await log.store()
    const { lastSeq, chunk } = await log.seal(ENDING)
    log.release()
    expect([lastSeq, chunk]).toEqual([12, null])
    expect(await eventsOf(log, 9)).toEqual([
      { seq: 10, event: event('x'.repeat(300)) },
      ...LAST.map((last, index) => ({ seq: 11 + index, event: last })),
    ])
    expect((await eventsOf(log)).map(({ seq, event: { type } }) => [seq, type])).toEqual([
      [10, 'log.reset'],
      [11, 'run.ended'],
      [12, 'log.ended'],
    ])
  })

  test('a reader that waits is woken once for what is appended at once', async () => {
    const log = new MemoryRunLogs().create(newRun())
    log.append(event('0'))
    const batches = log.read(0, new AbortController().signal)[Symbol.asyncIterator]()
    await batches.next()

    const next = batches.next()
    for (const each of ['1', '2', '3']) log.append(event(each))

    expect((await next).value).toEqual({ first: 2, events: ['1', '2', '3'].map(event) })
  })

  test('what has left memory is read from the chunks', async () => {
    const { log } = openLog()
    for (let round = 0; round < 4; round++) {
      for (let index = 0; index < 50; index++) log.append(event('x'.repeat(2000)))
      await log.store()
    }
    log.append(event('last'))
    const reading = readAll(log, 30)
    await log.seal(ENDING)
    log.release()
    expect(await reading).toHaveLength(173)
  })

  test('every event is stored once, whichever attempts fail', async () => {
    const { log, chunks } = openLog()
    const faults = ['none', 'lost', 'lost', 'none', 'refused', 'none', 'lost'] as const
    for (const [index, fault] of faults.entries()) {
      log.append(event(String(index)))
      chunks.fault = fault
      await log.store().catch(() => {})
    }
    chunks.fault = 'none'
    log.append(event('rest'))
    const events = await durable(chunks, log)
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1))
    expect(events).toHaveLength(faults.length + 1 + LAST.length)
  })

  test('sealing waits for what is on its way to storage, and nothing is stored after it', async () => {
    const { log, chunks } = openLog()
    log.append(event('1'))
    const storing = log.store()
    log.append(event('2'))
    const sealing = durable(chunks, log)
    await Promise.all([storing, log.store()])
    expect((await sealing).map(({ seq }) => seq)).toEqual([1, 2, 3, 4])
    await log.store()
    expect(chunks.rows.size).toBe(1)
  })

  test('sealing fails while storage is away, and succeeds later', async () => {
    const { log, chunks } = openLog()
    log.append(event('1'))
    chunks.fault = 'refused'
    await log.store().catch(() => {})
    await expect(log.seal(ENDING)).rejects.toThrow('cannot be reached')
    chunks.fault = 'none'
    expect(await durable(chunks, log)).toHaveLength(3)
  })

  test('a reset stands for events that nobody has any more', async () => {
    const { log, chunks } = openLog()
    for (let index = 0; index < 3; index++) log.append(event(String(index)))
    await log.store()
    chunks.rows.clear()
    const reading = eventsOf(log, 1)
    await setImmediate()
    log.append(event('next'))
    await log.seal(ENDING)
    log.release()
    const events = await reading
    expect(events.map(({ seq }) => seq)).toEqual([3, 4, 5, 6])
    expect(events[0]?.event).toEqual({
      type: 'log.reset',
      reason: 'log_lost',
      new_messages: [{ role: 'assistant' }],
      partial: { item_id: 'msg_2', text: 'so far' },
    })
    const late = await eventsOf(log, 1)
    expect(late.map(({ seq }) => seq)).toEqual([4, 5, 6])
  })

  test('a reader breaks off while storage is away, and the run goes on', async () => {
    const { log, chunks } = openLog()
    log.append(event('1'))
    await log.store()
    chunks.fault = 'refused'
    await expect(eventsOf(log)).rejects.toMatchObject({ name: 'StreamBroken', reason: 'log_unreachable' })
    chunks.fault = 'none'
    const reading = readAll(log)
    await log.seal(ENDING)
    log.release()
    expect(await reading).toHaveLength(3)
  })

  test('memory holds no more than the window of what is stored', async () => {
    const logs = new MemoryRunLogs({ windowBytes: 11_500 })
    const chunks = new TestChunks()
    let reads = 0
    const counting = { append: chunks.append.bind(chunks), read: (after: number) => (reads++, chunks.read(after)) }
    const log = logs.create(newRun({ chunks: counting }))
    for (let index = 0; index < 30; index++) log.append(event('x'.repeat(1000)))
    await log.store()
    const stop = new AbortController()
    await log.read(20, stop.signal)[Symbol.asyncIterator]().next()
    expect(reads).toBe(0)
    await log.read(19, stop.signal)[Symbol.asyncIterator]().next()
    expect(reads).toBe(1)
  })

  test('a log is forgotten some time after its end', async () => {
    const logs = new MemoryRunLogs({ lingerMs: 0 })
    const run = newRun()
    const log = logs.create(run)
    await log.seal(ENDING)
    log.release()
    expect(await logs.find(run.runId)).toBe(log)
    while (await logs.find(run.runId)) await setImmediate()
  })
})
