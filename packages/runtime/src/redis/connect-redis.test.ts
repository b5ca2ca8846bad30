import { randomUUID } from 'node:crypto'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { ConfigError } from '@bureau/protocol'
import { startCuttingProxy } from '../../../../tests/support/cutting-proxy.ts'
import { TEST_REDIS_URL, testRedisReachable } from '../../../../tests/support/test-redis.ts'
import { connectRedis } from './connect-redis.ts'

const reachable = await testRedisReachable()

describe.runIf(reachable)('connectRedis', () => {
  test('after a lost connection, commands and subscriptions work again; the loss and the return are said once', async () => {
    const proxy = await startCuttingProxy(TEST_REDIS_URL)
    const said: string[] = []
    const say = (_facts: unknown, text?: string): void => void said.push(text!)
    const redis = await connectRedis({ url: proxy.url, log: { warn: say, info: say } })
    onTestFinished(() => redis.close())
    const heard = Promise.withResolvers<string>()
    const channel = `test:${randomUUID()}`
    await redis.subscriber.subscribe(channel, heard.resolve)
    const back = new Promise((resolve) => redis.subscriber.once('ready', resolve))
    proxy.breakAll()
    await back
    expect(await redis.commands.publish(channel, 'again')).toBe(1)
    expect(await heard.promise).toBe('again')
    await expect.poll(() => said).toEqual(['Redis cannot be reached: trying until it can', 'Redis is there again'])
  })

  test('a Redis that is silent is lost: what waits for it fails, and when it is back commands and subscriptions work', async () => {
    const proxy = await startCuttingProxy(TEST_REDIS_URL)
    const said: unknown[] = []
    const say = (facts: { reason?: string }, text?: string): void => void said.push(facts.reason ?? text)
    const redis = await connectRedis({ url: proxy.url, log: { warn: say, info: say }, answerMs: 200 })
    onTestFinished(() => redis.close())
    const received = Promise.withResolvers<string>()
    const channel = `test:${randomUUID()}`
    await redis.subscriber.sSubscribe(channel, received.resolve)

    proxy.swallow()
    await expect(redis.commands.get('anything')).rejects.toThrow('Disconnects client')
    expect(redis.commands.isReady).toBe(false)
    proxy.open()

    await expect.poll(() => said).toEqual(['no answer within 200 ms', 'Redis is there again'])
    expect(await redis.commands.sPublish(channel, 'again')).toBe(1)
    expect(await received.promise).toBe('again')
  })

  test('a Redis that answers is asked again and again, and its connection stays', async () => {
    const { url } = await startCuttingProxy(TEST_REDIS_URL)
    const said: unknown[] = []
    const say = (facts: unknown): void => void said.push(facts)
    const redis = await connectRedis({ url, log: { warn: say, info: say }, answerMs: 200 })
    onTestFinished(() => redis.close())
    await redis.subscriber.subscribe(`test:${randomUUID()}`, () => {})
    const before = await redis.commands.clientId()
    const pings = [redis.commands, redis.subscriber].map((client) => vi.spyOn(client, 'ping'))

    for (const ping of pings) await expect.poll(() => ping.mock.calls.length).toBeGreaterThan(3)
    expect([await redis.commands.clientId(), said]).toEqual([before, []])
  })
})

test('a Redis that cannot be reached at the start is a ConfigError that says where it was looked for, and why', async () => {
  const connecting = connectRedis({ url: 'redis://127.0.0.1:1', firstConnectMs: 200 })
  const refused = 'REDIS_URL: Redis at 127.0.0.1:1 cannot be reached: connect ECONNREFUSED 127.0.0.1:1.'
  await expect(connecting).rejects.toThrow(new ConfigError(refused))
})
