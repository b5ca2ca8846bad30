import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { describe, expect, onTestFinished, test } from 'vitest'
import { connectTestRedis, TEST_REDIS_URL, testRedisReachable } from '../../../../tests/support/test-redis.ts'
import { cancelOf, describeRunRegistry, testRun } from './run-registry.contract.ts'
import { RedisRunRegistry, type RedisRunRegistryOptions } from './run-registry.redis.ts'

const reachable = await testRedisReachable()
const newPrefix = (): string => `test:${randomUUID()}:`

async function openRegistry(options: RedisRunRegistryOptions): Promise<RedisRunRegistry> {
  const registry = new RedisRunRegistry(await connectTestRedis(), options)
  onTestFinished(() => registry.close())
  return registry
}

describe.runIf(reachable)('on Redis', () => {
  describeRunRegistry('redis', async () => {
    const redis = [await connectTestRedis(), await connectTestRedis()]
    const prefix = newPrefix()
    const registries = redis.map((each) => new RedisRunRegistry(each, { prefix }))
    return { registry: registries[0]!, elsewhere: registries[1]! }
  })

  test('a large end comes back whole', async () => {
    const prefix = newPrefix()
    const registry = await openRegistry({ prefix })
    const elsewhere = await openRegistry({ prefix })
    const run = testRun()
    await registry.register(run)
    run.control.signal.addEventListener('abort', () => run.end(['x'.repeat(5_000_000)]))
    const outcome = await elsewhere.cancel(cancelOf(run))
    expect(outcome?.ended?.new_messages[0]?.['content']).toHaveLength(5_000_000)
  })

  test('the entry of a live run is renewed for as long as it lives', async () => {
    const prefix = newPrefix()
    const registry = await openRegistry({ prefix, leaseMs: 900 })
    const elsewhere = await openRegistry({ prefix })
    const watching = await connectTestRedis()
    const run = testRun()
    await registry.register(run)
    const key = `${prefix}run:${run.runId}`
    // The time to live falls, and rises again when the entry is renewed.
    let renewals = 0
    for (let last = Infinity; renewals < 4;) {
      const left = await watching.commands.pTTL(key)
      expect(left).toBeGreaterThan(0)
      if (left > last) renewals++
      last = left
    }
    run.control.signal.addEventListener('abort', () => run.end())
    expect(await elsewhere.cancel(cancelOf(run))).toEqual({ ended: await run.ended })
  })

  test('the runs of a process that was killed disappear', async () => {
    const prefix = newPrefix()
    const code = `
      import { connectRedis } from ${JSON.stringify(import.meta.resolve('../redis/connect-redis.ts'))}
      import { RedisRunRegistry } from ${JSON.stringify(import.meta.resolve('./run-registry.redis.ts'))}
      const redis = await connectRedis({ url: ${JSON.stringify(TEST_REDIS_URL)} })
      const registry = new RedisRunRegistry(redis, { prefix: ${JSON.stringify(prefix)}, leaseMs: 500 })
      await registry.register({ runId: 'r', agency: 'solo', userId: null, control: {}, ended: new Promise(() => {}) })
      console.log('registered')`
    const child = spawn(process.execPath, ['--conditions=@bureau/source', '--input-type=module', '-e', code], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await once(child.stdout, 'data')
    child.kill('SIGKILL')
    await once(child, 'exit')
    const elsewhere = await openRegistry({ prefix })
    const request = { runId: 'r', agency: 'solo', userId: null, mode: 'immediate', timeoutMs: 10_000 } as const
    expect(await elsewhere.cancel(request)).toBeUndefined()
  })

  test('a registry that closes takes its runs with it', async () => {
    const prefix = newPrefix()
    const closing = new RedisRunRegistry(await connectTestRedis(), { prefix })
    const run = testRun()
    await closing.register(run)
    await closing.close()
    const elsewhere = await openRegistry({ prefix })
    expect(await elsewhere.cancel(cancelOf(run))).toBeUndefined()
  })
})
