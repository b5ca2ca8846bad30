import { describe, expect, test } from 'vitest'
import { newId } from './ids.ts'

describe('newId', () => {
  test('is the prefix and 26 lower-case Crockford characters', () => {
    expect(newId('run')).toMatch(/^run_[0-7][0-9a-hjkmnp-tv-z]{25}$/)
  })

  test('sorts by time of creation', () => {
    const times = [1, 1_700_000_000_000, 1_795_213_262_000, 2 ** 47]
    const ids = times.map((time) => newId('chat', time))
    expect(ids.toSorted()).toEqual(ids)
  })

  test('carries version 7 and variant 2 of RFC 9562', () => {
    let bits = 0n
    for (const char of newId('own').slice(4))
      bits = (bits << 5n) | BigInt('0123456789abcdefghjkmnpqrstvwxyz'.indexOf(char))
    expect((bits >> 76n) & 15n).toBe(7n)
    expect((bits >> 62n) & 3n).toBe(2n)
  })

  test('never repeats', () => {
    expect(new Set(Array.from({ length: 20_000 }, () => newId('evt', 5))).size).toBe(20_000)
  })
})
