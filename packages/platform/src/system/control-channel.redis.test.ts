import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { connectRedis } from '@bureau/runtime'
import { describe, expect, onTestFinished, test } from 'vitest'
import { TEST_REDIS_URL, testRedisReachable } from '../../../../tests/support/test-redis.ts'
import { RedisControlChannel } from './control-channel.redis.ts'
import type { ControlMessage } from './control-channel.ts'

/** A way to Redis that is shut at first, and does something else than to hand it on with what subscribes first. */
async function startProxy(
  onFirstSubscription: (client: Socket) => void,
): Promise<{ url: string; open: () => void; reached: Promise<void> }> {
  const target = new URL(TEST_REDIS_URL)
  let isOpen = false
  let isReached = false
  const reached = Promise.withResolvers<void>()
  const proxy = createServer((client) => {
    client.on('error', () => {})
    if (!isOpen) return void client.destroy()
    const server = connect(Number(target.port || 6379), target.hostname).on('error', () => {})
    client.once('close', () => server.destroy())
    server.once('close', () => client.destroy()).pipe(client)
    client.on('data', (bytes: Buffer) => {
      if (isReached || !bytes.includes('subscribe')) return void server.write(bytes)
      isReached = true
      onFirstSubscription(client)
      reached.resolve()
    })
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  onTestFinished(() => void proxy.close())
  const { port } = proxy.address() as AddressInfo
  return { url: `redis://127.0.0.1:${port}`, open: () => void (isOpen = true), reached: reached.promise }
}

describe.runIf(await testRedisReachable())('the control channel on Redis', () => {
  /** @returns How often a message arrives that was sent a moment ago. */
  async function openChannel(url: string, options: { log?: { warn(facts: object): void } } = {}) {
    const redis = await connectRedis({ url, firstConnectMs: 100, mayBeAway: true })
    onTestFinished(() => redis.close())
    const keyId = randomUUID()
    let received = 0
    const onMessage = (message: ControlMessage): void => {
      if (message.type === 'revoked' && message.keyId === keyId) received++
    }
    const channel = await RedisControlChannel.open(redis, onMessage, { ...options, againMs: 20 })
    onTestFinished(() => channel.close())
    return (): number => {
      channel.tell({ type: 'revoked', keyId })
      return received
    }
  }

  test('a process whose first connection breaks while it subscribes receives messages on the next one', async () => {
    const { url, open, reached } = await startProxy((client) => void client.destroy())
    const received = await openChannel(url)

    open()
    await reached

    await expect.poll(received).toBeGreaterThan(0)
  })

  test('a Redis that refuses the subscription keeps no process from starting; it is said, and tried again', async () => {
    const refusal = 'NOPERM this user has no permissions to access one of the channels used as arguments'
    const { url, open, reached } = await startProxy((client) => void client.write(`-${refusal}\r\n`))
    open()
    const said: object[] = []
    const received = await openChannel(url, { log: { warn: (facts) => void said.push(facts) } })
    await reached

    await expect.poll(received).toBeGreaterThan(0)
    expect(said).toEqual([{ reason: refusal }])
  })
})
