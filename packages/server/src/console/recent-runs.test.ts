import { Agency, Agent, tool } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { hold, status, text, textDeltas, toolCall, type Turn } from '../../../../tests/support/fake-provider.ts'
import { type Json, soloAgency, startTestServer, type TestServer } from '../../../../tests/support/test-server.ts'

const divide = tool({
  name: 'divide',
  description: 'Divides two numbers.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => {
    if (b === 0) throw new Error('cannot divide by zero', { cause: new RangeError('b is 0') })
    return a / b
  },
})

const refund = tool({
  name: 'refund',
  description: 'Pays money back.',
  parameters: z.object({ euros: z.number() }),
  needsApproval: true,
  execute: ({ euros }) => `${euros} euros are paid back.`,
})

const refundCall = (euros: number): Turn => toolCall('refund', { euros }, { callId: `call_${euros}` })

const statusesOf = async (server: TestServer): Promise<string[][]> =>
  (await server.get('/console/runs')).body.runs.map((run: Record<string, string>) => [run['status'], run['message']])

/** Decides on what the last of the answers waits for, as a client does that has all of their messages. */
function decide(server: TestServer, answers: readonly Json[], approve: boolean): ReturnType<TestServer['post']> {
  const history = answers.flatMap(({ new_messages: messages }) => messages)
  const approvals = answers.at(-1)!.approvals.map(({ call_id, token }: Json) => ({ call_id, token, approve }))
  return server.post('/solo/get_response', { chat_history: history, approvals })
}

function pairAgency(): { pair: Agency } {
  const expert = new Agent({ name: 'Expert', description: 'Knows.', instructions: 'Help.', model: 'gpt-test' })
  const front = new Agent({ name: 'Front', instructions: 'Be secret.', model: 'gpt-test', tools: [divide] })
  return { pair: new Agency({ name: 'Pair', entryPoint: front, flows: [[front, expert]] }) }
}

describe('GET /console/runs', () => {
  test('200 lists what runs have done, newest first, whichever route began them', async () => {
    const agencies = soloAgency()
    const server = await startTestServer({ agencies })
    server.provider.script([text('One.'), text('Two.')])
    await server.post('/solo/get_response', { message: 'first' })
    await (await server.stream('/solo/get_response_stream', { message: 'second' })).all()

    const { status, body, headers } = await server.get('/console/runs')

    expect([status, headers.get('cache-control')]).toEqual([200, 'no-store'])
    expect(body.runs).toMatchObject([
      { message: 'second', agency: 'solo', agent: 'Solo', status: 'completed', model_calls: 1, tool_calls: 0 },
      {
        message: 'first',
        agency_version: agencies.solo.version,
        error: null,
        failure: null,
        usage: { request_count: 1 },
      },
    ])
  })

  test('200 filters by agency and status', async () => {
    const server = await startTestServer({ agencies: { ...soloAgency(), ...pairAgency() } })
    server.provider.script([text('One.'), status(401)])
    await server.post('/solo/get_response', { message: 'good' })
    await server.post('/pair/get_response', { message: 'bad' })

    const failed = await server.get('/console/runs?status=failed')
    const solo = await server.get('/console/runs?agency=solo')

    expect(failed.body.runs.map(({ message }: { message: string }) => message)).toEqual(['bad'])
    expect(solo.body.runs.map(({ message }: { message: string }) => message)).toEqual(['good'])
    expect((await server.get('/console/runs?status=odd')).status).toBe(422)
  })

  test.each([true, false])(
    '200 shows a run no longer as waiting once its call is decided: approve %s',
    async (approve) => {
      const server = await startTestServer({ agencies: soloAgency({ tools: [refund] }) })
      server.provider.script([refundCall(1), refundCall(2), text('All is settled.')])
      const done = ['completed', 'Refund 7 euros']
      const first = await server.post('/solo/get_response', { message: 'Refund 7 euros' })
      const before = await statusesOf(server)

      const second = await decide(server, [first.body], approve)
      const between = await statusesOf(server)
      await decide(server, [first.body, second.body], approve)

      expect(before).toEqual([['waiting', 'Refund 7 euros']])
      expect(between.map(([state]) => state)).toEqual(['waiting', 'completed'])
      expect(await statusesOf(server)).toEqual([done, done, done])
      expect((await server.get('/console/runs?status=waiting')).body.runs).toEqual([])
    },
  )

  test('200 keeps the latest 200', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => text('Yes.'))
    for (let at = 0; at < 205; at += 1) await server.post('/solo/get_response', { message: `message ${at}` })

    const { runs } = (await server.get('/console/runs')).body

    expect(runs).toHaveLength(200)
    expect([runs[0].message, runs.at(-1).message]).toEqual(['message 204', 'message 5'])
  })

  test('401 without the token of the server', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'secret' } })

    expect((await server.get('/console/runs')).status).toBe(401)
    expect((await server.get('/console/runs', { authorization: 'Bearer secret' })).status).toBe(200)
  })

  test.each([
    { name: 'in production', options: { env: { NODE_ENV: 'production' } } },
    { name: 'when that is switched off', options: { keepRecentRuns: false } },
    { name: 'without a console', options: { console: false } },
    { name: 'without a console, by the environment', options: { env: { BUREAU_CONSOLE: 'false' } } },
  ])('404 $name', async ({ options }) => {
    const server = await startTestServer({ agencies: soloAgency(), ...options })

    expect((await server.get('/console/runs')).status).toBe(404)
  })

  test('200 in production, when that is asked for', async () => {
    const env = { NODE_ENV: 'production', BUREAU_KEEP_RECENT_RUNS: 'true' }
    const server = await startTestServer({ agencies: soloAgency(), env })

    expect((await server.get('/console/runs')).body).toEqual({ runs: [] })
  })
})

