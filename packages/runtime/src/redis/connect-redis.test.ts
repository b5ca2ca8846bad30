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
  test('after a lost connection, commands and subscriptions work again; the loss is reported', async () => {
    const { url, cut } = await startProxy()
    const errors: Error[] = []
    const redis = await connectRedis({ url, onError: (error) => errors.push(error) })
    onTestFinished(() => redis.close())
    const heard = Promise.withResolvers<string>()
    const channel = `test:${randomUUID()}`
    await redis.subscriber.subscribe(channel, heard.resolve)
    const back = new Promise((resolve) => redis.subscriber.once('ready', resolve))
    cut()
    await back
    expect(await redis.commands.publish(channel, 'again')).toBe(1)
    expect(await heard.promise).toBe('again')
    expect(errors.length).toBeGreaterThan(0)
  })
})

test('a Redis that cannot be reached at the start is a ConfigError', async () => {
  const connecting = connectRedis({ url: 'redis://127.0.0.1:1', onError: () => {}, firstConnectMs: 200 })
  await expect(connecting).rejects.toThrow(ConfigError)
})
