import { createHash, randomUUID } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import type { TestStream } from '../support/test-server.ts'
import { TEST_REDIS_URL, testRedisReachable } from '../support/test-redis.ts'
import { hold, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import type { Json } from './support/test-client.ts'
import { ENGINES, type Served, startTwoPlatforms } from './support/test-platform.ts'

const startTwo = (more: { readonly drainMs?: number } = {}): Promise<[Served, Served]> =>
  startTwoPlatforms({ config: { redisUrl: TEST_REDIS_URL, ...more } })

/** The first process is dead to the others, and the second one looks for what it had. */
async function kill(first: Served, second: Served): Promise<void> {
  await first.rows(`UPDATE replicas SET state = 'dead' WHERE boot_id = '${first.platform.replica.bootId}'`)
  await second.platform.replica.sweep()
}

/** The message that the model began. */
function itemOf({ frames }: TestStream): string {
  const added = frames.find(({ data }) => data.includes('response.output_item.added'))!
  return JSON.parse(added.data).data.data.item.id
}

function textOf({ new_messages: items }: Json): string {
  return items.at(-1).content[0].text
}

const SEND = { recipient_agent: 'Clerk', message: 'Is it so?', additional_instructions: '' }

const hasBoth = ENGINES.includes('postgres') && (await testRedisReachable())

describe.skipIf(!hasBoth)('two processes on PostgreSQL and Redis', () => {
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

  test('a run of a process that has died goes on in another one, and whoever follows it reads on', async () => {
    const [first, second] = await startTwo()
    const here = await first.client()
    const there = here.with({ url: second.url })
    const gate = first.provider.gate()
    first.provider.script([textDeltas(['One ', hold(gate), 'two.'])])
    second.provider.script([textDeltas(['The whole ', 'answer.'])])
    const stream = await here.complete()
    await stream.untilText('One')
    const follower = await there.follow(stream.runId)
    await follower.untilText('One')

    await kill(first, second)
    await follower.all()

    const resumed = JSON.parse(follower.frames.find(({ event }) => event === 'run_resumed')!.data)
    expect(resumed).toEqual({ attempt: 2, withdrawn: [itemOf(follower)] })
    expect(follower.frames.slice(-2).map(({ event }) => event)).toEqual(['messages', 'end'])
    expect(follower.result).toMatchObject({ status: 'completed', usage: { request_count: 2, estimated: true } })
    expect(textOf(follower.result)).toBe('The whole answer.')
    expect(follower.ids).toEqual(follower.ids.toSorted((a, b) => a - b))
    const recorded = (await there.get(`/v1/runs/${stream.runId}?include=output`)).body
    expect(recorded).toMatchObject({
      status: 'completed',
      outputText: 'The whole answer.',
      usage: { request_count: 2 },
    })
    const later = await (await there.follow(stream.runId)).all()
    expect(later.frames.slice(1)).toEqual(follower.frames.slice(1))

    await first.platform.replica.beat() // it learns that it was declared dead
    await expect(stream.all()).rejects.toThrow('terminated')
    gate.release()
    expect(await first.violations()).toEqual([])
  })

  test('a reader of plain text whose text was withdrawn is cut off, and finds the answer in the record', async () => {
    const [first, second] = await startTwo()
    const here = await first.client({ textOnlyMode: true })
    const there = here.with({ url: second.url })
    const gate = first.provider.gate()
    first.provider.script([textDeltas(['One ', hold(gate), 'two.'])])
    second.provider.script([textDeltas(['The whole ', 'answer.'])])
    const started = await here.complete()
    const response = await there.fetch('GET', `/v1/runs/${started.runId}/text`)
    const reader = response.body!.getReader()
    expect(new TextDecoder().decode((await reader.read()).value)).toBe('One ')

    await kill(first, second)

    await expect(reader.read()).rejects.toThrow('terminated')
    await expect
      .poll(async () => (await there.get(`/v1/runs/${started.runId}?include=output`)).body.outputText)
      .toBe('The whole answer.')
    gate.release()
  })

  test('a run whose integration wants it fails with its process: whoever follows it reads its error and its end', async () => {
    const [first, second] = await startTwo()
    const here = await first.client({ whenRunnerLost: 'fail' })
    const there = here.with({ url: second.url })
    const gate = first.provider.gate()
    first.provider.script([textDeltas(['One ', hold(gate), 'two.'])])
    const stream = await here.complete()
    await stream.untilText('One')
    const follower = await there.follow(stream.runId)
    await follower.untilText('One')

    await kill(first, second)
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

  test.each([
    ['other content is refused, and the file is what the checksum says', 'other', [409, 'upload_complete']],
    ['the same content is answered alike', 'first', [200, undefined]],
  ])('of two that send one upload to two processes one is taken: %s', async (_what, late, refusal) => {
    const [first, second] = await startTwo()
    const here = await first.client()
    const announced = { apiIntegrationId: here.integrationId, name: 'a.txt', size: 5 }
    const { body: upload } = await here.post('/create_agency_upload', announced)
    const { pathname, search } = new URL(upload.uploadUrl)
    const rest = Promise.withResolvers<void>()
    const slowly = async function* () {
      yield Buffer.from(late.slice(0, 2))
      await rest.promise
      yield Buffer.from(late.slice(2))
    }
    const body = ReadableStream.from(slowly())
    const slow = fetch(here.url + pathname + search, { method: 'PUT', body, duplex: 'half' })
    await expect.poll(() => readdir(path.join(first.dataFolder, 'staging'))).toHaveLength(1)

    const taken = await here.with({ url: second.url }).call('PUT', pathname + search, 'first')
    rest.resolve()
    const answered = await slow

    const place = `/v1/integrations/${here.integrationId}/files/content?path=${encodeURIComponent(upload.path)}`
    expect([taken.status, taken.body.sha256]).toEqual([200, createHash('sha256').update('first').digest('hex')])
    expect([answered.status, ((await answered.json()) as Json).code]).toEqual(refusal)
    expect((await here.get(place)).text).toBe('first')
  })

  test('a process that stops gives up the runs that outlast its drain, and their readers come again elsewhere', async () => {
    const [first, second] = await startTwo({ drainMs: 50 })
    const here = await first.client()
    const gate = first.provider.gate()
    first.provider.script([toolCall('send_message', SEND), textDeltas(['One ', hold(gate), 'two.'])])
    second.provider.script([text('The clerk says so.'), text('So it is.')])
    const stream = await here.complete()
    await stream.untilText('One')

    const closing = first.app.close()
    await stream.all()
    const seen = stream.ids.at(-1)
    const follower = await here.with({ url: second.url }).follow(stream.runId, `?starting_after=${seen}`)
    await follower.all()
    await closing

    expect(stream.text.endsWith('retry: 500\n\n')).toBe(true)
    expect(stream.frames.some(({ event }) => event === 'end')).toBe(false)
    expect(follower.frames.at(1)?.event).toBe('run_resumed')
    expect(follower.result).toMatchObject({ status: 'completed', usage: { request_count: 4 } })
    expect(textOf(follower.result)).toBe('So it is.')
    const sent = follower.result.new_messages.filter((item: Json) => item.type === 'function_call_output')
    expect(sent).toMatchObject([{ output: 'The clerk says so.' }])
    gate.release()
    expect(await second.violations()).toEqual([])
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
    await follower.all()
    expect(follower.text.endsWith('retry: 500\n\n')).toBe(true)
    await closing
    gate.release()
    await stream.all()

    expect(stream.spoken).toBe('One two.')
  })
})
