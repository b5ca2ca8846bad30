import { describeRunRegistry } from './run-registry.contract.ts'
import { MemoryRunRegistry } from './run-registry.memory.ts'

describeRunRegistry('memory', async () => {
  const registry = new MemoryRunRegistry()
  return { registry, elsewhere: registry }
})
