import { randomUUID } from 'node:crypto'
import { describe } from 'vitest'
import { advanceExpiry, connectTestRedis, testRedisReachable } from '../../../../tests/support/test-redis.ts'
import { describeRequestIds } from './request-ids.contract.ts'
import { RedisRequestIds } from './request-ids.redis.ts'

const reachable = await testRedisReachable()

describe.runIf(reachable)('on Redis', () => {
  describeRequestIds('redis', async () => {
    const prefix = `test:${randomUUID()}:`
    const redis = [await connectTestRedis(), await connectTestRedis()]
    const [ids, elsewhere] = redis.map((each) => new RedisRequestIds(each, { prefix }))
    return {
      ids: ids!,
      elsewhere: elsewhere!,
      advance: (ms) => advanceExpiry(redis[0]!, prefix, ms),
    }
  })
})
