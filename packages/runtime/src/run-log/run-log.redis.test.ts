import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { queryObjects } from 'node:v8'
import { describe, expect, onTestFinished, test } from 'vitest'
import { startCuttingProxy } from '../../../../tests/support/cutting-proxy.ts'
import { connectTestRedis, TEST_REDIS_URL, testRedisReachable } from '../../../../tests/support/test-redis.ts'
import type { RedisConnection } from '../redis/connect-redis.ts'
import { describeRunLogs, ENDING, event, eventsOf, newRun, readAll } from './run-log.contract.ts'
import { RedisStream } from './redis-stream.ts'
import { RedisRunLogs } from './run-log.redis.ts'
import type { ChunkStorage, EventChunk, RunLogReader } from './run-log.ts'
import { StoredRunFollower } from './stored-run-follower.ts'

async function found(logs: RedisRunLogs, runId: string, head = 1): Promise<RunLogReader> {
  for (;;) {
    const reader = await logs.find(runId)
    if (reader && reader.head >= head) return reader
  }
}

describe.runIf(await testRedisReachable())('on Redis', () => {
  describeRunLogs('redis', async () => {
    const prefix = `test:${randomUUID()}:`
    const logs = await RedisRunLogs.open(await connectTestRedis(), { prefix })
    return { logs, elsewhere: await RedisRunLogs.open(await connectTestRedis(), { prefix }) }
  })

  test('events that have left memory are read from Redis', async () => {
    const prefix = `test:${randomUUID()}:`
    const logs = await RedisRunLogs.open(await connectTestRedis(), { prefix, windowBytes: 0 })
    const elsewhere = await RedisRunLogs.open(await connectTestRedis(), { prefix })
    const run = newRun()
    const log = logs.create(run)
    for (let index = 0; index < 400; index++) log.append(event('x'.repeat(1000)))
    await found(elsewhere, run.runId, 400)
    const reading = [readAll(log), readAll(log, 399)]
    await log.seal(ENDING)
    log.release()
    expect((await Promise.all(reading)).map((events) => events.length)).toEqual([402, 3])
  })

  test('nothing is left of a reader that has read to the end', async () => {
    const prefix = `test:${randomUUID()}:`
    const logs = await RedisRunLogs.open(await connectTestRedis(), { prefix })
    const elsewhere = await RedisRunLogs.open(await connectTestRedis(), { prefix })
    const run = newRun()
    const log = logs.create(run)
    log.append(event('said'))
    const reader = await found(elsewhere, run.runId)
    await log.seal(ENDING)
    log.release()
    await readAll(reader)
    const before = queryObjects(AbortSignal)
    for (let count = 0; count < 50; count++) await readAll(reader)
    expect(Number(queryObjects(AbortSignal)) - Number(before)).toBeLessThan(10)
  })

  test('a write that is repeated with more, because its answer was lost, shows nothing twice', async () => {
    const stream = new RedisStream(await connectTestRedis(), {
      prefix: `test:${randomUUID()}:`,
      runId: 'run_1',
      lingerMs: 120_000,
    })
    const events = ['1', '2', '3'].map(event)
    await stream.write({ first: 1, events: events.slice(0, 2) }, { anew: false })
    await stream.write({ first: 1, events }, { anew: false })
    expect(await stream.read(0)).toEqual({ first: 1, events })
    expect(await stream.read(2)).toEqual({ first: 3, events: events.slice(2) })
  })

  test('a run goes on without Redis, and what others missed is there when Redis is back', async () => {
    const prefix = `test:${randomUUID()}:`
    const gate = await startCuttingProxy(TEST_REDIS_URL)
    const redis = await connectTestRedis(gate.url)
    const logs = await RedisRunLogs.open(redis, { prefix })
    const elsewhere = await RedisRunLogs.open(await connectTestRedis(), { prefix })
    const run = newRun()
    const log = logs.create(run)
    log.append(event('before'))
    const reading = readAll(await found(elsewhere, run.runId))
    const lost = once(redis.commands, 'error')
    gate.shut()
    await lost
    for (let index = 0; index < 100; index++) log.append(event('meanwhile'))
    await log.seal(ENDING)
    log.release()
    expect(await readAll(log)).toHaveLength(103)
    gate.open()
    expect(await reading).toHaveLength(103)
  })

  test('a run takes no more than its share of Redis, and whoever missed something gets its state', async () => {
    const prefix = `test:${randomUUID()}:`
    const redis = await connectTestRedis()
    const logs = await RedisRunLogs.open(redis, { prefix, windowBytes: 20_000, streamBytes: 60_000 })
    const elsewhere = await RedisRunLogs.open(await connectTestRedis(), { prefix })
    const run = newRun()
    const log = logs.create(run)
    const key = `${prefix}{${run.runId}}:events`
    for (let round = 1; round <= 10; round++) {
      for (let index = 0; index < 20; index++) log.append(event('x'.repeat(1_000)))
      await found(elsewhere, run.runId, round * 20)
      expect(await redis.commands.memoryUsage(key)).toBeLessThan(150_000)
    }
    await log.seal(ENDING)
    log.release()
    const events = await eventsOf(await found(elsewhere, run.runId, 202))
    expect([events[0]?.event.type, events.at(-1)?.event.type]).toEqual(['log.reset', 'log.ended'])
  })

  test('a log goes to storage while Redis is away, from its beginning, and to Redis alone otherwise', async () => {
    const gate = await startCuttingProxy(TEST_REDIS_URL)
    const redis = await connectTestRedis(gate.url)
    const logs = await RedisRunLogs.open(redis, { prefix: `test:${randomUUID()}:` })
    const chunks: EventChunk[] = []
    const storage: ChunkStorage = {
      append: async (chunk) => void chunks.push(chunk),
      read: async (after) => chunks.filter(({ lastSeq }) => lastSeq > after),
    }
    const log = logs.create({ ...newRun(), chunks: storage })
    log.append(event('one'))
    await log.store()
    expect(chunks).toEqual([])
    const lost = once(redis.commands, 'error')
    gate.shut()
    await lost
    log.append(event('two'))
    await log.store()
    const { chunk } = await log.seal(ENDING)
    expect(chunks.map(({ firstSeq, lastSeq }) => [firstSeq, lastSeq])).toEqual([[1, 2]])
    expect(chunk).toMatchObject({ firstSeq: 3, lastSeq: 4 })
    const follower = new StoredRunFollower({ chunks: storage, head: 2, isOver: () => false })
    await storage.append(chunk!)
    expect(await readAll(follower)).toHaveLength(4)
  })

  test('a Redis that refuses writes, for instance because it is full, is treated as unreachable until it accepts them again', async () => {
    const admin = (await connectTestRedis()).commands
    const user = `test_${randomUUID().replaceAll('-', '')}`
    const may = (...rules: string[]) => admin.sendCommand(['ACL', 'SETUSER', user, ...rules])
    await may('on', '>secret', '~*', '&*', '+@all')
    onTestFinished(async () => void (await admin.sendCommand(['ACL', 'DELUSER', user])))
    const url = new URL(TEST_REDIS_URL)
    Object.assign(url, { username: user, password: 'secret' })
    const said: string[] = []
    const say = (_facts: unknown, text = ''): void => void said.push(text || String(_facts))
    const prefix = `test:${randomUUID()}:`
    const logs = await RedisRunLogs.open(await connectTestRedis(url.href), {
      prefix,
      lookMs: 50,
      log: { warn: say, info: say },
    })
    const elsewhere = await RedisRunLogs.open(await connectTestRedis(), { prefix })
    const chunks: EventChunk[] = []
    const storage: ChunkStorage = { append: async (chunk) => void chunks.push(chunk), read: async () => chunks }
    const run = { ...newRun(), chunks: storage }
    const log = logs.create(run)
    log.append(event('before'))
    await found(elsewhere, run.runId)

    await may('-xadd')
    log.append(event('meanwhile'))
    await expect.poll(() => logs.isReachable).toBe(false)
    await log.store()
    expect(chunks.map(({ lastSeq }) => lastSeq)).toEqual([2])

    await may('+xadd')
    await expect.poll(() => logs.isReachable).toBe(true)
    const reading = readAll(await found(elsewhere, run.runId))
    await log.seal(ENDING)
    log.release()
    expect(await reading).toHaveLength(4)
    expect(said).toEqual([expect.stringContaining('Redis refuses'), 'Redis accepts writes again'])
  })

  test('a Redis that lost everything is given the whole log again', async () => {
    const prefix = `test:${randomUUID()}:`
    const gate = await startCuttingProxy(TEST_REDIS_URL)
    const redis = await connectTestRedis(gate.url)
    const direct = await connectTestRedis()
    const logs = await RedisRunLogs.open(withNewLives(redis), { prefix })
    const elsewhere = await RedisRunLogs.open(direct, { prefix })
    const run = newRun()
    const log = logs.create(run)
    for (let index = 0; index < 10; index++) log.append(event(String(index)))
    await found(elsewhere, run.runId, 10)
    gate.shut()
    await direct.commands.del(`${prefix}{${run.runId}}:events`)
    log.append(event('meanwhile'))
    gate.open()
    const late = await found(elsewhere, run.runId, 11)
    const reading = readAll(late)
    await log.seal(ENDING)
    log.release()
    expect(await reading).toHaveLength(13)
  })

  test('what has left memory by then is told as a reset', async () => {
    const prefix = `test:${randomUUID()}:`
    const gate = await startCuttingProxy(TEST_REDIS_URL)
    const redis = await connectTestRedis(gate.url)
    const direct = await connectTestRedis()
    const logs = await RedisRunLogs.open(withNewLives(redis), { prefix, windowBytes: 0 })
    const elsewhere = await RedisRunLogs.open(direct, { prefix })
    const run = newRun({ snapshot: () => ({ new_messages: [{ role: 'assistant', content: 'all of it' }] }) })
    const log = logs.create(run)
    for (let index = 0; index < 10; index++) log.append(event(String(index)))
    await found(elsewhere, run.runId, 10)
    // The answer to what was written is here before the answer to this.
    await redis.commands.ping()
    gate.shut()
    await direct.commands.del(`${prefix}{${run.runId}}:events`)
    gate.open()
    const late = await found(elsewhere, run.runId, 10)
    await log.seal(ENDING)
    log.release()
    const events = await eventsOf(late)
    expect(events.map(({ seq }) => seq)).toEqual([10, 11, 12])
    expect(JSON.stringify(events[0])).toContain('all of it')
  })

  test('a log that is handed over lets readers elsewhere look at the record at once', async () => {
    const prefix = `test:${randomUUID()}:`
    const logs = await RedisRunLogs.open(await connectTestRedis(), { prefix })
    const elsewhere = await RedisRunLogs.open(await connectTestRedis(), { prefix, lookMs: 600_000 })
    const run = newRun()
    const log = logs.create(run)
    log.append(event('a'))
    const reading = (await found(elsewhere, run.runId)).read(0, new AbortController().signal)[Symbol.asyncIterator]()
    await reading.next()
    const next = reading.next()
    await log.handOver('run_waits')
    expect((await next).value).toEqual({ first: 2, events: [] })
    await reading.return?.()
  })

  test('a reader is broken off when the log disappears with the process that wrote it', async () => {
    const prefix = `test:${randomUUID()}:`
    const redis = await connectTestRedis()
    const elsewhere = await RedisRunLogs.open(redis, { prefix })
    const logs = await RedisRunLogs.open(await connectTestRedis(), { prefix })
    const run = newRun()
    logs.create(run).append(event('a'))
    const iterator = (await found(elsewhere, run.runId)).read(0, new AbortController().signal)[Symbol.asyncIterator]()
    await iterator.next()
    await redis.commands.del(`${prefix}{${run.runId}}:events`)
    await redis.commands.sPublish(`${prefix}{${run.runId}}:n`, '2')
    await expect(iterator.next()).rejects.toMatchObject({ name: 'StreamBroken', reason: 'log_lost' })
  })
})

/** Every connection finds another life of the server, as after a restart. */
function withNewLives(redis: RedisConnection): RedisConnection {
  const commands = new Proxy(redis.commands, {
    get(client, name) {
      if (name === 'info') return async () => `run_id:${randomUUID().replaceAll('-', '')}\r\n`
      const value: unknown = Reflect.get(client, name, client)
      return typeof value === 'function' ? value.bind(client) : value
    },
  })
  return { ...redis, commands }
}
