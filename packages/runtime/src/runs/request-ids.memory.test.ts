import { expect, onTestFinished, test, vi } from 'vitest'
import { describeRequestIds } from './request-ids.contract.ts'
import { MemoryRequestIds } from './request-ids.memory.ts'
import { REQUEST_ID_MS } from './request-ids.ts'

describeRequestIds('memory', async () => {
  let now = 1_800_000_000_000
  const ids = new MemoryRequestIds({ now: () => now })
  return { ids, elsewhere: ids, advance: async (ms) => void (now += ms) }
})

test('a request is known for its time, also when the clock of the machine is set forward', async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => void vi.useRealTimers())
  const ids = new MemoryRequestIds()
  const request = { agency: 'solo', userId: null, requestId: 'a' }
  await ids.claim(request, { runId: 'run', asked: '' })
  vi.setSystemTime(Date.now() + 2 * REQUEST_ID_MS)

  expect(await ids.find(request)).toBeDefined()
})

test('many requests take no more than a bounded memory: the oldest is forgotten', async () => {
  const ids = new MemoryRequestIds()
  const request = (at: number) => ({ agency: 'solo', userId: null, requestId: String(at) })
  for (let at = 0; at <= 50_001; at++) await ids.claim(request(at), { runId: 'run', asked: '' })
  expect(await ids.find(request(0))).toBeUndefined()
  expect(await ids.find(request(50_001))).toBeDefined()
})
