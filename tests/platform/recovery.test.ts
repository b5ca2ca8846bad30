import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { hold, status, text, textDeltas } from '../support/fake-provider.ts'
import { closeAfterTest } from '../support/test-server.ts'
import { ENGINES, servePlatform, startPlatform } from './support/test-platform.ts'

describe.each(ENGINES)('recovery on %s', (engine) => {
  const platform = servePlatform(engine)

  test('the same request with the same id attaches to its run: one run, one charge, the same frames', async () => {
    const client = await platform.client({ memberAllowancesEnabled: true })
    await client.post(`/v1/integrations/${client.integrationId}/members`, { consumerId: 'u-1' })
    const gate = platform.provider.gate()
    platform.provider.script([textDeltas(['One ', hold(gate), 'answer.'])])
    const request = { consumerId: 'u-1', usageRequestId: randomUUID(), message: 'Hello' }

    const first = await client.complete(request)
    await first.untilText('One')
    const second = await client.complete(request)
    await second.untilText('One')
    gate.release()
    await Promise.all([first.all(), second.all()])
    const third = await (await client.complete(request)).all()

    expect(second.response.headers.get('x-agent-run-admitted')).toBe('true')
    expect(second.response.headers.get('x-agent-run-replayed')).toBe('true')
    expect([second.runId, third.runId]).toEqual([first.runId, first.runId])
    expect([second.meta.resumed, third.meta.resumed, first.meta.resumed]).toEqual([true, true, false])
    const frames = first.frames.slice(1)
    expect(second.frames.slice(1)).toEqual(frames)
    expect(third.frames.slice(1)).toEqual(frames)
    const member = await client.get(`/v1/integrations/${client.integrationId}/members/u-1`)
    expect(member.body.allowance.used.messages).toBe(1)
    expect((await client.get('/v1/runs')).body.data).toHaveLength(1)
  })

  test('storms of one request: one run, everybody gets its answer', async () => {
    const client = await platform.client()
    platform.provider.respond(() => text('The answer.'))

    for (const usageRequestId of [randomUUID(), randomUUID(), randomUUID()]) {
      const storm = Array.from({ length: 20 }, () =>
        client.completeWhole({ usageRequestId, aliasChatId: usageRequestId }),
      )
      const answers = await Promise.all(storm)

      expect(answers.map(({ status: code }) => code)).toEqual(Array(20).fill(200))
      expect(new Set(answers.map(({ stream }) => stream.runId)).size).toBe(1)
      expect(answers.filter(({ headers }) => !headers.has('x-agent-run-replayed'))).toHaveLength(1)
      expect(new Set(answers.map(({ stream }) => stream.spoken))).toEqual(new Set(['The answer.']))
    }
    expect(await platform.violations()).toEqual([])
  })

  test('storms on one alias: one is admitted at a time, the others are told which run to wait for', async () => {
    const client = await platform.client()
    const gate = platform.provider.gate()
    platform.provider.respond(() => textDeltas(['a', hold(gate), 'b']))
    const aliasChatId = randomUUID()

    const storm = await Promise.all(Array.from({ length: 20 }, () => client.complete({ aliasChatId })))
    gate.release()
    const answers = await Promise.all(storm.map((stream) => stream.all()))

    const admitted = answers.filter(({ response }) => response.status === 200)
    expect(admitted).toHaveLength(1)
    expect(answers.filter(({ response }) => response.status === 409)).toHaveLength(19)
    expect((await client.get('/v1/chats')).body.data).toHaveLength(1)
    expect(await platform.violations()).toEqual([])
  })

  test('the status tells what to do next, and 404 that the same request is safe', async () => {
    const client = await platform.client()
    const gate = platform.provider.gate()
    platform.provider.script([textDeltas(['a', hold(gate), 'b']), status(401, { message: 'no' })])
    const usageRequestId = randomUUID()
    const statusOf = (id: string) =>
      client.get(`/v1/chat_status?apiIntegrationId=${client.integrationId}&usageRequestId=${id}`)

    expect((await statusOf(usageRequestId)).body.code).toBe('usage_request_not_found')
    const stream = await client.complete({ usageRequestId })
    await stream.untilText('"delta":"a"')
    const running = await statusOf(usageRequestId)
    expect(running.body).toMatchObject({
      object: 'chat_status',
      chatId: stream.chatId,
      chatState: 'busy',
      activeRunId: stream.runId,
      usageRequestId,
      run: { runId: stream.runId, status: 'running' },
      recovery: { action: 'attach', eventsUrl: `${platform.url}/v1/runs/${stream.runId}/events` },
    })
    gate.release()
    await stream.all()
    expect((await statusOf(usageRequestId)).body).toMatchObject({
      chatState: 'idle',
      activeRunId: null,
      run: { status: 'completed' },
      recovery: { action: 'use_result', eventsUrl: null },
    })
    const failedId = randomUUID()
    await client.completeWhole({ usageRequestId: failedId, chatId: stream.chatId })
    expect((await statusOf(failedId)).body.recovery).toMatchObject({ action: 'new_request' })
    expect((await client.get(`/v1/chats/${stream.chatId}/status`)).body.usageRequestId).toBe(failedId)
  })

  test('a stream goes on after any of its events, by header or query', async () => {
    const client = await platform.client()
    const gate = platform.provider.gate()
    platform.provider.script([textDeltas(['One ', hold(gate), 'two ', 'three.'])])
    const first = await client.complete()
    const seen = await first.untilText('One')

    const byHeader = await client.follow(first.runId, '', { headers: { 'last-event-id': seen.id! } })
    const byQuery = await client.follow(first.runId, `?starting_after=${seen.id}`, {
      headers: { 'last-event-id': '0' },
    })
    gate.release()
    await Promise.all([first.all(), byHeader.all(), byQuery.all()])
    const rest = first.frames.slice(first.frames.indexOf(seen) + 1)
    expect(byHeader.meta).toMatchObject({ resumed: true, replayed: false, resume_from: Number(seen.id) })
    expect(byHeader.frames.slice(1)).toEqual(rest)
    expect(byQuery.frames.slice(1)).toEqual(rest)
    for (const at of first.ids) {
      const resumed = await (await client.follow(first.runId, `?starting_after=${at}`)).all()
      if (at === first.ids.at(-1)) expect(resumed.response.status).toBe(204)
      else expect(resumed.ids).toEqual(first.ids.filter((id) => id > at))
    }
    for (const wrong of ['-1', 'x', '1.5', '99999999999999999']) {
      const refused = await client.get(`/v1/runs/${first.runId}/events?starting_after=${wrong}`)
      expect([refused.status, refused.body.code]).toEqual([400, 'invalid_last_event_id'])
    }
  })

  test('a client that leaves does not stop its run', async () => {
    const client = await platform.client()
    const gate = platform.provider.gate()
    platform.provider.script([textDeltas(['One ', hold(gate), 'two.'])])
    const first = await client.complete()
    await first.untilText('One')

    await first.hangUp()
    const second = await client.follow(first.runId)
    gate.release()

    expect((await second.all()).result.status).toBe('completed')
    expect(second.spoken).toBe('One two.')
  })

  test('a client that leaves before its run is reserved gets none', async () => {
    const client = await platform.client()
    const usageRequestId = randomUUID()
    const body = JSON.stringify(client.completion({ usageRequestId }))
    const { hostname, port } = new URL(platform.url)
    const socket = connect(Number(port), hostname)
    const head = `POST /get_completion_v2 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${client.token}\r\nContent-Type: application/json\r\n`
    // Half of the body, and then nothing more.
    socket.write(`${head}Content-Length: ${body.length}\r\n\r\n${body.slice(0, 10)}`)
    await new Promise((resolve) => socket.once('connect', resolve))
    socket.destroy()

    await client.get('/v1/agencies')
    const answer = await client.get(
      `/v1/chat_status?apiIntegrationId=${client.integrationId}&usageRequestId=${usageRequestId}`,
    )
    expect(answer.body.code).toBe('usage_request_not_found')
  })

  test('a cancel is exact, repeatable, and says when it came too late', async () => {
    const client = await platform.client()
    const gate = platform.provider.gate()
    platform.provider.script([textDeltas(['a', hold(gate), 'b']), text('Done.')])
    const stream = await client.complete()
    await stream.untilText('"delta":"a"')
    const cancel = (body?: object) => client.post(`/v1/runs/${stream.runId}/cancel`, body)

    const early = await cancel({ cancel_mode: 'after_turn', waitMs: 0 })
    expect([early.status, early.body.ok, early.body.cancelled]).toEqual([202, false, false])
    expect(early.body).toMatchObject({ cancel_mode: 'after_turn', new_messages: [], run: { status: 'cancelling' } })
    const [one, two] = await Promise.all([cancel(), cancel()])
    expect([one.status, two.status, one.body.cancelled, two.body.cancelled]).toEqual([200, 200, true, true])
    expect((await stream.all()).result).toMatchObject({ status: 'cancelled', cancelled: true })
    await platform.provider.waitForAborts(1)

    const finished = await client.completeWhole({ chatId: stream.chatId })
    const late = await client.post(`/v1/runs/${finished.stream.runId}/cancel`)
    expect(late.body).toMatchObject({ ok: true, cancelled: false, run: { status: 'completed' } })
    expect((await cancel({ cancel_mode: 'later' })).status).toBe(400)
    expect(await platform.violations()).toEqual([])
  })

  test('a cancel whose run is given up meanwhile looks at the record now and then until its time is over', async () => {
    const operations: string[] = []
    const own = await startPlatform(engine, { intercept: (name) => void operations.push(name) })
    closeAfterTest(() => own.close())
    const { executor, replica } = own.platform
    const client = await own.client()
    own.provider.script([textDeltas(['a', hold(own.provider.gate()), 'b'])])
    const stream = await client.complete()
    await stream.untilText('"delta":"a"')
    const asked = once(executor.find(stream.runId)!.control.stopSignal, 'abort')

    const cancelling = client.post(`/v1/runs/${stream.runId}/cancel`, { cancel_mode: 'after_turn', waitMs: 1_000 })
    await asked
    executor.fence(replica.bootId)
    const { status: code, body } = await cancelling

    expect([code, body.ok, body.run.status]).toEqual([202, false, 'cancelling'])
    expect(operations.filter((name) => name === 'getRun').length).toBeLessThan(12)
  })

  test('with onDisconnect=cancel a run that nobody follows is not cancelled while a client follows', async () => {
    const client = await platform.client({ onDisconnect: 'cancel' })
    const gate = platform.provider.gate()
    platform.provider.script([textDeltas(['a', hold(gate), 'b'])])
    const first = await client.complete()
    await first.untilText('"delta":"a"')
    const second = await client.follow(first.runId)
    await second.untilText('"delta":"a"')
    await first.hangUp()
    gate.release()
    expect((await second.all()).result.status).toBe('completed')
  })
})
