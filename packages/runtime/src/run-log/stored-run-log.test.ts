import type { RunEvent } from '@bureau/protocol'
import { describe, expect, test } from 'vitest'
import { ENDING, event, eventsOf, newRun, TestChunks } from './run-log.contract.ts'
import { MemoryRunLogs } from './run-log.memory.ts'
import { StoredRunLog } from './stored-run-log.ts'

const LOST: RunEvent[] = [
  { type: 'run.error', source: null, error: { code: 'runner_lost', message: 'The server stopped.' } },
  ...ENDING,
]

/** Chunks of ten events each; with the last ones unless the process died before. */
async function stored(count: number, fate: 'ended' | 'died'): Promise<{ chunks: TestChunks; lastSeq: number }> {
  const chunks = new TestChunks()
  const log = new MemoryRunLogs().create(newRun({ chunks }))
  for (let index = 1; index <= count; index++) {
    log.append(event(String(index)))
    if (index % 10 === 0) await log.store()
  }
  if (fate === 'died') return { chunks, lastSeq: count + 1_000_002 }
  const { lastSeq, chunk } = await log.seal(ENDING)
  if (chunk) await chunks.append(chunk)
  return { chunks, lastSeq }
}

async function numbersOf(log: StoredRunLog, after: number): Promise<number[]> {
  return (await eventsOf(log, after)).map(({ seq }) => seq)
}

const upTo = (last: number, first = 1): number[] => Array.from({ length: last - first + 1 }, (_, i) => first + i)

describe('StoredRunLog', () => {
  test.each([0, 1, 9, 10, 11, 24, 25, 26])('a run that ended is replayed whole after %i', async (after) => {
    const log = new StoredRunLog({ ...(await stored(25, 'ended')), ending: ENDING })
    expect(log).toMatchObject({ head: 27, ended: true })
    expect(await numbersOf(log, after)).toEqual(upTo(27, after + 1))
    expect(await log.hasAllAfter(after)).toBe(true)
  })

  test('what recovery says follows far ahead of all that a client may have seen', async () => {
    const log = new StoredRunLog({ ...(await stored(20, 'died')), ending: LOST })
    const last = [1_000_020, 1_000_021, 1_000_022]
    expect(await numbersOf(log, 0)).toEqual([...upTo(20), ...last])
    expect(await numbersOf(log, 20)).toEqual(last)
    expect(await numbersOf(log, 27)).toEqual(last)
    expect(await numbersOf(log, 1_000_020)).toEqual(last.slice(1))
    expect(await numbersOf(log, 1_000_022)).toEqual([])
    expect(await log.hasAllAfter(0)).toBe(true)
  })

  test('of a log that is no longer kept, only the last events are left', async () => {
    const log = new StoredRunLog({ chunks: new TestChunks(), lastSeq: 27, ending: ENDING })
    expect(await numbersOf(log, 0)).toEqual([26, 27])
    expect(await log.hasAllAfter(0)).toBe(false)
    expect(await log.hasAllAfter(25)).toBe(true)
    expect(await log.hasAllAfter(27)).toBe(true)
  })

  test('nothing that was kept is shown behind a hole', async () => {
    const { chunks, lastSeq } = await stored(35, 'ended')
    chunks.rows.delete(11)
    const log = new StoredRunLog({ chunks, lastSeq, ending: ENDING })
    expect(await numbersOf(log, 0)).toEqual([...upTo(10), 36, 37])
    chunks.rows.delete(1)
    expect(await numbersOf(log, 0)).toEqual([36, 37])
    expect(await log.hasAllAfter(0)).toBe(false)
    expect(await log.hasAllAfter(20)).toBe(true)
  })

  test('breaks off when the records cannot be read', async () => {
    const chunks = { read: () => Promise.reject(new Error('the database cannot be reached')) }
    const log = new StoredRunLog({ chunks, lastSeq: 27, ending: ENDING })
    await expect(numbersOf(log, 0)).rejects.toMatchObject({ name: 'StreamBroken', reason: 'log_unreachable' })
  })

  test('stops when the reader is gone', async () => {
    const log = new StoredRunLog({ ...(await stored(25, 'ended')), ending: ENDING })
    const stop = new AbortController()
    const reading = log.read(0, stop.signal)
    await reading.next()
    stop.abort(new Error('gone'))
    await expect(reading.next()).rejects.toThrow('gone')
  })
})
