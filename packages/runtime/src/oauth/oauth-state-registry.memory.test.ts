import { expect, onTestFinished, test, vi } from 'vitest'
import { describeOAuthStateRegistry } from './oauth-state-registry.contract.ts'
import { MemoryOAuthStateRegistry } from './oauth-state-registry.memory.ts'
import { FLOW_LIFETIME_MS } from './oauth-state-registry.ts'

describeOAuthStateRegistry('memory', async () => {
  let now = 1_800_000_000_000
  const registry = new MemoryOAuthStateRegistry({ now: () => now })
  return { registry, elsewhere: registry, advance: async (ms) => void (now += ms) }
})

test('a sign-in lasts for its time, also when the clock of the machine is set forward', async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => void vi.useRealTimers())
  const registry = new MemoryOAuthStateRegistry()
  const createdAt = Date.now()
  await registry.open({ state: 'a', authUrl: '', server: 'mail', userId: 'ada' })
  vi.setSystemTime(createdAt + 2 * FLOW_LIFETIME_MS)

  expect(await registry.find('a')).toMatchObject({ status: 'pending', createdAt })
})
