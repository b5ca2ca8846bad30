import { randomUUID } from 'node:crypto'
import { describe } from 'vitest'
import { connectTestRedis, testRedisReachable } from '../redis/test-redis.contract.ts'
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
      advance: async (ms) => {
        for (const key of await redis[0]!.commands.keys(`${prefix}*`)) {
          const left = await redis[0]!.commands.pTTL(key)
          await redis[0]!.commands.pExpire(key, Math.max(0, left - ms))
        }
      },
      close: () => Promise.all(redis.map((each) => each.close())),
    }
  })
})
