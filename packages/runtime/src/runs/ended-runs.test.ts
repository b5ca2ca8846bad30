import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { EndedRuns, type EndedRunsOptions, KEPT_MS } from './ended-runs.ts'
import { testRun } from './run-registry.contract.ts'

beforeEach(() => vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

async function endedRun(text = 'hello') {
  const run = testRun()
  run.end([text])
  return { run, ended: await run.ended }
}

function keeping(options: EndedRunsOptions = {}) {
  const forgotten: string[] = []
  return { kept: new EndedRuns({ onForgotten: (runId) => void forgotten.push(runId), ...options }), forgotten }
}

test('an end is kept for a minute', async () => {
  const { kept, forgotten } = keeping()
  const { run, ended } = await endedRun()
  kept.keep(run, ended)
  vi.advanceTimersByTime(KEPT_MS - 1)
  expect(kept.find(run)).toEqual(ended)

  vi.advanceTimersByTime(1)

  expect(kept.find(run)).toBeUndefined()
  expect(forgotten).toEqual([run.runId])
})

test('an end that is kept twice lasts as long as the first time', async () => {
  const { kept, forgotten } = keeping()
  const { run, ended } = await endedRun()
  kept.keep(run, ended)
  vi.advanceTimersByTime(KEPT_MS / 2)
  kept.keep(run, ended)

  vi.advanceTimersByTime(KEPT_MS / 2)

  expect([kept.has(run.runId), forgotten]).toEqual([false, [run.runId]])
})

test.each<[string, EndedRunsOptions]>([
  ['runs', { maxRuns: 2 }],
  ['bytes', { maxBytes: 3_000 }],
])('of too many %s the oldest are forgotten', async (_, options) => {
  const { kept, forgotten } = keeping(options)
  const runs = await Promise.all(['a', 'b', 'c'].map((letter) => endedRun(letter.repeat(1_000))))
  for (const { run, ended } of runs) kept.keep(run, ended)

  expect(runs.map(({ run }) => kept.has(run.runId))).toEqual([false, true, true])
  expect(forgotten).toEqual([runs[0]!.run.runId])
})

test('an end that is too large is forgotten at once, and no other for its sake', async () => {
  const { kept, forgotten } = keeping({ maxBytes: 1_000 })
  const small = await endedRun()
  const large = await endedRun('x'.repeat(1_000))
  kept.keep(small.run, small.ended)
  kept.keep(large.run, large.ended)

  expect(kept.find(small.run)).toEqual(small.ended)
  expect(forgotten).toEqual([large.run.runId])
})

test('a minute after the last end nothing is left', async () => {
  const { kept } = keeping({ maxRuns: 2 })
  for (const { run, ended } of await Promise.all([1, 2, 3].map(() => endedRun()))) kept.keep(run, ended)

  vi.advanceTimersByTime(KEPT_MS)

  expect([...kept.runs()]).toEqual([])
  expect(vi.getTimerCount()).toBe(0)
})
