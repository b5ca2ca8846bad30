import { textOf } from '@bureau/protocol'
import { describe, expect, test } from 'vitest'
import { cut, failed, hold, refusal, status, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import type { Json } from './support/test-client.ts'
import { ENGINES, servePlatform, testRecords } from './support/test-platform.ts'

describe.each(ENGINES)('POST /get_completion_v2 on %s', (engine) => {
  const platform = servePlatform(engine)

  test('200 streams meta, what happens, messages and end', async () => {
    const client = await platform.client()
    platform.provider.script([textDeltas(['Good ', 'day.'])])

    const { stream, headers } = await client.completeWhole()

    expect(stream.response.status).toBe(200)
    expect(headers.get('content-type')).toBe('text/event-stream')
    expect(headers.get('x-agent-run-admitted')).toBe('true')
    expect(headers.get('x-agent-run-replayed')).toBeNull()
    expect(headers.get('cache-control')).toBe('no-cache, no-transform')
    expect(stream.meta).toEqual({
      run_id: expect.stringMatching(/^run_[0-9a-z]{26}$/),
      chatId: expect.stringMatching(/^chat_[0-9a-z]{26}$/),
      aliasChatId: null,
      usageRequestId: null,
      agent: 'CEO',
      created_at: expect.stringMatching(/Z$/),
      resumed: false,
      replayed: false,
      resume_from: 0,
      events_url: `${platform.url}/v1/runs/${stream.runId}/events`,
    })
    expect(stream.frames[0]?.id).toBeNull()
    expect(stream.text.startsWith('retry: 2000\n')).toBe(true)
    expect(stream.spoken).toBe('Good day.')
    expect(stream.ids).toEqual(stream.ids.map((_, index) => index + 1))
    expect(stream.result).toMatchObject({
      run_id: stream.runId,
      chatId: stream.chatId,
      status: 'completed',
      cancelled: false,
      usage: { request_count: 1 },
    })
    expect(stream.result.new_messages.map((item: { role: string }) => item.role)).toEqual(['assistant'])
    expect(stream.frames.at(-1)).toMatchObject({ event: 'end', data: '[DONE]' })
  })

  test('the next message of a chat sees the earlier ones', async () => {
    const client = await platform.client()
    platform.provider.script([text('Paris.'), text('About two million.')])

    const first = await client.completeWhole({ message: 'What is the capital of France?' })
    const second = await client.completeWhole({ message: 'How many live there?', chatId: first.stream.chatId })

    expect(second.stream.chatId).toBe(first.stream.chatId)
    const input = platform.provider.modelRequests.at(-1)!.body['input'] as { content: unknown }[]
    expect(JSON.stringify(input)).toContain('capital of France')
    expect(JSON.stringify(input)).toContain('Paris.')
    expect(JSON.stringify(input)).not.toContain('callerAgent')
    const history = await client.get(`/v1/chats/${first.stream.chatId}/messages`)
    expect(history.body.data.map((m: { role: string; status: string }) => [m.role, m.status])).toEqual([
      ['user', 'ok'],
      ['assistant', 'ok'],
      ['user', 'ok'],
      ['assistant', 'ok'],
    ])
  })

  test('when a response fails, its complete message is in the history once, and so is a partial one', async () => {
    const client = await platform.client()
    platform.provider.script([
      [text('A whole sentence.'), failed('server_error')],
      [textDeltas(['Half a ', 'sent']), cut({ how: 'reset', after: 5 })],
      text('Fine now.'),
    ])

    const first = await client.completeWhole({ message: 'One' })
    const { chatId } = first.stream
    await client.completeWhole({ chatId, message: 'Two' })
    await client.completeWhole({ chatId, message: 'Three' })

    const history = await client.get(`/v1/chats/${chatId}/messages`)
    expect(history.body.data.map((m: Json) => [m.role, m.status, textOf(m.item.content)])).toEqual([
      ['user', 'ok', 'One'],
      ['assistant', 'failed', 'A whole sentence.'],
      ['user', 'ok', 'Two'],
      ['assistant', 'failed', expect.stringMatching(/^Half a /)],
      ['user', 'ok', 'Three'],
      ['assistant', 'ok', 'Fine now.'],
    ])
    const input = JSON.stringify(platform.provider.modelRequests.at(-1)!.body['input'])
    expect(input.split('A whole sentence.')).toHaveLength(2)
  })

  test('a refusal of the model is its answer', async () => {
    const client = await platform.client()
    platform.provider.script([refusal('I will not do that.')])

    const { stream } = await client.completeWhole()

    const run = await client.get(`/v1/runs/${stream.runId}?include=output`)
    expect(run.body).toMatchObject({ status: 'completed', outputText: 'I will not do that.' })
  })

  test('an agent that asks another one: both are in the history, only one speaks to the user', async () => {
    const client = await platform.client()
    platform.provider.script([
      toolCall('send_message', { recipient_agent: 'Clerk', message: 'Any boots?' }),
      text('Twelve pairs.'),
      text('We have twelve.'),
    ])

    const { stream } = await client.completeWhole({ message: 'Do you have boots?' })

    expect(stream.result.status).toBe('completed')
    expect(stream.result.usage.request_count).toBe(3)
    const run = await client.get(`/v1/runs/${stream.runId}?include=output`)
    expect(run.body).toMatchObject({ status: 'completed', outputText: 'We have twelve.', usage: { request_count: 3 } })
    expect(run.body.newMessages).toEqual(stream.result.new_messages)
    const records = await client.get('/v1/usage/records')
    expect(records.body.data[0]).toMatchObject({ runId: stream.runId, usage: { request_count: 3 } })
  })

  test('409 while the previous run of the chat is active, and the run can be cancelled by its id', async () => {
    const client = await platform.client()
    const gate = platform.provider.gate()
    platform.provider.script([textDeltas(['Let me ', hold(gate), 'see.']), text('Hello again.')])
    const first = await client.complete()
    await first.untilText('Let me')

    const refused = await client.completeWhole({ chatId: first.chatId })

    expect(refused.status).toBe(409)
    expect(refused.body).toEqual({ error: 'The previous run of this chat is still active.', code: 'run_active' })
    expect(refused.headers.get('x-agent-run-admitted')).toBe('false')
    expect(refused.headers.get('x-agent-active-run-id')).toBe(first.runId)
    expect(refused.headers.get('x-agent-active-run-events')).toBe(`${platform.url}/v1/runs/${first.runId}/events`)
    expect(refused.headers.get('retry-after')).toBe('2')

    const cancelled = await client.post(`/v1/runs/${first.runId}/cancel`)
    expect(cancelled.status).toBe(200)
    expect(cancelled.body).toMatchObject({
      ok: true,
      cancelled: true,
      cancel_mode: 'immediate',
      run: { status: 'cancelled' },
    })
    expect((await first.all()).result).toMatchObject({ status: 'cancelled', cancelled: true })
    expect((await client.completeWhole({ chatId: first.chatId })).stream.spoken).toBe('Hello again.')
  })

  test('a failed run says so in the stream and stays in the history', async () => {
    const client = await platform.client()
    platform.provider.script([status(401, { message: 'bad key sk-secret' })])

    const { stream } = await client.completeWhole()

    const error = stream.frames.find(({ data }) => data.startsWith('{"error"'))
    expect(JSON.parse(error!.data)).toEqual({ error: expect.any(String), code: 'upstream_auth_failed' })
    expect(stream.text).not.toContain('sk-secret')
    expect(stream.result).toMatchObject({
      status: 'failed',
      error: { code: 'upstream_auth_failed', class: 'upstream', retryable: false },
    })
    const history = await client.get(`/v1/chats/${stream.chatId}/messages`)
    expect(history.body.data.map((m: { status: string }) => m.status)).toEqual(['ok', 'failed'])
  })

  test('a failed message of the history says why, in public words', async () => {
    const client = await platform.client()
    platform.provider.script([text('Hello.'), status(401, { message: 'bad key sk-secret' }), text('Better.')])
    const { chatId } = (await client.completeWhole()).stream
    const failed = await client.completeWhole({ chatId })
    await client.completeWhole({ chatId })

    for (const order of ['asc', 'desc']) {
      const { body, text: raw } = await client.get(`/v1/chats/${chatId}/messages?order=${order}`)
      const errors = (body.data as Json[]).map((message) => message.error)
      expect(order === 'asc' ? errors : errors.toReversed()).toEqual([
        null,
        null,
        null,
        failed.stream.result.error,
        null,
        null,
      ])
      expect(errors).toContainEqual(
        expect.objectContaining({ code: 'upstream_auth_failed', message: expect.any(String) }),
      )
      expect(raw).not.toContain('sk-secret')
    }
  })

  test.each([
    [400, 'upstream_invalid_request'],
    [403, 'upstream_auth_failed'],
    [404, 'upstream_invalid_request'],
  ])('a provider that answers %i ends the run as %s, which is not worth a retry', async (refusal, code) => {
    const client = await platform.client()
    platform.provider.respond(() => status(refusal, { message: 'no' }))

    const { stream } = await client.completeWhole()

    expect(stream.result.error).toMatchObject({ code, class: 'upstream', retryable: false })
    expect((await client.get(`/v1/runs/${stream.runId}`)).body.error).toEqual(stream.result.error)
  })

  testRecords(platform)
})
