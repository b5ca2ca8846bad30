import { onTestFinished } from 'vitest'
import { CuttingProxy } from '../faults/cutting-proxy.ts'

/** A way to a server that can be cut, until the test has ended. */
export async function startCuttingProxy(target: string): Promise<CuttingProxy> {
  const proxy = await CuttingProxy.start(target)
  onTestFinished(() => proxy.close())
  return proxy
}
