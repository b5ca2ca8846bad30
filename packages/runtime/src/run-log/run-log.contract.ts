import { randomUUID } from 'node:crypto'
import type { RunEnded, RunEvent } from '@bureau/protocol'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type {
  ChunkStorage,
  EventBatch,
  EventChunk,
  LogEvent,
  NewRunLog,
  RunLog,
  RunLogReader,
  RunLogs,
} from './run-log.ts'
import { StreamBroken } from './stream-broken.ts'

/** Chunks as a database keeps them: by their first number, each once. */
export class TestChunks implements ChunkStorage {
  readonly rows = new Map<number, EventChunk>()
  /** Fails like a database that cannot be reached; `lost`: after it has written. */
  fault: 'none' | 'refused' | 'lost' = 'none'

  async append(chunk: EventChunk): Promise<void> {
    if (this.fault === 'refused') throw new Error('the database cannot be reached')
    if (!this.rows.has(chunk.firstSeq)) this.rows.set(chunk.firstSeq, chunk)
    if (this.fault === 'lost') throw new Error('the answer was lost')
  }

  async read(after: number): Promise<EventChunk[]> {
    if (this.fault === 'refused') throw new Error('the database cannot be reached')
    return [...this.rows.values()].filter(({ lastSeq }) => lastSeq > after).toSorted((a, b) => a.firstSeq - b.firstSeq)
  }
}

const source = { agent: 'Solo', callerAgent: null, agent_run_id: 'agent_run_1' }

/** An event with this text in it. */
export const event = (text: string): RunEvent => ({ type: 'custom', source, data: { text } })

const NOTHING = { new_messages: [], usage: null, usage_by_model: [], output: null, error: null }
const COMPLETED: RunEnded = { type: 'run.ended', run_id: 'run_1', status: 'completed', ...NOTHING }
/** As `seal` is given it. */
export const ENDING = [COMPLETED]
/** As readers see it. */
export const LAST: readonly LogEvent[] = [COMPLETED, { type: 'log.ended' }]

export type Numbered = { readonly seq: number; readonly event: LogEvent }

export function newRun(changes: Partial<NewRunLog> = {}): NewRunLog {
  return { runId: `run_${randomUUID()}`, chunks: new TestChunks(), snapshot: () => ({ new_messages: [] }), ...changes }
}

async function allOf<T>(source: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = []
  for await (const item of source) items.push(item)
  return items
}

export function numbered(batches: readonly EventBatch[]): Numbered[] {
  return batches.flatMap(({ first, events }) => events.map((each, index) => ({ seq: first + index, event: each })))
}

/** The events that are left to read, however they are numbered. */
export async function eventsOf(log: RunLogReader, after = 0): Promise<Numbered[]> {
  return numbered(await allOf(log.read(after, new AbortController().signal)))
}

/** Everything after `after`; legal as every reader may expect it: numbers without a gap, each once. */
export async function readAll(log: RunLogReader, after = 0): Promise<Numbered[]> {
  const events = await eventsOf(log, after)
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => after + index + 1))
  return events
}

async function end(log: RunLog): Promise<void> {
  await log.seal(ENDING)
  log.release()
}

/**
 * What every implementation of `RunLogs` promises.
 *
 * @param open - `elsewhere`: the logs as another process sees them; the same where there is only one.
 */
