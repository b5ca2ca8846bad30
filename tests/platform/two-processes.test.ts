import { randomUUID } from 'node:crypto'
import { connectRedis } from '@bureau/runtime'
import { describe, expect, test } from 'vitest'
import { hold, textDeltas } from '../support/fake-provider.ts'
import { closeAfterTest } from '../support/test-server.ts'
import { ENGINES, type Served, startPlatform } from './support/test-platform.ts'

const REDIS = process.env['TEST_REDIS_URL'] ?? 'redis://127.0.0.1:6379'

async function hasRedis(): Promise<boolean> {
  try {
    await (await connectRedis({ url: REDIS, onError: () => {}, firstConnectMs: 2_000 })).close()
    return true
  } catch (error) {
    if (process.env['CI']) throw error
    console.warn(`Skipped: no Redis at ${REDIS}.`)
    return false
  }
}

/** Two processes of one installation, each with a port of its own, and one model provider. */
async function startTwo(): Promise<[Served, Served]> {
  const config = { redisUrl: REDIS }
  const first = await startPlatform('postgres', { config })
  const second = await startPlatform('postgres', { config, beside: first.shared })
  closeAfterTest(async () => {
    await second.close()
    await first.close()
    await Promise.all([first.provider.close(), second.provider.close()])
  })
  return [first, second]
}

describe.skipIf(!ENGINES.includes('postgres') || !(await hasRedis()))('two processes on PostgreSQL and Redis', () => {
  test('a run is followed, resumed and cancelled through the process that does not execute it', async () => {
    const [first, second] = await startTwo()
    const here = await first.client()
    const there = here.with({ url: second.url })
    const gate = first.provider.gate()
    first.provider.script([textDeltas(['One ', 'two ', hold(gate), 'three.'])])
    const request = { usageRequestId: randomUUID() }
    const stream = await here.complete(request)
    await stream.untilText('two')

    const attached = await there.complete(request)
    const resumed = await there.follow(stream.runId, `?starting_after=${stream.ids[1]}`)
    await attached.untilText('two')
    const busy = await there.completeWhole({ chatId: stream.chatId })
    const startedAt = performance.now()
    const cancelled = await there.post(`/v1/runs/${stream.runId}/cancel`)

    expect(attached.response.headers.get('x-agent-run-replayed')).toBe('true')
    expect(busy.body.code).toBe('run_active')
    expect(cancelled.body).toMatchObject({ ok: true, cancelled: true })
    expect(performance.now() - startedAt).toBeLessThan(4_000) // at once, not with the next heartbeat
    await Promise.all([stream.all(), attached.all(), resumed.all()])
    expect(attached.frames.slice(1)).toEqual(stream.frames.slice(1))
    expect(resumed.ids).toEqual(stream.ids.slice(2))
    expect(await first.violations()).toEqual([])
  })

  test('a key that is revoked at one process is refused by the other one', async () => {
    const [first, second] = await startTwo()
    const here = await first.client()
    const issued = await here.post('/v1/api_keys', { name: 'short' })
    const other = here.with({ url: second.url, token: issued.body.token })
    expect((await other.get('/v1/agencies')).status).toBe(200)

    await here.call('DELETE', `/v1/api_keys/${issued.body.id}`)

    await expect.poll(async () => (await other.get('/v1/agencies')).status, { timeout: 3_000 }).toBe(401)
  })

  test('storms of one request over both processes: one run', async () => {
    const [first, second] = await startTwo()
    const here = await first.client()
    const there = here.with({ url: second.url })
    for (const { provider } of [first, second]) provider.respond(() => textDeltas(['The ', 'answer.']))

    for (const usageRequestId of [randomUUID(), randomUUID()]) {
      const storm = Array.from({ length: 16 }, (_, index) =>
        (index % 2 ? here : there).completeWhole({ usageRequestId }),
      )
      const answers = await Promise.all(storm)
      expect(answers.map(({ status }) => status)).toEqual(Array(16).fill(200))
      expect(new Set(answers.map(({ stream }) => stream.runId)).size).toBe(1)
      expect(new Set(answers.map(({ stream }) => stream.spoken))).toEqual(new Set(['The answer.']))
    }
    expect(await first.violations()).toEqual([])
  })

  test('whoever follows a run of a process that has died is told of its error and end as soon as the record has them', async () => {
    const [first, second] = await startTwo()
    const here = await first.client()
    const there = here.with({ url: second.url })
    const gate = first.provider.gate()
    first.provider.script([textDeltas(['One ', hold(gate), 'two.'])])
    const stream = await here.complete()
    await stream.untilText('One')
    const follower = await there.follow(stream.runId)
    await follower.untilText('One')

    await first.rows(`UPDATE replicas SET state = 'gone' WHERE boot_id = '${first.platform.replica.bootId}'`)
    await second.platform.replica.sweep()
    await follower.all()

    const recorded = (await there.get(`/v1/runs/${stream.runId}`)).body
    expect([recorded.status, recorded.error.code]).toEqual(['failed', 'runner_lost'])
    expect(follower.frames.slice(-3).map(({ event, data }) => [event, data])).toEqual([
      [null, expect.stringContaining('"code":"runner_lost"')],
      ['messages', expect.stringContaining('"status":"failed"')],
      ['end', '[DONE]'],
    ])
    gate.release()
  })

  test('a process that stops leaves the runs of others to them: its own close does not wait for their ends', async () => {
    const [first, second] = await startTwo()
    const here = await first.client()
    const gate = first.provider.gate()
    first.provider.script([textDeltas(['One ', hold(gate), 'two.'])])
    const stream = await here.complete()
    await stream.untilText('One')
    const follower = await here.with({ url: second.url }).follow(stream.runId)
    await follower.untilText('One')

    const closing = second.app.close()
    await expect(follower.all()).rejects.toThrow('terminated')
    await closing
    gate.release()
    await stream.all()

    expect(stream.spoken).toBe('One two.')
  })
})
