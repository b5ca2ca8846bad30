import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { connectTestRedis, TEST_REDIS_URL } from '../support/test-redis.ts'
import { startCuttingProxy } from '../support/cutting-proxy.ts'
import { hold, text, textDeltas } from '../support/fake-provider.ts'
import { closeAfterTest } from '../support/test-server.ts'
import { ENGINES, startTwoPlatforms } from './support/test-platform.ts'

describe.skipIf(!ENGINES.includes('postgres'))('two processes while Redis is away', () => {
  test('start, say so, follow each other by the records, and use Redis when it is back', async () => {
    const redis = await startCuttingProxy(TEST_REDIS_URL)
    redis.shut()
    const [first, second] = await startTwoPlatforms({ config: { redisUrl: redis.url } })
    const here = await first.client()
    const there = here.with({ url: second.url })
    const readiness = async () => (await there.get('/readyz')).body as unknown
    expect(await readiness()).toEqual({ status: 'ok', degraded: ['redis'] })

    const gate = first.provider.gate()
    first.provider.script([textDeltas(['One ', 'two ', hold(gate), 'three.'])])
    const stream = await here.complete()
    await stream.untilText('two')
    const followed = await there.follow(stream.runId)
    await followed.untilText('two')
    gate.release()
    await Promise.all([stream.all(), followed.all()])
    expect(followed.ids).toEqual(stream.ids)
    expect(followed.frames.at(-1)?.event).toBe('end')

    redis.open()
    await expect.poll(readiness).toEqual({ status: 'ok' })
    const nextGate = first.provider.gate()
    first.provider.script([textDeltas(['Four ', hold(nextGate), 'five.'])])
    const next = await here.complete()
    await next.untilText('Four')
    const nextThere = await there.follow(next.runId)
    await nextThere.untilText('Four')
    nextGate.release()
    await Promise.all([next.all(), nextThere.all()])
    expect(nextThere.ids).toEqual(next.ids)
    expect(await first.violations()).toEqual([])
  })

  test('a reader of another process leaves a Redis that refuses writes, and goes on by the records', async () => {
    const user = await redisUser()
    const [first, second] = await startTwoPlatforms({ config: { redisUrl: user.url } })
    const here = await first.client()
    const there = here.with({ url: second.url })
    const gates = [first.provider.gate(), first.provider.gate()] as const
    first.provider.script([textDeltas(['One ', hold(gates[0]), 'two ', hold(gates[1]), 'three.'])])
    second.provider.script([text('Other.')])
    const stream = await here.complete()
    await stream.untilText('One')
    const followed = await there.follow(stream.runId)
    await followed.untilText('One')

    await user.refuseWrites()
    await there.completeWhole()
    gates[0].release()
    await stream.untilText('two')
    await expect(followed.all()).rejects.toThrow('terminated')
    const again = await there.follow(stream.runId)
    await again.untilText('two')
    gates[1].release()
    await Promise.all([stream.all(), again.all()])

    expect(again.ids).toEqual(stream.ids)
  })
})

/** A user of Redis who may do everything, and loses the right to write. */
async function redisUser() {
  const redis = await connectTestRedis()
  const name = `test-${randomUUID()}`
  const change = (...rules: string[]): Promise<unknown> =>
    redis.commands.sendCommand(['ACL', 'SETUSER', name, ...rules])
  await change('on', '>secret', '~*', '&*', '+@all')
  closeAfterTest(() => redis.commands.sendCommand(['ACL', 'DELUSER', name]))
  const url = Object.assign(new URL(TEST_REDIS_URL), { username: name, password: 'secret' }).href
  return { url, refuseWrites: () => change('-@write') }
}
