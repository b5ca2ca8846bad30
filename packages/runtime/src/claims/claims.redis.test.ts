import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { connectTestRedis, testRedisReachable } from '../../../../tests/support/test-redis.ts'
import { describeClaims } from './claims.contract.ts'
import { RedisClaims } from './claims.redis.ts'

const reachable = await testRedisReachable()

describe.runIf(reachable)('on Redis', () => {
  describeClaims('redis', async () => {
    const prefix = `test:${randomUUID()}:`
    const redis = [await connectTestRedis(), await connectTestRedis()]
    const [claims, elsewhere] = redis.map((each) => new RedisClaims(each, { prefix }))
    return { claims: claims!, elsewhere: elsewhere! }
  })

  test('a claim is kept until it expires, and no longer', async () => {
    const prefix = `test:${randomUUID()}:`
    const redis = await connectTestRedis()
    const until = Date.now() + 60_000
    await new RedisClaims(redis, { prefix }).claim('a', until)
    const [key] = await redis.commands.keys(`${prefix}*`)

    expect(await redis.commands.pExpireTime(key!)).toBe(until)
  })
})
