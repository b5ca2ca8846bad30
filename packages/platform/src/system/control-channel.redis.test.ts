import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { connectRedis } from '@bureau/runtime'
import { describe, expect, onTestFinished, test } from 'vitest'
import { TEST_REDIS_URL, testRedisReachable } from '../../../../tests/oauth/support/test-redis.ts'
import { RedisControlChannel } from './control-channel.redis.ts'

/** A way to Redis that is shut at first, and then breaks once: when somebody subscribes, before the answer. */
async function startProxy(): Promise<{ url: string; open: () => void; broken: Promise<void> }> {
  const target = new URL(TEST_REDIS_URL)
  let isOpen = false
  let isBroken = false
  const broken = Promise.withResolvers<void>()
  const proxy = createServer((client) => {
    client.on('error', () => {})
    if (!isOpen) return void client.destroy()
    const server = connect(Number(target.port || 6379), target.hostname).on('error', () => {})
    client.once('close', () => server.destroy())
    server.once('close', () => client.destroy()).pipe(client)
    client.on('data', (bytes: Buffer) => {
      if (isBroken || !bytes.includes('subscribe')) return void server.write(bytes)
      isBroken = true
      client.destroy()
      broken.resolve()
    })
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  onTestFinished(() => void proxy.close())
  const { port } = proxy.address() as AddressInfo
  return { url: `redis://127.0.0.1:${port}`, open: () => void (isOpen = true), broken: broken.promise }
}

describe.runIf(await testRedisReachable())('the control channel on Redis', () => {
  test('a process whose first connection breaks while it subscribes receives messages on the next one', async () => {
    const { url, open, broken } = await startProxy()
    const redis = await connectRedis({ url, firstConnectMs: 100, mayBeAway: true })
    onTestFinished(() => redis.close())
    const keyId = randomUUID()
    let received = 0
    const channel = await RedisControlChannel.open(redis, (message) => {
      if (message.type === 'revoked' && message.keyId === keyId) received++
    })
    onTestFinished(() => channel.close())

    open()
    await broken

    const receivedNow = (): number => {
      channel.tell({ type: 'revoked', keyId })
      return received
    }
    await expect.poll(receivedNow).toBeGreaterThan(0)
  })
})
