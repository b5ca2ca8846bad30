import { describe, expect, test } from 'vitest'
import type { Tickets } from './tickets.ts'

type TicketsUnderTest = {
  readonly tickets: Tickets
  /** The same tickets as another process sees them. */
  readonly elsewhere: Tickets
  /** Lets time pass. */
  readonly advance: (ms: number) => Promise<void>
}

/** What every implementation of {@link Tickets} must do. */
export function describeTickets(name: string, open: () => Promise<TicketsUnderTest>): void {
  describe(`tickets: ${name}`, () => {
    test('a ticket works once, for its purpose, on any process', async () => {
      const { tickets, elsewhere } = await open()
      const ticket = await tickets.issue('shop', 60_000)
      expect(ticket).toMatch(/^[\w-]{43}$/)
      expect(await elsewhere.redeem('other', ticket)).toBe(false)
      expect(await elsewhere.redeem('shop', ticket)).toBe(true)
      expect(await elsewhere.redeem('shop', ticket)).toBe(false)
      expect(await tickets.redeem('shop', ticket)).toBe(false)
    })

    test('of many who redeem it at once one succeeds', async () => {
      const { tickets, elsewhere } = await open()
      const ticket = await tickets.issue('shop', 60_000)
      const all = await Promise.all([tickets, elsewhere, tickets, elsewhere].map((each) => each.redeem('shop', ticket)))
      expect(all.filter(Boolean)).toHaveLength(1)
    })

    test('a ticket expires', async () => {
      const { tickets, advance } = await open()
      const ticket = await tickets.issue('shop', 60_000)
      await advance(60_000)
      expect(await tickets.redeem('shop', ticket)).toBe(false)
    })

    test('no two tickets are alike, and what was never issued is none', async () => {
      const { tickets } = await open()
      expect(await tickets.issue('shop', 60_000)).not.toBe(await tickets.issue('shop', 60_000))
      for (const text of ['', '.', 'shop', 'a.b', 'A'.repeat(10_000)]) {
        expect(await tickets.redeem('shop', text)).toBe(false)
      }
    })
  })
}
