import { expect, test } from 'vitest'
import { SharedListing } from './shared-listing.ts'

/** A listing whose answers the test gives: the number of the call. */
function counted(): { listing: SharedListing<number>; answer: () => void; calls: () => number } {
  const open: (() => void)[] = []
  let calls = 0
  const listing = new SharedListing(() => {
    const number = ++calls
    return new Promise<number>((resolve) => open.push(() => resolve(number)))
  })
  return { listing, answer: () => open.shift()!(), calls: () => calls }
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test('a listing that is asked for alone runs at once', async () => {
  const { listing, answer } = counted()
  const first = listing.next()
  await settled()
  answer()
  expect(await first).toBe(1)
})

test('whoever comes during a listing shares the next one', async () => {
  const { listing, answer, calls } = counted()
  const first = listing.next()
  await settled()
  const late = [listing.next(), listing.next(), listing.next()]
  await settled()
  expect(calls()).toBe(1)
  answer()
  expect(await first).toBe(1)
  await settled()
  answer()
  expect(await Promise.all(late)).toEqual([2, 2, 2])
})

test('a listing that fails fails for those who share it, and the next one runs', async () => {
  let calls = 0
  const listing = new SharedListing(async () => {
    if (++calls === 1) throw new Error('lost')
    return calls
  })
  const first = Promise.allSettled([listing.next(), listing.next()])
  expect((await first).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  expect(await listing.next()).toBe(2)
})
