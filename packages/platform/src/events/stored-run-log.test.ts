import { describe, expect, test } from 'vitest'
import { type RunOutcome, terminalFrames } from '../completions/encode-completion.ts'
import { body, framesOf, newRun, TestChunks } from './run-event-log.contract.ts'
import { MemoryRunEventLogs } from './run-event-log.memory.ts'
import { StoredRunLog } from './stored-run-log.ts'

const COMPLETED: RunOutcome = {
  runId: 'run_1',
  chatId: 'chat_1',
  status: 'completed',
  newMessages: [],
  usage: null,
  error: null,
}
const LOST: RunOutcome = {
  ...COMPLETED,
  status: 'failed',
  error: { code: 'runner_lost', message: 'The server stopped.', class: 'system', retryable: true },
}

/** Chunks of ten frames each; with the terminal ones unless the process died before. */
async function stored(frames: number, fate: 'ended' | 'died'): Promise<{ chunks: TestChunks; lastSeq: number }> {
  const chunks = new TestChunks()
  const log = new MemoryRunEventLogs().create(newRun({ chunks }))
  for (let index = 1; index <= frames; index++) {
    log.append(body(String(index)))
    if (index % 10 === 0) await log.store()
  }
  if (fate === 'died') return { chunks, lastSeq: frames + 1_000_002 }
  const { lastSeq, chunk } = await log.seal(terminalFrames(COMPLETED))
  if (chunk) await chunks.append(chunk)
  return { chunks, lastSeq }
}

async function numbersOf(log: StoredRunLog, after: number): Promise<number[]> {
  return (await framesOf(log, after)).map(({ seq }) => seq)
}

const upTo = (last: number, first = 1): number[] => Array.from({ length: last - first + 1 }, (_, i) => first + i)

describe('StoredRunLog', () => {
  test.each([0, 1, 9, 10, 11, 24, 25, 26])('a run that ended is replayed whole after %i', async (after) => {
    const log = new StoredRunLog({ ...(await stored(25, 'ended')), outcome: COMPLETED })
    expect(log).toMatchObject({ head: 27, ended: true })
    expect(await numbersOf(log, after)).toEqual(upTo(27, after + 1))
    expect(await log.hasAllAfter(after)).toBe(true)
  })

  test('what recovery says follows far ahead of all that a client may have seen', async () => {
    const log = new StoredRunLog({ ...(await stored(20, 'died')), outcome: LOST })
    const last = [1_000_020, 1_000_021, 1_000_022]
    expect(await numbersOf(log, 0)).toEqual([...upTo(20), ...last])
    expect(await numbersOf(log, 20)).toEqual(last)
    expect(await numbersOf(log, 27)).toEqual(last)
    expect(await numbersOf(log, 1_000_020)).toEqual(last.slice(1))
    expect(await numbersOf(log, 1_000_022)).toEqual([])
    expect(await log.hasAllAfter(0)).toBe(true)
  })

  test('of a log that is no longer kept, only the terminal frames are left', async () => {
    const log = new StoredRunLog({ chunks: new TestChunks(), lastSeq: 27, outcome: COMPLETED })
    expect(await numbersOf(log, 0)).toEqual([26, 27])
    expect(await log.hasAllAfter(0)).toBe(false)
    expect(await log.hasAllAfter(25)).toBe(true)
    expect(await log.hasAllAfter(27)).toBe(true)
  })

  test('nothing that was kept is shown behind a hole', async () => {
    const { chunks, lastSeq } = await stored(35, 'ended')
    chunks.rows.delete(11)
    const log = new StoredRunLog({ chunks, lastSeq, outcome: COMPLETED })
    expect(await numbersOf(log, 0)).toEqual([...upTo(10), 36, 37])
    chunks.rows.delete(1)
    expect(await numbersOf(log, 0)).toEqual([36, 37])
    expect(await log.hasAllAfter(0)).toBe(false)
    expect(await log.hasAllAfter(20)).toBe(true)
  })

  test('breaks off when the records cannot be read', async () => {
    const chunks = { read: () => Promise.reject(new Error('the database cannot be reached')) }
    const log = new StoredRunLog({ chunks, lastSeq: 27, outcome: COMPLETED })
    await expect(numbersOf(log, 0)).rejects.toMatchObject({ name: 'StreamBroken', reason: 'log_unreachable' })
  })

  test('stops when the reader is gone', async () => {
    const log = new StoredRunLog({ ...(await stored(25, 'ended')), outcome: COMPLETED })
    const stop = new AbortController()
    const reading = log.read(0, stop.signal)
    await reading.next()
    stop.abort(new Error('gone'))
    await expect(reading.next()).rejects.toThrow('gone')
  })
})
