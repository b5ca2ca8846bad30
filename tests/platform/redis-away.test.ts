import { describe, expect, test, vi } from 'vitest'
import { CuttingProxy } from '../faults/cutting-proxy.ts'
import { hold, textDeltas } from '../support/fake-provider.ts'
import { closeAfterTest } from '../support/test-server.ts'
import { ENGINES, startPlatform } from './support/test-platform.ts'

const REDIS = new URL(process.env['TEST_REDIS_URL'] ?? 'redis://127.0.0.1:6379')

describe.skipIf(!ENGINES.includes('postgres'))('two processes while Redis is away', () => {
  test('start, say so, follow each other by the records, and use Redis when it is back', async () => {
    const redis = await CuttingProxy.start({ host: REDIS.hostname, port: Number(REDIS.port || 6379) })
    redis.shut()
    const config = { redisUrl: `redis://127.0.0.1:${redis.port}` }
    const first = await startPlatform('postgres', { config })
    const second = await startPlatform('postgres', { config, beside: first.shared })
    closeAfterTest(async () => {
      await second.close()
      await first.close()
      redis.close()
      await Promise.all([first.provider.close(), second.provider.close()])
    })
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
    await vi.waitFor(async () => expect(await readiness()).toEqual({ status: 'ok' }), 10_000)
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
})
