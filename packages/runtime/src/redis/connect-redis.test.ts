import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ConfigError } from '@bureau/protocol'
import { connectRedis } from './connect-redis.ts'
import { TEST_REDIS_URL, testRedisReachable } from './test-redis.contract.ts'

const reachable = await testRedisReachable()

/** A way to Redis that can be cut, as a restart or a network fault does. */
async function startProxy(): Promise<{ url: string; cut: () => void }> {
  const target = new URL(TEST_REDIS_URL)
  const sockets = new Set<Socket>()
  const proxy = createServer((client) => {
    const server = connect(Number(target.port || 6379), target.hostname)
    for (const socket of [client, server]) {
      sockets.add(socket)
      socket.on('error', () => {})
    }
    client.pipe(server).pipe(client)
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const cut = (): void => sockets.forEach((socket) => socket.destroy())
  onTestFinished(() => {
    cut()
    proxy.close()
  })
  const address = proxy.address() as { port: number }
  return { url: `redis://127.0.0.1:${address.port}`, cut }
}

describe.runIf(reachable)('connectRedis', () => {
  test('after a lost connection, commands and subscriptions work again; the loss and the return are said once', async () => {
    const { url, cut } = await startProxy()
    const said: string[] = []
    const say = (_facts: unknown, text?: string): void => void said.push(text!)
    const redis = await connectRedis({ url, log: { warn: say, info: say } })
    onTestFinished(() => redis.close())
    const heard = Promise.withResolvers<string>()
    const channel = `test:${randomUUID()}`
    await redis.subscriber.subscribe(channel, heard.resolve)
    const back = new Promise((resolve) => redis.subscriber.once('ready', resolve))
    cut()
    await back
    expect(await redis.commands.publish(channel, 'again')).toBe(1)
    expect(await heard.promise).toBe('again')
    await expect.poll(() => said).toEqual(['Redis cannot be reached: trying until it can', 'Redis is there again'])
  })
})

test('a Redis that cannot be reached at the start is a ConfigError that says where it was looked for', async () => {
  const connecting = connectRedis({ url: 'redis://127.0.0.1:1', firstConnectMs: 200 })
  await expect(connecting).rejects.toThrow(new ConfigError('REDIS_URL: Redis at 127.0.0.1:1 cannot be reached.'))
})
