import { describe, expect, test } from 'vitest'
import { hasEverything, readResumePoint } from './resume-point.ts'

describe('readResumePoint', () => {
  test.each([
    [undefined, undefined, undefined],
    ['41', undefined, 41],
    [undefined, '0', 0],
    ['41', '7', 7],
    ['nonsense', '7', 7],
    ['1000045', undefined, 1_000_045],
  ])('header %s, query %s: %s', (header, query, seq) => expect(readResumePoint({ header, query })).toBe(seq))

  test.each(['', '-1', '1.5', '1e3', ' 1', '0x1', 'abc', '99999999999999999'])('%j is refused', (text) => {
    const refusal = expect.objectContaining({ code: 'invalid_last_event_id' })
    expect(() => readResumePoint({ header: text, query: undefined })).toThrow(refusal)
    expect(() => readResumePoint({ header: '1', query: text })).toThrow(refusal)
  })
})

test('only who has the last frame of a run that is over has everything', () => {
  expect(hasEverything({ ended: true, head: 9 }, 9)).toBe(true)
  expect(hasEverything({ ended: true, head: 9 }, 10)).toBe(true)
  expect(hasEverything({ ended: true, head: 9 }, 8)).toBe(false)
  expect(hasEverything({ ended: false, head: 9 }, 9)).toBe(false)
})
