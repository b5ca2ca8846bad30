import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { advanceExpiry, connectTestRedis, testRedisReachable } from '../../../../tests/support/test-redis.ts'
import type { RedisConnection } from '../redis/connect-redis.ts'
import { describeOAuthStateRegistry } from './oauth-state-registry.contract.ts'
import { RedisOAuthStateRegistry } from './oauth-state-registry.redis.ts'

const reachable = await testRedisReachable()

async function open(): Promise<{ redis: RedisConnection[]; registries: RedisOAuthStateRegistry[]; prefix: string }> {
  const prefix = `test:${randomUUID()}:`
  const redis = [await connectTestRedis(), await connectTestRedis()]
  return { redis, registries: redis.map((each) => new RedisOAuthStateRegistry(each, { prefix })), prefix }
}

describe.runIf(reachable)('on Redis', () => {
  describeOAuthStateRegistry('redis', async () => {
    const { redis, registries, prefix } = await open()
    return {
      registry: registries[0]!,
      elsewhere: registries[1]!,
      advance: (ms) => advanceExpiry(redis[0]!, prefix, ms),
    }
  })

  test('a code for a run whose process has died is refused and not taken', async () => {
    const { redis, registries, prefix } = await open()
    const [registry, elsewhere] = registries
    await registry!.open({ state: 's', authUrl: 'https://login.example/', server: 'docs', userId: 'ada' })
    const [key] = await redis[0]!.commands.keys(`${prefix}*`)
    // What is left when nobody renews the claim.
    await redis[0]!.commands.hSet(key!, 'claimedUntil', '0')
    const answer = await elsewhere!.complete({ state: 's', userId: null, outcome: { query: 'code=c' } })
    expect(answer).toMatchObject({ accepted: false, because: 'abandoned', flow: { server: 'docs' } })
    expect(await elsewhere!.find('s')).toMatchObject({ status: 'error:abandoned' })
    expect(await redis[0]!.commands.hGet(key!, 'query')).toBeNull()
  })

  test('neither the state nor anything that could stand for it is a key', async () => {
    const { redis, registries, prefix } = await open()
    await registries[0]!.open({ state: 'guess-me', authUrl: '', server: 'docs', userId: 'ada' })
    const keys = await redis[0]!.commands.keys(`${prefix}*`)
    expect(keys).toHaveLength(1)
    expect(keys[0]).not.toContain('guess-me')
  })
})
