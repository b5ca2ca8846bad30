import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { describeTickets } from './tickets.contract.ts'
import { MemoryTickets } from './tickets.memory.ts'

describeTickets('memory', async () => {
  let now = 1_800_000_000_000
  const tickets = new MemoryTickets({ now: () => now })
  return { tickets, elsewhere: tickets, advance: async (ms) => void (now += ms) }
})

test('a ticket is good for its time, wherever the clock of the machine is set', async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => void vi.useRealTimers())
  const tickets = new MemoryTickets()
  const [long, short] = [await tickets.issue('shop', 60_000), await tickets.issue('shop', 1)]
  vi.setSystemTime(Date.now() + 3_600_000)
  expect(await tickets.redeem('shop', long)).toBe(true)

  vi.setSystemTime(Date.now() - 7_200_000)
  await sleep(5)
  expect(await tickets.redeem('shop', short)).toBe(false)
})

test('tickets that nobody redeems take no more than a bounded memory: the oldest is forgotten', async () => {
  const tickets = new MemoryTickets()
  const first = await tickets.issue('shop', 60_000)
  const second = await tickets.issue('shop', 60_000)
  for (let number = 2; number < 10_001; number++) await tickets.issue('shop', 60_000)
  expect(await tickets.redeem('shop', first)).toBe(false)
  expect(await tickets.redeem('shop', second)).toBe(true)
})
