import { Agency, Agent, tool, type OutputGuardrail } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { TEST_REDIS_URL, testRedisReachable } from '../support/test-redis.ts'
import { hold, text, textDeltas, toolCall, usage } from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

/** A tool that works until the test lets it finish. */
function slowTool(options: { ignoresSignal?: boolean } = {}) {
  const started = Promise.withResolvers<void>()
  const finish = Promise.withResolvers<string>()
  const aborted = Promise.withResolvers<void>()
  const slow = tool({
    name: 'slow',
    description: 'Takes its time.',
    parameters: z.object({}),
    execute: async (_, { signal }) => {
      started.resolve()
      signal?.addEventListener('abort', () => aborted.resolve())
      if (options.ignoresSignal) return finish.promise
      const stop = aborted.promise.then(() => Promise.reject(new Error('stopped')))
      return Promise.race([finish.promise, stop])
    },
  })
  return {
    slow,
    started: started.promise,
    aborted: aborted.promise,
    finish: (result: string) => finish.resolve(result),
  }
}

const typesOf = (items: Json[]): string[] => items.map((item) => item.role ?? item.type)

describe('POST /<agency>/cancel_response_stream', () => {
  test('200 immediate: the stream ends as cancelled with what is complete, and the answer holds the same', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['Half', hold(gate), ' done'])])
    const stream = await server.stream('/solo/get_response_stream', { message: 'hi' })
    await stream.untilText('output_text.delta')

    const cancel = await server.post('/solo/cancel_response_stream', { run_id: stream.runId })
    await stream.all()

    expect(cancel.status).toBe(200)
    expect(cancel.body).toMatchObject({ ok: true, cancelled: true, cancel_mode: 'immediate', timed_out: false })
    expect(stream.result).toMatchObject({ cancelled: true, usage: { request_count: 1, estimated: true } })
    expect(typesOf(stream.result.new_messages)).toEqual(['user'])
    expect(cancel.body.new_messages).toEqual(stream.result.new_messages)
    expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
    await server.provider.waitForAborts(1)
  })

  test('200 immediate, while a tool runs: the call without an output is left out, its signal aborts', async () => {
    const { slow, started, aborted } = slowTool()
    const server = await startTestServer({ agencies: soloAgency({ tools: [slow] }) })
    server.provider.script([[toolCall('slow'), usage({ input: 40, output: 4 })]])
    const stream = await server.stream('/solo/get_response_stream', { message: 'hi' })
    await stream.untilText('tool_called')
    await started

    const cancel = await server.post('/solo/cancel_response_stream', { run_id: stream.runId, cancel_mode: 'immediate' })
    await Promise.all([stream.all(), aborted])

    expect(typesOf(cancel.body.new_messages)).toEqual(['user'])
    expect(stream.result.usage).toMatchObject({ request_count: 1, input_tokens: 40 })
  })

  test('200 immediate does not wait for a tool that ignores its signal', async () => {
    const { slow, started, finish } = slowTool({ ignoresSignal: true })
    const server = await startTestServer({ agencies: soloAgency({ tools: [slow] }) })
    server.provider.script([toolCall('slow')])
    const stream = await server.stream('/solo/get_response_stream', { message: 'hi' })
    await stream.untilText('tool_called')
    await started

    const cancel = await server.post('/solo/cancel_response_stream', { run_id: stream.runId })
    await stream.all()
    finish('too late')

    expect(cancel.body.ok).toBe(true)
    expect(stream.text).not.toContain('too late')
  })

  test('200 after_turn: the running turn and its tools finish, no further model request starts', async () => {
    const { slow, started, finish } = slowTool()
    const server = await startTestServer({ agencies: soloAgency({ tools: [slow] }) })
    server.provider.script([[text('Let me see.'), toolCall('slow', {}, { callId: 'call_1' })]])
    const stream = await server.stream('/solo/get_response_stream', { message: 'hi' })
    await stream.untilText('tool_called')
    await started

    const accepted = server.handled('/solo/cancel_response_stream')
    const cancelling = server.post('/solo/cancel_response_stream', { run_id: stream.runId, cancel_mode: 'after_turn' })
    await accepted
    finish('the result')
    const cancel = await cancelling
    await stream.all()

    expect(cancel.body).toMatchObject({ ok: true, cancelled: true, cancel_mode: 'after_turn' })
    expect(typesOf(cancel.body.new_messages)).toEqual(['user', 'assistant', 'function_call', 'function_call_output'])
    expect(cancel.body.new_messages.at(-1).output).toBe('the result')
    expect(stream.result.cancelled).toBe(true)
    expect(server.provider.modelRequests).toHaveLength(1)
  })

  test.each<[string, OutputGuardrail[]]>([
    ['the answer', []],
    [
      'an answer that an output guardrail would have tried again',
      [{ name: 'never', execute: async () => ({ tripwireTriggered: true, outputInfo: 'Again.' }) }],
    ],
  ])(
    '200 after_turn, while %s is written: it is finished and kept, and nothing more is asked',
    async (_, outputGuardrails) => {
      const server = await startTestServer({ agencies: soloAgency({ outputGuardrails }) })
      const gate = server.provider.gate()
      server.provider.script([textDeltas(['Half', hold(gate), ' done'])])
      const stream = await server.stream('/solo/get_response_stream', { message: 'hi', generate_chat_name: true })
      await stream.untilText('output_text.delta')

      const accepted = server.handled('/solo/cancel_response_stream')
      const cancelling = server.post('/solo/cancel_response_stream', {
        run_id: stream.runId,
        cancel_mode: 'after_turn',
      })
      await accepted
      gate.release()
      const cancel = await cancelling
      await stream.all()

      expect(stream.result).toMatchObject({ cancelled: true, usage: { request_count: 1 } })
      expect(stream.result).not.toHaveProperty('chat_name')
      expect(stream.result.new_messages[1].content[0].text).toBe('Half done')
      expect(cancel.body.new_messages).toEqual(stream.result.new_messages)
      expect(stream.outline).not.toContain('error')
      expect(server.provider.modelRequests).toHaveLength(1)
    },
  )

  test('200 after_turn lets a nested agent finish its answer', async () => {
    const { slow, started, finish } = slowTool()
    const worker = new Agent({ name: 'Worker', instructions: 'Work.', model: 'gpt-test', tools: [slow] })
    const boss = new Agent({ name: 'Boss', instructions: 'Delegate.', model: 'gpt-test' })
    const server = await startTestServer({
      agencies: { two: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) },
    })
    const message = { recipient_agent: 'Worker', message: 'Do it', additional_instructions: '' }
    server.provider.respond((request) => {
      if (request.instructions !== 'Work.') return toolCall('send_message', message)
      return request.toolOutputs.length > 0 ? text('Worker answer') : toolCall('slow')
    })
    const stream = await server.stream('/two/get_response_stream', { message: 'hi' })
    await stream.until((frame) => frame.data.includes('tool_called') && frame.data.includes('"agent":"Worker"'))
    await started

    const accepted = server.handled('/two/cancel_response_stream')
    const cancelling = server.post('/two/cancel_response_stream', { run_id: stream.runId, cancel_mode: 'after_turn' })
    await accepted
    finish('tool result')
    const cancel = await cancelling

    const last = cancel.body.new_messages.at(-1)
    expect(last).toMatchObject({ type: 'function_call_output', agent: 'Boss', output: 'Worker answer' })
    expect(server.provider.modelRequests).toHaveLength(3)
  })

  test('200 immediate, while a nested agent works: what both were asked survives, the call without an answer does not', async () => {
    const worker = new Agent({ name: 'Worker', instructions: 'Work.', model: 'gpt-test' })
    const boss = new Agent({ name: 'Boss', instructions: 'Delegate.', model: 'gpt-test' })
    const server = await startTestServer({
      agencies: { two: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) },
    })
    const message = { recipient_agent: 'Worker', message: 'Do it', additional_instructions: '' }
    server.provider.respond(({ instructions }) =>
      instructions === 'Work.'
        ? textDeltas(['Half', hold(server.provider.gate())])
        : [toolCall('send_message', message), usage({ input: 30 })],
    )
    const stream = await server.stream('/two/get_response_stream', { message: 'go' })
    await stream.untilText('"delta":"Half"')

    const cancel = await server.post('/two/cancel_response_stream', { run_id: stream.runId })
    await stream.all()

    expect(cancel.body.new_messages.map(({ agent, content }: Json) => [agent, content])).toEqual([
      ['Boss', 'go'],
      ['Worker', 'Do it'],
    ])
    expect(stream.result).toMatchObject({ cancelled: true, usage: { request_count: 2, estimated: true } })
    await server.provider.waitForAborts(1)
  })

  test('200 immediate after after_turn: the run no longer waits for its turn', async () => {
    const { slow, started } = slowTool()
    const server = await startTestServer({ agencies: soloAgency({ tools: [slow] }) })
    server.provider.script([toolCall('slow')])
    const stream = await server.stream('/solo/get_response_stream', { message: 'hi' })
    await started
    await stream.untilText('tool_called')
    const accepted = server.handled('/solo/cancel_response_stream')
    const patient = server.post('/solo/cancel_response_stream', { run_id: stream.runId, cancel_mode: 'after_turn' })
    await accepted

    const hasty = await server.post('/solo/cancel_response_stream', { run_id: stream.runId, cancel_mode: 'immediate' })

    expect(hasty.body).toMatchObject({ ok: true, cancelled: true, cancel_mode: 'immediate' })
    expect((await patient).body).toEqual({ ...hasty.body, cancel_mode: 'after_turn' })
    expect(typesOf(hasty.body.new_messages)).toEqual(['user'])
  })

  test('200 twice at once, with equal answers', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([textDeltas(['Half', hold(server.provider.gate())])])
    const stream = await server.stream('/solo/get_response_stream', { message: 'hi' })
    await stream.untilText('output_text.delta')

    const both = await Promise.all(
      [1, 2].map(() => server.post('/solo/cancel_response_stream', { run_id: stream.runId })),
    )

    expect(both.map((answer) => answer.status)).toEqual([200, 200])
    expect(both[0]!.body).toEqual(both[1]!.body)
  })

  test('200 right after the first event', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([[hold(server.provider.gate(), { before: 'headers' }), text('never')]])
    const stream = await server.stream('/solo/get_response_stream', { message: 'hi' })
    await stream.until((frame) => frame.event === 'meta')

    expect((await server.post('/solo/cancel_response_stream', { run_id: stream.runId })).body.cancelled).toBe(true)
  })

  test('404 for unknown and finished runs, and for runs of another agency', async () => {
    const server = await startTestServer({ agencies: { ...soloAgency(), other: soloAgency().solo } })
    server.provider.script([text('done'), textDeltas(['Half', hold(server.provider.gate())])])
    const finished = await (await server.stream('/solo/get_response_stream', { message: 'hi' })).all()
    const open = await server.stream('/solo/get_response_stream', { message: 'hi' })
    await open.untilText('output_text.delta')

    for (const [agency, runId] of [
      ['solo', 'nothing'],
      ['solo', finished.runId],
      ['other', open.runId],
    ]) {
      const answer = await server.post(`/${agency}/cancel_response_stream`, { run_id: runId })
      expect(answer.status).toBe(404)
      expect(answer.body.detail).toBe(`Run '${runId}' not found or already completed`)
    }
  })

  test('422 for a missing run_id and for an unknown mode', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    const missing = await server.post('/solo/cancel_response_stream', {})
    const mode = await server.post('/solo/cancel_response_stream', { run_id: 'x', cancel_mode: 'later' })

    expect(missing.body.detail[0]).toMatchObject({ type: 'missing', loc: ['body', 'run_id'] })
    expect(mode.body.detail[0]).toMatchObject({ type: 'literal_error', loc: ['body', 'cancel_mode'] })
  })
})

