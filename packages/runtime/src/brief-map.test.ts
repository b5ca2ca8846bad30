import { expect, test } from 'vitest'
import { BriefMap } from './brief-map.ts'

test('holds a value under each key until the key is deleted', () => {
  const map = new BriefMap<string, { readonly name: string }>()
  map.set('a', { name: 'first' })
  map.set('b', { name: 'second' })
  map.set('a', { name: 'third' })

  expect([map.size, map.get('a'), map.values()]).toEqual([
    2,
    { name: 'third' },
    [{ name: 'third' }, { name: 'second' }],
  ])

  map.delete('a')
  map.delete('unknown')

  expect([map.size, map.has('a'), map.get('a'), map.values()]).toEqual([1, false, undefined, [{ name: 'second' }]])
})

test('a key that was deleted can be set again, and clear takes everything', () => {
  const map = new BriefMap<number, object>()
  const value = {}
  map.set(1, {})
  map.delete(1)
  map.set(1, value)

  expect(map.get(1)).toBe(value)

  map.clear()

  expect([map.size, map.has(1), map.values()]).toEqual([0, false, []])
})
