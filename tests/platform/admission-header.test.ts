import { randomUUID } from 'node:crypto'
import { CommitUnknownError } from '@bureau/platform/testing'
import { ServiceError } from '@bureau/protocol'
import { beforeEach, describe, expect, test } from 'vitest'
import { hold, text, textDeltas } from '../support/fake-provider.ts'
import { ENGINES, servePlatform } from './support/test-platform.ts'

/** What the database is to fail with, by the name of the operation. */
const faults = new Map<string, Error>()

describe.each(ENGINES)('X-Agent-Run-Admitted when the records fail on %s', (engine) => {
  const platform = servePlatform(engine, {
    intercept: (operation) => {
      const fault = faults.get(operation)
      faults.delete(operation)
      return fault
    },
  })
  beforeEach(() => faults.clear())

  test('is absent when nobody can know whether a run was reserved', async () => {
    const client = await platform.client()
    faults.set('admitRun', new CommitUnknownError('the answer to COMMIT was lost'))

    const answer = await client.completeWhole()

    expect([answer.status, answer.body.code]).toEqual([500, 'internal_error'])
    expect(answer.headers.has('x-agent-run-admitted')).toBe(false)
  })

  test.each([
    [503, 'database_unavailable', new ServiceError('database_unavailable')],
    [503, 'overloaded', new ServiceError('overloaded')],
    [503, 'server_draining', new ServiceError('server_draining')],
    [500, 'internal_error', new Error('a defect with a canary')],
  ])('is false for %i %s before the reservation', async (status, code, error) => {
    const client = await platform.client()
    faults.set('admitRun', error)

    const answer = await client.completeWhole()

    expect([answer.status, answer.body.code]).toEqual([status, code])
    expect(answer.headers.get('x-agent-run-admitted')).toBe('false')
    expect(answer.headers.has('retry-after')).toBe(status === 503)
    expect(answer.text).not.toContain('canary')
    expect((await client.get('/v1/runs')).body.data).toEqual([])
  })

  test('is true, with the run, when the run is reserved and cannot be shown', async () => {
    const client = await platform.client()
    platform.provider.script([text('Hello.')])
    const request = { usageRequestId: randomUUID() }
    const first = await client.completeWhole(request)
    faults.set('getRun', new ServiceError('database_unavailable'))

    const again = await client.completeWhole(request)

    expect(again.status).toBe(503)
    expect(again.headers.get('x-agent-run-admitted')).toBe('true')
    expect(again.headers.get('x-agent-run-id')).toBe(first.stream.runId)
  })

  test('a run whose end cannot be recorded at first ends all the same, and nobody sees an end before', async () => {
    const client = await platform.client()
    platform.provider.script([text('Hello.')])
    faults.set('recordOutcome', new ServiceError('database_unavailable'))

    const { stream } = await client.completeWhole()

    expect(stream.result.status).toBe('completed')
    expect(await platform.violations()).toEqual([])
  })

  test('progress that cannot be written at first is written with the end, once', async () => {
    const client = await platform.client()
    platform.provider.script([text('Hello.')])
    faults.set('recordRunProgress', new CommitUnknownError('lost'))

    const { stream } = await client.completeWhole()

    expect((await client.get(`/v1/chats/${stream.chatId}/messages`)).body.data).toHaveLength(2)
    expect((await client.get('/v1/usage/records')).body.data[0].usage.request_count).toBe(1)
    expect(await platform.violations()).toEqual([])
  })

  test('a run that nobody learned of is begun by the process that it names, also when the database is away at first', async () => {
    const client = await platform.client()
    platform.provider.script([text('Late, but here.')])
    const usageRequestId = randomUUID()
    const { executor, replica } = platform.platform
    const { start } = executor
    executor.start = () => {
      throw new Error('the answer was lost')
    }
    const lost = await client.completeWhole({ usageRequestId })
    executor.start = start

    expect(lost.headers.get('x-agent-run-admitted')).toBe('true')
    await platform.rows(
      `UPDATE runs SET created_at = now() - interval '1 minute' WHERE usage_request_id = '${usageRequestId}'`,
    )
    faults.set('startRun', new ServiceError('database_unavailable'))
    await executor.adopt(replica.bootId)

    const found = await client.completeWhole({ usageRequestId })
    expect(found.stream.spoken).toBe('Late, but here.')
    expect(found.stream.runId).toBe(lost.headers.get('x-agent-run-id'))
  })
})

describe.each(ENGINES)('a run that its own process has lost on %s', (engine) => {
  const platform = servePlatform(engine)

  test('is taken up again, so that it ends and its chat can be used', async () => {
    const client = await platform.client()
    const gate = platform.provider.gate()
    platform.provider.script([textDeltas(['a', hold(gate), 'b']), text('Again.'), text('Next.')])
    const { executor, replica } = platform.platform
    const stream = await client.complete()
    await stream.untilText('"delta":"a"')

    executor.find(stream.runId)!.fence() // a defect of ours would do the same
    await expect.poll(() => executor.find(stream.runId)).toBeUndefined()
    await platform.rows(`UPDATE runs SET created_at = now() - interval '1 minute' WHERE id = '${stream.runId}'`)
    await executor.adopt(replica.bootId)

    const resumed = await (await client.follow(stream.runId)).all()
    expect(resumed.frames.at(-1)?.event).toBe('end')
    expect((await client.get(`/v1/runs/${stream.runId}`)).body).toMatchObject({ status: 'completed', error: null })
    expect((await client.completeWhole({ chatId: stream.chatId })).stream.spoken).toBe('Next.')
    expect(await platform.violations()).toEqual([])
  })
})