describe('POST /<agency>/cancel_response_stream by a client that has gone away', () => {
  const add = tool({
    name: 'add',
    description: 'Adds.',
    parameters: z.object({ a: z.number(), b: z.number() }),
    execute: ({ a, b }) => a + b,
  })
  const ANSWERS = { user: 'add', function_call: '{"a":1,"b":2}', function_call_output: '3' }

  /** A run that has used a tool and is half through its answer. */
  async function halfAnswered(server: TestServer) {
    const gate = server.provider.gate()
    const call = [toolCall('add', { a: 1, b: 2 }), usage({ input: 40, output: 4 })]
    server.provider.script([call, textDeltas(['Half', hold(gate), ' done'])])
    const stream = await server.stream('/solo/get_response_stream', { message: 'add' })
    await stream.untilText('"delta":"Half"')
    return { stream, cancel: { run_id: stream.runId } }
  }

  const textsOf = (items: Json[]): object =>
    Object.fromEntries(items.map((item) => [item.role ?? item.type, item.content ?? item.arguments ?? item.output]))

  test('200 in the same tick: the question and finished tools, as when it had stayed', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [add] }) })
    const { stream, cancel } = await halfAnswered(server)

    const [, answer] = await Promise.all([stream.hangUp(), server.post('/solo/cancel_response_stream', cancel)])

    expect(answer.status).toBe(200)
    expect(answer.body).toMatchObject({ ok: true, cancelled: true, cancel_mode: 'immediate', timed_out: false })
    expect(textsOf(answer.body.new_messages)).toEqual(ANSWERS)
    expect(answer.body.usage).toMatchObject({ request_count: 2, estimated: true })
  })

  test('200 after the run has been stopped by the hang-up, again and again, with one answer', async () => {
    const server = await startTestServer({ agencies: { ...soloAgency({ tools: [add] }), other: soloAgency().solo } })
    const { stream, cancel } = await halfAnswered(server)
    await stream.hangUp()
    await server.provider.waitForAborts(1)

    const answer = await server.post('/solo/cancel_response_stream', cancel)
    const again = await server.post('/solo/cancel_response_stream', { ...cancel, cancel_mode: 'after_turn' })

    expect([answer.status, answer.body.cancelled]).toEqual([200, true])
    expect(textsOf(answer.body.new_messages)).toEqual(ANSWERS)
    expect(again.body).toEqual({ ...answer.body, cancel_mode: 'after_turn' })
    expect((await server.post('/other/cancel_response_stream', cancel)).status).toBe(404)
  })

  test('200 from another process', async ({ skip }) => {
    if (!(await testRedisReachable())) skip('needs Redis')
    const env = { REDIS_URL: TEST_REDIS_URL }
    const server = await startTestServer({ agencies: soloAgency({ tools: [add] }), env })
    const elsewhere = await startTestServer({ agencies: soloAgency({ tools: [add] }), env })
    const { stream, cancel } = await halfAnswered(server)
    await stream.hangUp()
    await server.provider.waitForAborts(1)

    const { status, body } = await elsewhere.post('/solo/cancel_response_stream', cancel)

    expect([status, body.cancelled]).toEqual([200, true])
    expect(textsOf(body.new_messages)).toEqual(ANSWERS)
  })
})