export function describeRunLogs(title: string, open: () => Promise<{ logs: RunLogs; elsewhere: RunLogs }>): void {
  describe(`RunLogs: ${title}`, () => {
    let logs: RunLogs
    let elsewhere: RunLogs
    beforeEach(async () => ({ logs, elsewhere } = await open()))
    afterEach(async () => void (await Promise.all([logs.close(), elsewhere.close()])))

    /** The log, known elsewhere: asked for until it has something to show. */
    async function found(runId: string): Promise<RunLogReader> {
      for (;;) {
        const reader = await elsewhere.find(runId)
        if (reader) return reader
      }
    }

    test('numbers events from 1 without a gap, and readers get them in order to the end', async () => {
      const run = newRun()
      const log = logs.create(run)
      const events = Array.from({ length: 500 }, (_, index) => event(String(index)))
      for (const each of events.slice(0, 300)) log.append(each)
      const reading = readAll(await found(run.runId))
      for (const each of events.slice(300)) log.append(each)
      await end(log)
      expect((await reading).map((each) => each.event)).toEqual([...events, ...LAST])
      expect(log).toMatchObject({ ended: true, head: 502 })
    })

    test('resumes after any number, while the run goes on and after its end', async () => {
      const run = newRun()
      const log = logs.create(run)
      for (let index = 1; index <= 20; index++) log.append(event(`${index}`))
      const reader = await found(run.runId)
      const early = [0, 1, 7, 19, 20, 21].map((after) => readAll(reader, after))
      log.append(event('21'))
      await end(log)
      const all = await readAll(await found(run.runId))
      for (const [index, after] of [0, 1, 7, 19, 20, 21].entries()) {
        expect(await early[index]).toEqual(all.slice(after))
        expect(await readAll(await found(run.runId), after)).toEqual(all.slice(after))
      }
      expect(await readAll(log, 23)).toEqual([])
      expect(await readAll(log, 99)).toEqual([])
    })

    test('shows the last events only when told that the run has ended for good', async () => {
      const run = newRun()
      const log = logs.create(run)
      log.append(event('a'))
      const reader = await found(run.runId)
      const stop = new AbortController()
      const seen: number[] = []
      const reading = (async () => {
        for await (const batch of reader.read(0, stop.signal)) seen.push(...numbered([batch]).map(({ seq }) => seq))
      })()
      expect(await log.seal(ENDING)).toMatchObject({ lastSeq: 3 })
      log.append(event('too late'))
      expect(log).toMatchObject({ head: 1, ended: false })
      expect(await log.seal([event('error'), ...ENDING])).toMatchObject({ lastSeq: 4 })
      log.release()
      await reading
      expect(seen).toEqual([1, 2, 3, 4])
    })

    test('a reader stops at once when its signal aborts, with the reason', async () => {
      const run = newRun()
      const log = logs.create(run)
      log.append(event('a'))
      const stop = new AbortController()
      const iterator = (await found(run.runId)).read(0, stop.signal)[Symbol.asyncIterator]()
      expect(((await iterator.next()).value as EventBatch).events).toHaveLength(1)
      const next = iterator.next()
      stop.abort(new Error('gone'))
      await expect(next).rejects.toThrow('gone')
    })

    test('many readers at their own pace get the same, and one that stands still holds back nobody', async () => {
      const run = newRun()
      const log = logs.create(run)
      log.append(event('first'))
      const reader = await found(run.runId)
      const still = reader.read(0, new AbortController().signal)[Symbol.asyncIterator]()
      await still.next()
      const readers = Array.from({ length: 30 }, () => readAll(reader))
      for (let index = 0; index < 1000; index++) log.append(event('x'.repeat(1000)))
      await end(log)
      for (const reading of readers) expect(await reading).toHaveLength(1003)
      // Its next piece is small: what it has not read waits in the log, not with the reader.
      const { value } = (await still.next()) as { value: EventBatch }
      expect(value.events.length).toBeLessThan(200)
    })

    test('an abandoned log breaks off its readers without an end', async () => {
      const run = newRun()
      const log = logs.create(run)
      log.append(event('a'))
      const reading = eventsOf(log)
      log.abandon(new StreamBroken('run_taken_away'))
      await expect(reading).rejects.toMatchObject({ name: 'StreamBroken', reason: 'run_taken_away' })
      log.append(event('ignored'))
      await log.seal(ENDING)
      log.release()
      expect(log).toMatchObject({ head: 1, ended: false })
    })

    test('knows nothing of a run without a log, and gives no run two', async () => {
      expect(await elsewhere.find('run_unknown')).toBeUndefined()
      const run = newRun()
      logs.create(run)
      expect(() => logs.create(run)).toThrow(run.runId)
    })

    test('closing breaks off what has not ended', async () => {
      const log = logs.create(newRun())
      const reading = eventsOf(log)
      await logs.close()
      await expect(reading).rejects.toMatchObject({ reason: 'server_shutdown' })
    })
  })
}
