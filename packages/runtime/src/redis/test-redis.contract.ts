import { once } from 'node:events'
import { connect } from 'node:net'
import { connectRedis, type RedisConnection } from './connect-redis.ts'

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

export function connectTestRedis(): Promise<RedisConnection> {
  return connectRedis({ url: TEST_REDIS_URL })
}