describe('a client that goes away', () => {
  test('stops the model request of its stream', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([textDeltas(['Half', hold(server.provider.gate())])])
    const stream = await server.stream('/solo/get_response_stream', { message: 'hi' })
    await stream.untilText('output_text.delta')

    await stream.hangUp()

    await server.provider.waitForAborts(1)
    expect(server.provider.aborted).toBe(1)
  })

  test('stops the tools of its stream', async () => {
    const { slow, started, aborted } = slowTool()
    const server = await startTestServer({ agencies: soloAgency({ tools: [slow] }) })
    server.provider.script([toolCall('slow')])
    const stream = await server.stream('/solo/get_response_stream', { message: 'hi' })
    await started

    await stream.hangUp()

    expect(await aborted).toBeUndefined()
  })

  test('stops the model request of a non-streaming run', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([textDeltas(['Half', hold(server.provider.gate())])])
    const client = new AbortController()
    const body = JSON.stringify({ message: 'hi' })
    const headers = { 'content-type': 'application/json' }
    const request = fetch(`${server.url}/solo/get_response`, { method: 'POST', body, headers, signal: client.signal })
    await server.provider.waitForRequests(1)

    client.abort()

    await expect(request).rejects.toThrow('aborted')
    await server.provider.waitForAborts(1)
  })
})
