import { randomUUID } from 'node:crypto'
import { describe } from 'vitest'
import { advanceExpiry, connectTestRedis, testRedisReachable } from '../../../../tests/support/test-redis.ts'
import { describeTickets } from './tickets.contract.ts'
import { RedisTickets } from './tickets.redis.ts'

const reachable = await testRedisReachable()

describe.runIf(reachable)('on Redis', () => {
  describeTickets('redis', async () => {
    const prefix = `test:${randomUUID()}:`
    const redis = [await connectTestRedis(), await connectTestRedis()]
    const [tickets, elsewhere] = redis.map((each) => new RedisTickets(each, { prefix }))
    return {
      tickets: tickets!,
      elsewhere: elsewhere!,
      advance: (ms) => advanceExpiry(redis[0]!, prefix, ms),
    }
  })
})
