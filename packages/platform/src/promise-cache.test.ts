import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { PromiseCache } from './promise-cache.ts'

/** Loads the names of keys, and counts how often. */
function counted() {
  const loads: string[] = []
  const load = (key: string) => async (): Promise<string> => {
    loads.push(key)
    return `${key} ${loads.length}`
  }
  return { loads, load }
}

test('of many who ask for the same thing at once, one loads it', async () => {
  const { loads, load } = counted()
  const cache = new PromiseCache<string>({ size: 10 })

  expect(await Promise.all([cache.of('a', load('a')), cache.of('a', load('a'))])).toEqual(['a 1', 'a 1'])
  expect(loads).toEqual(['a'])
})

test('an entry is loaded anew when its time is over', async () => {
  const { load } = counted()
  let now = 0
  const cache = new PromiseCache<string>({ size: 10, keepMs: 5_000, now: () => now })
  await cache.of('a', load('a'))
  now = 4_999

  expect(await cache.of('a', load('a'))).toBe('a 1')

  now = 5_000

  expect(await cache.of('a', load('a'))).toBe('a 2')
})

test('an entry counts no longer when the clock of the machine is set back', async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => void vi.useRealTimers())
  const { load } = counted()
  const cache = new PromiseCache<string>({ size: 10, keepMs: 1 })
  await cache.of('a', load('a'))
  vi.setSystemTime(Date.now() - 3_600_000)
  await sleep(5)

  expect(await cache.of('a', load('a'))).toBe('a 2')
})

test('the oldest entry makes room for one too many', async () => {
  const { loads, load } = counted()
  const cache = new PromiseCache<string>({ size: 2 })
  for (const key of ['a', 'b', 'c', 'b', 'a']) await cache.of(key, load(key))

  expect(loads).toEqual(['a', 'b', 'c', 'a'])
})

test('a failure is not remembered, and takes no newer entry away', async () => {
  let now = 0
  const cache = new PromiseCache<string>({ size: 10, keepMs: 1_000, now: () => now })
  const { promise: slow, reject: fail } = Promise.withResolvers<string>()
  const failing = cache.of('a', () => slow)
  now = 1_000
  await cache.of('a', async () => 'loaded')
  fail(new Error('unreachable'))

  await expect(failing).rejects.toThrow('unreachable')
  expect(await cache.of('a', async () => 'loaded again')).toBe('loaded')

  await expect(cache.of('b', () => Promise.reject(new Error('unreachable')))).rejects.toThrow('unreachable')
  expect(await cache.of('b', async () => 'there')).toBe('there')
})

test('forgets what was found wrong, and no other entry', async () => {
  const { loads, load } = counted()
  const cache = new PromiseCache<string>({ size: 10 })
  await cache.of('a', load('a'))
  await cache.of('b', load('b'))
  await cache.forget((value) => value === 'a 1')
  await cache.of('a', load('a'))
  await cache.of('b', load('b'))

  expect(loads).toEqual(['a', 'b', 'a'])
})
