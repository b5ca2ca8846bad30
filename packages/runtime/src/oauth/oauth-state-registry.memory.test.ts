import { describeOAuthStateRegistry } from './oauth-state-registry.contract.ts'
import { MemoryOAuthStateRegistry } from './oauth-state-registry.memory.ts'

describeOAuthStateRegistry('memory', async () => {
  let now = 1_800_000_000_000
  const registry = new MemoryOAuthStateRegistry({ now: () => now })
  return {
    registry,
    elsewhere: registry,
    advance: async (ms) => void (now += ms),
    close: () => registry.close(),
  }
})
