import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Lingering } from './lingering.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => void vi.useRealTimers())

test('everything stays for as long, and at most a second longer', () => {
  const gone: string[] = []
  const lingering = new Lingering(5_000)
  for (const name of ['first', 'second', 'third']) {
    lingering.add(() => gone.push(name))
    vi.advanceTimersByTime(2_000)
  }
  expect(gone).toEqual(['first'])
  vi.advanceTimersByTime(2_000)
  expect(gone).toEqual(['first', 'second'])
  vi.advanceTimersByTime(2_000)
  expect(gone).toEqual(['first', 'second', 'third'])
  expect(vi.getTimerCount()).toBe(0)

  lingering.add(() => gone.push('fourth'))
  vi.advanceTimersByTime(6_000)
  expect(gone).toContain('fourth')
})
