import { expect, test, vi } from 'vitest'
import { counted, midnights } from './format.ts'

test('every local day has its place, also those of 23 and 25 hours', () => {
  vi.stubEnv('TZ', 'Europe/Berlin')
  const daysBetween = (from: string, to: string): number[] =>
    midnights(new Date(from).toISOString(), new Date(to).toISOString()).map((date) => date.getDate())

  expect(daysBetween('2026-10-24T00:00', '2026-10-27T10:00')).toEqual([24, 25, 26, 27])
  expect(daysBetween('2026-03-28T00:00', '2026-03-31T00:30')).toEqual([28, 29, 30, 31])
})

test('one of something is no plural', () => {
  expect([0, 1, 2_000].map((count) => counted(count, 'active run'))).toEqual([
    '0 active runs',
    '1 active run',
    '2,000 active runs',
  ])
})
