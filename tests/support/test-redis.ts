import { once } from 'node:events'
import { connect } from 'node:net'
import { connectRedis, type RedisConnection } from '@bureau/runtime'
import { onTestFinished } from 'vitest'

export const TEST_REDIS_URL = process.env['TEST_REDIS_URL'] ?? 'redis://127.0.0.1:6379'

/** False, with a printed reason, when there is no Redis to test with. On CI it must be there. */
export async function testRedisReachable(): Promise<boolean> {
  const { hostname, port } = new URL(TEST_REDIS_URL)
  const socket = connect(Number(port || 6379), hostname)
  try {
    await once(socket, 'connect')
    return true
  } catch (cause) {
    if (process.env['CI']) throw new Error(`no Redis at ${TEST_REDIS_URL}`, { cause })
    console.warn(`Skipped: no Redis at ${TEST_REDIS_URL}.`)
    return false
  } finally {
    socket.destroy()
  }
}

/** A connection until the test has ended. */
export async function connectTestRedis(url = TEST_REDIS_URL): Promise<RedisConnection> {
  const redis = await connectRedis({ url })
  onTestFinished(() => redis.close())
  return redis
}

/** Lets the keys that begin with this prefix expire sooner, as if time had passed. */
export async function advanceExpiry({ commands }: RedisConnection, prefix: string, ms: number): Promise<void> {
  for (const key of await commands.keys(`${prefix}*`)) {
    await commands.pExpire(key, Math.max(0, (await commands.pTTL(key)) - ms))
  }
}
