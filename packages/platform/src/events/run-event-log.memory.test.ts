import { setImmediate } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { decodeChunk } from './event-chunk.ts'
import type { Frame } from './frame.ts'
import {
  body,
  describeRunEventLogs,
  framesOf,
  newRun,
  readAll,
  TERMINAL,
  TestChunks,
} from './run-event-log.contract.ts'
import { MemoryRunEventLogs } from './run-event-log.memory.ts'
import type { RunEventLog } from './run-event-log.ts'

describeRunEventLogs('memory', async () => {
  const logs = new MemoryRunEventLogs()
  return { logs, elsewhere: logs, close: () => logs.close() }
})

/** A log of which nothing that is stored stays in memory. */
function openLog(): { log: RunEventLog; chunks: TestChunks } {
  const chunks = new TestChunks()
  const snapshot = () => ({
    new_messages: [{ role: 'assistant' }],
    partial: { item_id: 'msg_2', text: 'so f\ud83dar' },
  })
  return { log: new MemoryRunEventLogs({ windowBytes: 0 }).create(newRun({ chunks, snapshot })), chunks }
}

/** All frames that durable storage and the last transaction have. */
async function durable(chunks: TestChunks, log: RunEventLog): Promise<Frame[]> {
  const { chunk } = await log.seal(TERMINAL)
  const rows = [...(await chunks.read(0)), ...(chunk ? [chunk] : [])]
  expect(new Set(rows.map(({ firstSeq }) => firstSeq)).size).toBe(rows.length)
  return (await Promise.all(rows.map(decodeChunk))).flat()
}

describe('MemoryRunEventLogs', () => {
  test('what has left memory is read from the chunks', async () => {
    const { log } = openLog()
    for (let round = 0; round < 4; round++) {
      for (let index = 0; index < 50; index++) log.append(body('x'.repeat(2000)))
      await log.store()
    }
    log.append(body('last'))
    const reading = readAll(log, 30)
    await log.seal(TERMINAL)
    log.release()
    expect(await reading).toHaveLength(173)
  })

  test('every frame is stored once, whichever attempts fail', async () => {
    const { log, chunks } = openLog()
    const faults = ['none', 'lost', 'lost', 'none', 'refused', 'none', 'lost'] as const
    for (const [index, fault] of faults.entries()) {
      log.append(body(String(index)))
      chunks.fault = fault
      await log.store().catch(() => {})
    }
    chunks.fault = 'none'
    log.append(body('rest'))
    const frames = await durable(chunks, log)
    expect(frames.map(({ seq }) => seq)).toEqual(frames.map((_, index) => index + 1))
    expect(frames).toHaveLength(faults.length + 1 + TERMINAL.length)
  })

  test('sealing waits for what is on its way to storage, and nothing is stored after it', async () => {
    const { log, chunks } = openLog()
    log.append(body('1'))
    const storing = log.store()
    log.append(body('2'))
    const sealing = durable(chunks, log)
    await Promise.all([storing, log.store()])
    expect((await sealing).map(({ seq }) => seq)).toEqual([1, 2, 3, 4])
    await log.store()
    expect(chunks.rows.size).toBe(1)
  })

  test('sealing fails while storage is away, and succeeds later', async () => {
    const { log, chunks } = openLog()
    log.append(body('1'))
    chunks.fault = 'refused'
    await log.store().catch(() => {})
    await expect(log.seal(TERMINAL)).rejects.toThrow('cannot be reached')
    chunks.fault = 'none'
    expect(await durable(chunks, log)).toHaveLength(3)
  })

  test('a reset stands for frames that nobody has any more', async () => {
    const { log, chunks } = openLog()
    for (let index = 0; index < 3; index++) log.append(body(String(index)))
    await log.store()
    chunks.rows.clear()
    const reading = framesOf(log, 1)
    await setImmediate()
    log.append(body('next'))
    await log.seal(TERMINAL)
    log.release()
    const frames = await reading
    expect(frames.map(({ seq }) => seq)).toEqual([3, 4, 5, 6])
    const data =
      '{"reason":"log_lost","new_messages":[{"role":"assistant"}],"partial":{"item_id":"msg_2","text":"so f\\ufffdar"}}'
    expect(frames[0]?.text).toBe(`id: 3\nevent: reset\ndata: ${data}\n\n`)
    const late = await framesOf(log, 1)
    expect(late.map(({ seq }) => seq)).toEqual([4, 5, 6])
  })

  test('a reader breaks off while storage is away, and the run goes on', async () => {
    const { log, chunks } = openLog()
    log.append(body('1'))
    await log.store()
    chunks.fault = 'refused'
    await expect(framesOf(log)).rejects.toMatchObject({ name: 'StreamBroken', reason: 'log_unreachable' })
    chunks.fault = 'none'
    const reading = readAll(log)
    await log.seal(TERMINAL)
    log.release()
    expect(await reading).toHaveLength(3)
  })

  test('memory holds no more than the window of what is stored', async () => {
    const logs = new MemoryRunEventLogs({ windowBytes: 10_500 })
    const chunks = new TestChunks()
    let reads = 0
    const counting = { append: chunks.append.bind(chunks), read: (after: number) => (reads++, chunks.read(after)) }
    const log = logs.create(newRun({ chunks: counting }))
    for (let index = 0; index < 30; index++) log.append(body('x'.repeat(1000)))
    await log.store()
    const stop = new AbortController()
    await log.read(20, stop.signal)[Symbol.asyncIterator]().next()
    expect(reads).toBe(0)
    await log.read(19, stop.signal)[Symbol.asyncIterator]().next()
    expect(reads).toBe(1)
  })

  test('a log is forgotten some time after its end', async () => {
    const logs = new MemoryRunEventLogs({ lingerMs: 0 })
    const run = newRun()
    const log = logs.create(run)
    await log.seal(TERMINAL)
    log.release()
    expect(await logs.find(run.runId)).toBe(log)
    while (await logs.find(run.runId)) await setImmediate()
  })
})
