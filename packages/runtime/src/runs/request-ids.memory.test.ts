import { expect, test } from 'vitest'
import { describeRequestIds } from './request-ids.contract.ts'
import { MemoryRequestIds } from './request-ids.memory.ts'

describeRequestIds('memory', async () => {
  let now = 1_800_000_000_000
  const ids = new MemoryRequestIds({ now: () => now })
  return { ids, elsewhere: ids, advance: async (ms) => void (now += ms), close: async () => {} }
})

test('many requests take no more than a bounded memory: the oldest is forgotten', async () => {
  const ids = new MemoryRequestIds()
  const request = (at: number) => ({ agency: 'solo', userId: null, requestId: String(at) })
  for (let at = 0; at <= 50_001; at++) await ids.claim(request(at), { runId: 'run', asked: '' })
  expect(await ids.find(request(0))).toBeUndefined()
  expect(await ids.find(request(50_001))).toBeDefined()
})
