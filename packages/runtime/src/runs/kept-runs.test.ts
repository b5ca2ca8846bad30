import { randomUUID } from 'node:crypto'
import type { RunEnded, RunEvent } from '@bureau/protocol'
import { describe, expect, onTestFinished, test } from 'vitest'
import { connectTestRedis, testRedisReachable } from '../../../../tests/support/test-redis.ts'
import { MemoryRunLogs } from '../run-log/run-log.memory.ts'
import { RedisRunLogs } from '../run-log/run-log.redis.ts'
import type { LogEvent, RunLogReader } from '../run-log/run-log.ts'
import { KeptRuns } from './kept-runs.ts'
import type { OwnedRun } from './run-registry.ts'

const NOBODY = { isElsewhere: async () => false }
const source = { agent: 'Solo', callerAgent: null, agent_run_id: 'agent_run_1' }
const words = (text: string): RunEvent => ({ type: 'custom', source, data: { text } })

const newRun = (): OwnedRun => ({ runId: randomUUID(), agency: 'solo', userId: null })

function ended({ runId }: OwnedRun): RunEnded {
  const nothing = { new_messages: [], usage: null, usage_by_model: [], output: null, error: null }
  return { type: 'run.ended', run_id: runId, status: 'completed', ...nothing }
}

function openKept(limits: { maxRuns?: number; maxBytes?: number } = {}) {
  const kept = new KeptRuns({
    logs: new MemoryRunLogs({ lingerMs: 60_000 }),
    registry: NOBODY,
    resumeMs: 60_000,
    ...limits,
  })
  const begin = (text = '') => {
    const run = newRun()
    const { sink, log, drop } = kept.begin(run, () => [])
    sink.emit(words(text))
    const end = async (output = ''): Promise<void> => {
      sink.emit({ ...ended(run), output })
      await eventsOf(log)
    }
    return { run, drop, end, sink }
  }
  const isKept = async (run: OwnedRun): Promise<boolean> => (await kept.find(run)) !== undefined
  return { kept, begin, isKept }
}

async function eventsOf(log: RunLogReader, after = 0): Promise<LogEvent[]> {
  const events: LogEvent[] = []
  for await (const batch of log.read(after, new AbortController().signal)) events.push(...batch.events)
  return events
}

describe('KeptRuns', () => {
  test('a failed run ends with its error, its end and nothing', async () => {
    const { kept, begin } = openKept()
    const { run, sink } = begin('half')
    const failure: RunEvent = { type: 'run.error', source, error: { code: 'run_timeout', message: 'Too long.' } }
    sink.emit(failure)
    sink.emit(ended(run))
    sink.emit(words('too late'))
    await kept.drain()

    const log = await kept.find(run)
    expect([log?.head, log?.ended]).toEqual([4, true])
    expect(await eventsOf(log!)).toEqual([words('half'), failure, ended(run), { type: 'log.ended' }])
  })

  test('when there are too many, those that ended first go first; running ones stay, and new ones are refused', async () => {
    const { begin, isKept } = openKept({ maxRuns: 3 })
    const [first, second, third] = [begin(), begin(), begin()]
    expect(() => begin()).toThrow(expect.objectContaining({ code: 'overloaded' }))
    await second.end()
    await first.end()

    const fourth = begin()
    expect(await Promise.all([first, second, third, fourth].map(({ run }) => isKept(run)))).toEqual([
      true,
      false,
      true,
      true,
    ])
    begin()
    expect(await isKept(first.run)).toBe(false)
    expect(() => begin()).toThrow('without on_disconnect')
  })

  test('the same when they take too much memory', async () => {
    const { begin, isKept } = openKept({ maxBytes: 10_000 })
    const first = begin('x'.repeat(4_000))
    await first.end()
    const second = begin('x'.repeat(4_000))
    const third = begin('x'.repeat(8_000))
    expect(await isKept(first.run)).toBe(true)
    expect(() => begin()).toThrow(expect.objectContaining({ code: 'overloaded' }))
    expect(await isKept(first.run)).toBe(false)

    await second.end()
    expect(await isKept(second.run)).toBe(false)
    expect(await isKept(begin().run)).toBe(true)
    expect(await isKept(third.run)).toBe(true)
  })

  test('what a run ended with counts, too', async () => {
    const { begin, isKept } = openKept({ maxBytes: 10_000 })
    const first = begin()
    await first.end('x'.repeat(9_000))
    expect(await isKept(first.run)).toBe(true)
    const second = begin()
    await second.end('x'.repeat(2_000))

    expect(await Promise.all([first, second].map(({ run }) => isKept(run)))).toEqual([false, true])
  })

  test('a run that could not be started takes no room', async () => {
    const { begin, isKept } = openKept({ maxRuns: 1 })
    const { run, drop } = begin()
    drop()
    expect(await isKept(run)).toBe(false)
    expect(await isKept(begin().run)).toBe(true)
  })
})

describe.runIf(await testRedisReachable())('KeptRuns on Redis', () => {
  async function openProcess(prefix: string, isElsewhere: () => Promise<boolean>): Promise<KeptRuns> {
    const logs = await RedisRunLogs.open(await connectTestRedis(), { prefix, lingerMs: 60_000, lookMs: 50 })
    onTestFinished(() => logs.close())
    return new KeptRuns({ logs, registry: { isElsewhere }, resumeMs: 60_000 })
  }

  test('a run whose process has died ends as failed, in the same way for everybody who reads it', async () => {
    const prefix = `test:${randomUUID()}:`
    let lives = true
    const [here, there] = [await openProcess(prefix, async () => false), await openProcess(prefix, async () => lives)]
    const run = newRun()
    here.begin(run, () => []).sink.emit(words('half'))
    const log = await there.find(run)
    const reading = eventsOf(log!)
    lives = false

    const error = { code: 'runner_lost', message: 'The server running this response stopped.' }
    const end = [
      { type: 'run.error', source: null, error },
      { ...ended(run), status: 'failed', error },
      { type: 'log.ended' },
    ]
    expect(await reading).toEqual([words('half'), ...end])
    expect(await eventsOf((await there.find(run))!, 1)).toEqual(end)
  })

  test('one whose process cannot be asked for goes on, and a log that is not there yet is waited for', async () => {
    const prefix = `test:${randomUUID()}:`
    const here = await openProcess(prefix, async () => false)
    const asked = Promise.withResolvers<void>()
    const there = await openProcess(prefix, async () => {
      asked.resolve()
      return true
    })
    const run = newRun()
    const finding = there.find(run)
    await asked.promise
    const { sink } = here.begin(run, () => [])
    sink.emit(words('late'))
    const reading = eventsOf((await finding)!)
    sink.emit(ended(run))
    expect(await reading).toEqual([words('late'), ended(run), { type: 'log.ended' }])
    expect(await here.find(newRun())).toBeUndefined()
  })

  test('503 when it cannot be known whether there is such a run', async () => {
    const kept = await openProcess(`test:${randomUUID()}:`, () => Promise.reject(new Error('Redis is away')))
    await expect(kept.find(newRun())).rejects.toMatchObject({ code: 'stream_unavailable' })
  })
})