describe('GET /console/runs/{run_id}', () => {
  test('200 has every step: agents, model calls, tools and nested agents, with what went in and out', async () => {
    const server = await startTestServer({ agencies: pairAgency() })
    server.provider.script([
      toolCall('send_message', { recipient_agent: 'Expert', message: 'Say hi.' }),
      text('Hi.'),
      toolCall('divide', { a: 6, b: 3 }),
      text('All done.'),
    ])
    await server.post('/pair/get_response', { message: 'Begin', user_context: { user: 'ada' } })
    const [{ run_id: id }] = (await server.get('/console/runs')).body.runs

    const { body } = await server.get(`/console/runs/${id}`)

    const outline = body.steps.map(({ kind, name, parent }: { kind: string; name: string; parent: number | null }) => [
      kind,
      name,
      parent === null ? null : body.steps[parent].name,
    ])
    expect(outline).toEqual([
      ['agent', 'Front', null],
      ['model', 'gpt-test', 'Front'],
      ['tool', 'send_message', 'Front'],
      ['agent', 'Expert', 'send_message'],
      ['model', 'gpt-test', 'Expert'],
      ['model', 'gpt-test', 'Front'],
      ['tool', 'divide', 'Front'],
      ['model', 'gpt-test', 'Front'],
    ])
    expect(body.steps[6]).toMatchObject({ input: '{"a":6,"b":3}', output: '2', error_code: null })
    expect(body.request).toMatchObject({ message: 'Begin', user_context: { user: 'ada' } })
    expect(body.new_messages.at(-1)).toMatchObject({ role: 'assistant' })
    expect(JSON.stringify(body)).not.toContain('Be secret.')
  })

  test('200 has prompts where the server exposes instructions', async () => {
    const server = await startTestServer({ agencies: pairAgency(), exposeInstructions: true })
    server.provider.script([text('Hi.')])
    await server.post('/pair/get_response', { message: 'Begin' })
    const [{ run_id: id }] = (await server.get('/console/runs')).body.runs

    const { body } = await server.get(`/console/runs/${id}`)

    expect(body.steps[1].input).toContain('Be secret.')
  })

  test('200 says what a tool has thrown, with its causes and without a stack', async () => {
    const server = await startTestServer({ agencies: pairAgency() })
    server.provider.script([toolCall('divide', { a: 1, b: 0 }), text('That does not work.')])
    await server.post('/pair/get_response', { message: 'Divide' })
    const [{ run_id: id, status: state }] = (await server.get('/console/runs')).body.runs

    const { steps } = (await server.get(`/console/runs/${id}`)).body

    const [failed] = steps.filter(({ kind }: { kind: string }) => kind === 'tool')
    expect(state).toBe('completed')
    expect(failed).toMatchObject({
      error_code: 'tool_failed',
      failure: 'Error: cannot divide by zero\nRangeError: b is 0',
    })
  })

  test('200 says what the provider has answered to a refused request, without its key', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([status(401, { error: { message: 'Incorrect API key provided: sk-abcdefgh12345678.' } })])
    await server.post('/solo/get_response', { message: 'Hello' })
    const [run] = (await server.get('/console/runs')).body.runs

    expect(run.error.code).toBe('upstream_auth_failed')
    expect(run.failure).toContain('Incorrect API key provided: [key]')
    expect(run.failure).not.toContain('sk-abcdefgh')
  })

  test('200 shows a run while it lasts, which any client may cancel', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['Once', hold(gate), ' more'])])
    const stream = await server.stream('/solo/get_response_stream', { message: 'Hello' })
    await stream.untilText('Once')

    const live = (await server.get(`/console/runs/${stream.runId}`)).body
    await server.post('/solo/cancel_response_stream', { run_id: stream.runId })
    await stream.all()
    const ended = (await server.get(`/console/runs/${stream.runId}`)).body

    expect(live).toMatchObject({ status: 'running', duration_ms: null, new_messages: null })
    expect(live.steps.map(({ duration_ms: ms }: { duration_ms: number | null }) => ms)).toEqual([null, null])
    expect(ended).toMatchObject({ status: 'cancelled', error: null })
  })

  test('200 leaves out a request that is too long to keep', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Long.')])
    await server.post('/solo/get_response', { message: 'x'.repeat(600_000) })
    const [{ run_id: id, message }] = (await server.get('/console/runs')).body.runs

    const { request, new_messages: messages } = (await server.get(`/console/runs/${id}`)).body

    expect([message.length, request, messages]).toEqual([200, null, null])
  })

  test('404 for a run that is not kept', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    const { status: code, body } = await server.get('/console/runs/nothing')

    expect([code, body.error]).toEqual([404, 'This process keeps no run of that id.'])
  })
})
