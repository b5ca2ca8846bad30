import { once } from 'node:events'
import { Agency, type AgencyOptions, Agent, tool } from '@bureau/framework'
import { createApp, loadConfig } from '@bureau/server'
import { type ProxyTracerProvider, trace } from '@opentelemetry/api'
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { startHttpServer } from '../support/http-server.ts'
import { freePort } from '../support/free-port.ts'
import {
  hold,
  startFakeProvider,
  status,
  text,
  textDeltas,
  toolCall,
  type Turn,
  usage,
} from '../support/fake-provider.ts'
import { startOtlpCollector } from '../support/otlp-collector.ts'
import { closeAfterTest, type Json, soloAgency, startTestServer } from '../support/test-server.ts'

const echo = tool({
  name: 'echo',
  description: 'Echoes.',
  parameters: z.object({ x: z.string() }),
  execute: ({ x }) => x,
})
const broken = tool({
  name: 'broken',
  description: 'Fails.',
  parameters: z.object({}),
  execute: () => {
    throw new Error('boom')
  },
})

function bossAgency(): { two: Agency } {
  const worker = new Agent({ name: 'Worker', instructions: 'Work.', model: 'gpt-worker', tools: [echo] })
  const boss = new Agent({ name: 'Boss', instructions: 'Lead.', model: 'gpt-boss' })
  return { two: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) }
}

const toWorker = { recipient_agent: 'Worker', message: 'Do it', additional_instructions: '' }

describe('x-request-id', () => {
  test('is made where the caller sends none, one for each request', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    const ids = [await server.get('/healthz'), await server.get('/healthz')].map((a) => a.headers.get('x-request-id'))

    expect(ids[0]).toMatch(/^[0-9a-f-]{36}$/)
    expect(ids[1]).not.toBe(ids[0])
  })

  test("is the caller's own on every kind of answer", async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'secret-token' } })
    server.provider.respond(() => text('Hello'))
    const headers = { 'x-request-id': 'trace.me_42-x', authorization: 'Bearer secret-token' }

    const answers = [
      await server.post('/solo/get_response', { message: 'hi' }, headers),
      await server.post('/solo/get_response', {}, headers),
      await server.post('/solo/get_response', '{', headers),
      await server.get('/nowhere', headers),
      await server.get('/solo/get_response', headers),
      await server.get('/solo/get_metadata', { 'x-request-id': 'trace.me_42-x' }),
    ]
    const stream = await server.stream('/solo/get_response_stream', { message: 'hi' }, { headers })
    await stream.all()
    const preflight = await fetch(`${server.url}/solo/get_response`, {
      method: 'OPTIONS',
      headers: {
        origin: 'https://a.example',
        'access-control-request-method': 'POST',
        'x-request-id': 'trace.me_42-x',
      },
    })

    expect(answers.map((answer) => answer.status)).toEqual([200, 422, 422, 404, 405, 401])
    expect(answers.map((answer) => answer.headers.get('x-request-id'))).toEqual(answers.map(() => 'trace.me_42-x'))
    expect(stream.response.headers.get('x-request-id')).toBe('trace.me_42-x')
    expect(preflight.headers.get('x-request-id')).toBe('trace.me_42-x')
  })

  test.each(['short', 'x'.repeat(65), 'with space 1', 'semi;colon', 'ümlaut-id'])(
    'is replaced when it is not fit for a log: %j',
    async (id) => {
      const server = await startTestServer({ agencies: soloAgency() })

      const answer = await server.get('/healthz', { 'x-request-id': id })

      expect(answer.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
    },
  )

  test('may be read by pages of other origins', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await server.get('/healthz', { origin: 'http://localhost:3000' })

    expect(answer.headers.get('access-control-expose-headers')).toContain('X-Request-Id')
  })
})

describe('the log of a run that fails', () => {
  async function failedRun(turn: Turn, options: Pick<AgencyOptions, 'maxTurns'> = {}): Promise<Json> {
    const lines: string[] = []
    const refund = { name: 'refund', description: 'Refunds.', parameters: z.object({}), execute: () => 'refunded' }
    const tools = [echo, tool({ ...refund, needsApproval: true })]
    const entryPoint = new Agent({ name: 'Clerk', instructions: 'Help.', model: 'gpt-test', tools })
    const server = await startTestServer({
      agencies: { shop: new Agency({ entryPoint, ...options }) },
      logLevel: 'warn',
      logDestination: { write: (line: string) => void lines.push(line) },
    })
    server.provider.respond(() => turn)
    await server.post('/openai/v1/chat/completions', { model: 'shop', messages: [{ role: 'user', content: 'hi' }] })
    return lines.map((line) => JSON.parse(line)).find(({ msg }) => msg === 'run failed')
  }

  test.each([
    ['approval_required', toolCall('refund', {}), {}, 'waits for an approval'],
    ['max_turns_exceeded', toolCall('echo', { x: 'a' }), { maxTurns: 1 }, 'maxTurns is 1'],
  ])('has no stack where a rule has ended it: %s', async (errorCode, turn, options, reason) => {
    const record = await failedRun(turn, options)

    expect(record).toMatchObject({ errorCode, reason: expect.stringContaining(reason) })
    expect(record).not.toHaveProperty('err')
  })

  test('has the stack of what was thrown', async () => {
    const { err } = await failedRun(status(401))

    expect(err).toMatchObject({ code: 'upstream_auth_failed', stack: expect.stringContaining('ModelError') })
  })
})

describe('metrics', () => {
  async function readMetrics(server: {
    get(path: string): Promise<{ text: string }>
  }): Promise<(line: string) => number> {
    const { text: body } = await server.get('/metrics')
    return (line) =>
      Number(
        body
          .split('\n')
          .find((each) => each.startsWith(`${line} `))
          ?.slice(line.length + 1) ?? Number.NaN,
      )
  }

  test('404 while they are off', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    expect((await server.get('/metrics')).status).toBe(404)
  })

  test('count runs by how they ended, their tokens, tools and errors', async () => {
    const server = await startTestServer({
      agencies: soloAgency({ tools: [echo, broken], model: 'gpt-5-mini' }),
      metrics: true,
    })
    server.provider.script([
      [toolCall('echo', { x: 'a' }), usage({ input: 100, cached: 40, output: 10 })],
      toolCall('broken'),
      [text('Done'), usage({ input: 200, output: 20, reasoning: 5 })],
      status(401),
    ])

    await server.post('/solo/get_response', { message: 'hi' })
    await server.post('/solo/get_response', { message: 'hi' })
    const metric = await readMetrics(server)

    expect(metric('bureau_runs_total{agency="solo",status="completed"}')).toBe(1)
    expect(metric('bureau_runs_total{agency="solo",status="failed"}')).toBe(1)
    expect(metric('bureau_runs_in_progress{agency="solo"}')).toBe(0)
    const tokens = (type: string) =>
      metric(`bureau_tokens_total{agency="solo",agent="Solo",model="gpt-5-mini",type="${type}"}`)
    expect([tokens('input'), tokens('cached'), tokens('output'), tokens('reasoning')]).toEqual([320, 40, 40, 5])
    expect(metric('bureau_cost_usd_total{agency="solo",agent="Solo",model="gpt-5-mini"}')).toBeGreaterThan(0)
    expect(metric('bureau_tool_calls_total{agent="Solo",tool="echo",outcome="ok"}')).toBe(1)
    expect(metric('bureau_tool_calls_total{agent="Solo",tool="broken",outcome="failed"}')).toBe(1)
    expect(metric('bureau_model_requests_total{agent="Solo",outcome="ok"}')).toBe(3)
    expect(metric('bureau_provider_errors_total{code="upstream_auth_failed"}')).toBe(1)
    expect(metric('bureau_run_duration_seconds_count{agency="solo"}')).toBe(2)
    expect(metric('bureau_time_to_first_token_seconds_count{agency="solo"}')).toBe(1)
    expect(metric('bureau_process_memory_bytes{kind="resident"}')).toBeGreaterThan(1_000_000)
    expect(metric('bureau_event_loop_lag_seconds{quantile="0.99"}')).toBeGreaterThanOrEqual(0)
  })

  test('show streams while they are open, and cancelled runs', async () => {
    const server = await startTestServer({ agencies: soloAgency(), metrics: true })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['Half', hold(gate), ' done'])])
    const stream = await server.stream('/solo/get_response_stream', { message: 'hi' })
    await stream.untilText('output_text.delta')

    const during = await readMetrics(server)
    await server.post('/solo/cancel_response_stream', { run_id: stream.runId })
    await stream.all()
    const after = await readMetrics(server)

    expect(during('bureau_open_streams{agency="solo"}')).toBe(1)
    expect(during('bureau_runs_in_progress{agency="solo"}')).toBe(1)
    expect(after('bureau_open_streams{agency="solo"}')).toBe(0)
    expect(after('bureau_runs_in_progress{agency="solo"}')).toBe(0)
    expect(after('bureau_runs_total{agency="solo",status="cancelled"}')).toBe(1)
  })

  test('are in the text format of Prometheus, and need the token like every route', async () => {
    const server = await startTestServer({ agencies: soloAgency(), metrics: true, env: { APP_TOKEN: 'secret-token' } })

    const refused = await server.get('/metrics')
    const answer = await server.get('/metrics', { authorization: 'Bearer secret-token' })

    expect(refused.status).toBe(401)
    expect(answer.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/)
    for (const line of answer.text.trimEnd().split('\n')) {
      expect(line).toMatch(/^(# (HELP|TYPE) bureau_\w+ .+|bureau_\w+(\{[^}]*\})? [\d.e+-]+|)$/)
    }
  })

  test("of callers' own model names only so many are kept apart, and they take no place of the tools", async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [echo] }), metrics: true })
    server.provider.respond(() => text('ok'))
    for (let each = 0; each < 210; each++) {
      await server.post('/solo/get_response', { message: 'hi', client_config: { model: `model-${each}` } })
    }
    server.provider.respond(({ toolOutputs }) => (toolOutputs.length > 0 ? text('ok') : toolCall('echo', { x: 'a' })))
    await server.post('/solo/get_response', { message: 'hi' })

    const { text: body } = await server.get('/metrics')

    expect(new Set(body.match(/model="[^"]*"/g)).size).toBe(201)
    expect(body).toContain('model="other"')
    expect(body).toContain('bureau_tool_calls_total{agent="Solo",tool="echo",outcome="ok"} 1')
  })

  test('names that are made to break the format or to fill the memory do neither', async () => {
    const odd = new Agent({ name: 'So"lo\\ {x="1"}', instructions: 'x', model: 'gpt-test' })
    const server = await startTestServer({ agencies: { 'o~dd.x': new Agency({ entryPoint: odd }) }, metrics: true })
    server.provider.respond(({ toolOutputs }) =>
      toolOutputs.length > 0 ? text('ok') : toolCall('evil"} 1\nbureau_cost_usd_total{a="b', {}),
    )
    for (const model of ['m"\n\\} 5\nx{', 'y'.repeat(1_000_000), '']) {
      await server.post('/o~dd.x/get_response', { message: 'hi', client_config: { model } })
    }

    const { text: body } = await server.get('/metrics')

    expect(body.length).toBeLessThan(20_000)
    for (const line of body.trimEnd().split('\n')) {
      expect(line).toMatch(
        /^(# (HELP|TYPE) bureau_\w+ .+|bureau_\w+(\{(\w+="([^"\\\n]|\\[n"\\])*",?)+\})? [\d.e+-]+|)$/,
      )
    }
  })

  test('can have a path and a port of their own', async () => {
    const port = await freePort()
    const server = await startTestServer({
      agencies: soloAgency(),
      host: '127.0.0.1',
      metrics: { path: '/internal/metrics', port },
      env: { APP_TOKEN: 'secret-token' },
    })
    const url = `http://127.0.0.1:${port}/internal/metrics`

    const elsewhere = await fetch(url, { headers: { authorization: 'Bearer secret-token' } })

    expect(await elsewhere.text()).toContain('bureau_process_memory_bytes')
    expect((await fetch(url)).status).toBe(401)
    expect((await server.get('/internal/metrics', { authorization: 'Bearer secret-token' })).status).toBe(404)
  })

  test('a path that is none is refused at the start', async () => {
    await expect(startTestServer({ agencies: soloAgency(), metrics: { path: 'metrics?x' } })).rejects.toThrow(
      'metrics.path',
    )
  })
})

/** A processor of spans that does nothing with them. */
const SILENT = { onStart: () => {}, onEnd: () => {}, forceFlush: async () => {}, shutdown: async () => {} }

/** A provider that keeps its spans, and what they say. */
function spanKeeper() {
  const exporter = new InMemorySpanExporter()
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] })
  const tree = (parent?: ReadableSpan): string[] =>
    exporter
      .getFinishedSpans()
      .filter((span) => span.parentSpanContext?.spanId === parent?.spanContext().spanId)
      .toSorted((a, b) => a.startTime[0] - b.startTime[0] || a.startTime[1] - b.startTime[1])
      .flatMap((span) => [span.name, ...tree(span).map((line) => `  ${line}`)])
  const named = (name: string): ReadableSpan => exporter.getFinishedSpans().find((span) => span.name === name)!
  return { provider, exporter, tree, named }
}

describe('tracing', () => {
  test('shows a run with its agents, model requests and tools, each within the other', async () => {
    const spans = spanKeeper()
    const server = await startTestServer({
      agencies: soloAgency({ tools: [echo] }),
      tracing: { provider: spans.provider },
    })
    server.provider.script([toolCall('echo', { x: 'a' }), text('Done')])

    await server.post('/solo/get_response', { message: 'hi' })

    expect(spans.tree()).toEqual([
      'invoke_workflow solo',
      '  invoke_agent Solo',
      '    chat gpt-test',
      '    execute_tool echo',
      '    chat gpt-test',
    ])
  })

  test('puts a nested agent into the message that asked it', async () => {
    const spans = spanKeeper()
    const server = await startTestServer({ agencies: bossAgency(), tracing: { provider: spans.provider } })
    server.provider.script([
      toolCall('send_message', toWorker),
      toolCall('echo', { x: 'a' }),
      text('worked'),
      text('done'),
    ])

    await server.post('/two/get_response', { message: 'go' })

    expect(spans.tree()).toEqual([
      'invoke_workflow two',
      '  invoke_agent Boss',
      '    chat gpt-boss',
      '    execute_tool send_message',
      '      invoke_agent Worker',
      '        chat gpt-worker',
      '        execute_tool echo',
      '        chat gpt-worker',
      '    chat gpt-boss',
    ])
    expect(spans.named('invoke_agent Worker').attributes).toMatchObject({ 'bureau.caller_agent.name': 'Boss' })
  })

  test('shows a handoff as the next agent of the same run', async () => {
    const spans = spanKeeper()
    const billing = new Agent({ name: 'Billing', instructions: 'Bill.', model: 'gpt-billing' })
    const front = new Agent({ name: 'Front', instructions: 'Greet.', model: 'gpt-front', handoffs: [billing] })
    const server = await startTestServer({
      agencies: { shop: new Agency({ entryPoint: front }) },
      tracing: { provider: spans.provider },
    })
    server.provider.script([toolCall('transfer_to_Billing'), text('Paid')])

    await server.post('/shop/get_response', { message: 'go' })

    expect(spans.tree()).toEqual([
      'invoke_workflow shop',
      '  invoke_agent Front',
      '    chat gpt-front',
      '  invoke_agent Billing',
      '    chat gpt-billing',
    ])
  })

  test('keeps two nested agents at once apart, though their calls have the same ids', async () => {
    const spans = spanKeeper()
    const [a, b] = ['A', 'B'].map(
      (name) => new Agent({ name, instructions: name, model: `gpt-${name}`, tools: [echo] }),
    )
    const boss = new Agent({ name: 'Boss', instructions: 'Lead.', model: 'gpt-boss' })
    const agency = new Agency({
      entryPoint: boss,
      flows: [
        [boss, a!],
        [boss, b!],
      ],
    })
    const server = await startTestServer({ agencies: { three: agency }, tracing: { provider: spans.provider } })
    server.provider.respond((request) => {
      const done = request.toolOutputs.length > 0
      if (request.instructions !== 'Lead.') return done ? text('ok') : toolCall('echo', { x: 'a' }, { callId: 'same' })
      if (done) return text('done')
      return ['A', 'B'].map((name) =>
        toolCall('send_message', { ...toWorker, recipient_agent: name }, { callId: `to-${name}` }),
      )
    })

    await server.post('/three/get_response', { message: 'go' })

    for (const name of ['A', 'B']) {
      const start = spans.tree().indexOf(`      invoke_agent ${name}`)
      expect(spans.tree().slice(start, start + 4)).toEqual([
        `      invoke_agent ${name}`,
        `        chat gpt-${name}`,
        '        execute_tool echo',
        `        chat gpt-${name}`,
      ])
    }
  })

  test('says by the conventions for generative AI which model, tokens and tool it was', async () => {
    const spans = spanKeeper()
    const server = await startTestServer({
      agencies: soloAgency({ tools: [echo] }),
      tracing: { provider: spans.provider },
    })
    server.provider.script([
      [toolCall('echo', { x: 'a' }, { callId: 'call_7' }), usage({ input: 100, cached: 40, output: 10, reasoning: 4 })],
      text('Done'),
    ])

    await server.post('/solo/get_response', { message: 'hi' })

    expect(spans.named('chat gpt-test').attributes).toEqual({
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'openai',
      'gen_ai.request.model': 'gpt-test',
      'gen_ai.response.model': 'gpt-test',
      'gen_ai.response.id': expect.stringMatching(/^resp_/),
      'gen_ai.response.finish_reasons': ['completed'],
      'gen_ai.response.time_to_first_chunk': expect.any(Number),
      'gen_ai.agent.name': 'Solo',
      'gen_ai.usage.input_tokens': 100,
      'gen_ai.usage.output_tokens': 10,
      'gen_ai.usage.cache_read.input_tokens': 40,
      'gen_ai.usage.cache_creation.input_tokens': 0,
      'gen_ai.usage.reasoning.output_tokens': 4,
    })
    expect(spans.named('execute_tool echo').attributes).toEqual({
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'echo',
      'gen_ai.tool.type': 'function',
      'gen_ai.tool.call.id': 'call_7',
      'gen_ai.agent.name': 'Solo',
    })
    expect(spans.named('invoke_workflow solo').attributes).toMatchObject({
      'bureau.run.id': expect.any(String),
      'bureau.run.status': 'completed',
      'gen_ai.usage.input_tokens': 120,
    })
  })

  test('holds nothing of what was said, unless told to', async () => {
    const quiet = spanKeeper()
    const open = spanKeeper()
    for (const [spans, traceContent] of [
      [quiet, false],
      [open, true],
    ] as const) {
      const server = await startTestServer({
        agencies: soloAgency({ tools: [echo] }),
        tracing: { provider: spans.provider, traceContent },
      })
      server.provider.script([toolCall('echo', { x: 'the argument' }), text('the answer')])
      await server.post('/solo/get_response', { message: 'the question', user_context: { key: 'the context' } })
    }
    const said = (spans: typeof quiet): string =>
      JSON.stringify(spans.exporter.getFinishedSpans().map(({ attributes, events }) => [attributes, events]))

    for (const part of ['question', 'argument', 'answer', 'secret instructions', 'context']) {
      expect(said(quiet)).not.toContain(`the ${part}`)
    }
    const { attributes } = open.named('chat gpt-test')
    expect(JSON.parse(String(attributes['gen_ai.input.messages']))).toEqual([
      { role: 'user', parts: [{ type: 'text', content: 'the question' }] },
    ])
    expect(attributes['gen_ai.system_instructions']).toContain('secret instructions')
    expect(open.named('execute_tool echo').attributes).toMatchObject({
      'gen_ai.tool.call.arguments': '{"x":"the argument"}',
      'gen_ai.tool.call.result': 'the argument',
    })
    expect(open.named('invoke_workflow solo').attributes['gen_ai.output.messages']).toContain('the answer')
    expect(said(open)).not.toContain('the context')
  })

  test('names what failed, and ends what a cancel has cut off', async () => {
    const spans = spanKeeper()
    const server = await startTestServer({ agencies: bossAgency(), tracing: { provider: spans.provider } })
    const gate = server.provider.gate()
    server.provider.script([status(401), toolCall('send_message', toWorker), textDeltas(['Half', hold(gate), ' done'])])

    await server.post('/two/get_response', { message: 'go' })
    const failed = spans.exporter.getFinishedSpans().map((span) => [span.name, span.attributes['error.type']])
    spans.exporter.reset()
    const stream = await server.stream('/two/get_response_stream', { message: 'go' })
    await stream.untilText('output_text.delta')
    await stream.hangUp()
    await server.provider.waitForAborts(1)
    await expect.poll(() => spans.tree()).toHaveLength(6)

    expect(failed).toEqual([
      ['chat gpt-boss', 'upstream_auth_failed'],
      ['invoke_agent Boss', 'upstream_auth_failed'],
      ['invoke_workflow two', 'upstream_auth_failed'],
    ])
    expect(spans.named('invoke_workflow two').attributes['bureau.run.status']).toBe('cancelled')
    for (const name of ['chat gpt-worker', 'invoke_agent Worker', 'execute_tool send_message', 'invoke_agent Boss']) {
      expect(spans.named(name).attributes['error.type']).toBe('cancelled')
      expect(spans.named(name).status.code).toBe(2)
    }
  })

  test('continues the trace of the caller', async () => {
    const spans = spanKeeper()
    const server = await startTestServer({ agencies: soloAgency(), tracing: { provider: spans.provider } })
    server.provider.respond(() => text('ok'))
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

    await server.post('/solo/get_response', { message: 'hi' }, { traceparent })
    const continued = spans.named('invoke_workflow solo')
    spans.exporter.reset()
    await server.post('/solo/get_response', { message: 'hi' }, { traceparent: 'nonsense' })
    const own = spans.named('invoke_workflow solo')

    expect(continued.spanContext().traceId).toBe('0af7651916cd43dd8448eb211c80319c')
    expect(continued.parentSpanContext?.spanId).toBe('b7ad6b7169203331')
    expect(own.parentSpanContext).toBeUndefined()
  })

  test('shows the request for a chat name in the run, beside its agents', async () => {
    const spans = spanKeeper()
    const server = await startTestServer({ agencies: soloAgency(), tracing: { provider: spans.provider } })
    server.provider.respond((request) => text(request.instructions?.includes('titles') ? 'Two words' : 'ok'))

    await server.post('/solo/get_response', { message: 'hi', generate_chat_name: true })

    expect(spans.tree()).toEqual([
      'invoke_workflow solo',
      '  invoke_agent Solo',
      '    chat gpt-test',
      '  chat gpt-test',
    ])
  })

  test.each(['the option', 'the environment'])(
    'goes to a collector that %s names, and nothing is made global',
    async (by) => {
      const collector = await startOtlpCollector()
      const provider = await startFakeProvider()
      closeAfterTest(() => provider.close())
      provider.script([text('Hello')])
      const app = await createApp(
        {
          agencies: soloAgency(),
          logLevel: 'silent',
          ...(by === 'the option' && { tracing: { endpoint: collector.url } }),
        },
        loadConfig({
          OPENAI_API_KEY: 'sk-server',
          OPENAI_BASE_URL: provider.baseUrl,
          ...(by === 'the environment' && { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url }),
        }),
      )

      const answer = await app.inject({ method: 'POST', url: '/solo/get_response', payload: { message: 'hi' } })
      await app.close()

      expect(answer.statusCode).toBe(200)
      expect(collector.spans.map((span) => span.name)).toEqual([
        'chat gpt-test',
        'invoke_agent Solo',
        'invoke_workflow solo',
      ])
      const [chat, agent, run] = collector.spans
      expect(chat!.parentSpanId).toBe(agent!.spanId)
      expect(agent!.parentSpanId).toBe(run!.spanId)
      expect(run!.resource).toMatchObject({ 'service.name': 'bureau' })
      expect((trace.getTracerProvider() as ProxyTracerProvider).getDelegate().constructor.name).toBe(
        'NoopTracerProvider',
      )
    },
  )

  test('is off by default and can be switched off against the environment', async () => {
    const collector = await startOtlpCollector()
    const app = await createApp(
      { agencies: soloAgency({ model: 'demo' }), logLevel: 'silent', tracing: false },
      loadConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url }),
    )

    await app.inject({ method: 'POST', url: '/solo/get_response', payload: { message: 'hi' } })
    await app.close()

    expect(collector.spans).toEqual([])
  })

  test('a collector that cannot be reached costs a run nothing', async () => {
    const server = await startTestServer({ agencies: soloAgency(), tracing: { endpoint: 'http://127.0.0.1:9' } })
    server.provider.script([text('Hello')])

    expect((await server.post('/solo/get_response', { message: 'hi' })).body.response).toBe('Hello')
  })

  test('a collector that refuses traces is said in the log', async () => {
    const endpoint = await startHttpServer((_request, response) => response.writeHead(401).end())
    const lines: string[] = []
    const server = await startTestServer({
      agencies: soloAgency({ model: 'demo' }),
      tracing: { endpoint },
      logLevel: 'warn',
      logDestination: { write: (line: string) => void lines.push(line) },
    })

    await server.post('/solo/get_response', { message: 'hi' })
    await server.close()

    expect(lines.filter((line) => line.includes('traces could not be sent'))).toHaveLength(1)
  })

  test.each(['onStart', 'onEnd'] as const)(
    'a processor of spans that throws, %s, is said in the log and harms no run',
    async (step) => {
      const processor = {
        ...SILENT,
        [step]: () => {
          throw new Error('no room')
        },
      }
      const lines: string[] = []
      const server = await startTestServer({
        agencies: soloAgency({ model: 'demo' }),
        tracing: { provider: new TracerProvider({ spanProcessors: [processor] }) },
        logLevel: 'warn',
        logDestination: { write: (line: string) => void lines.push(line) },
      })

      const { status: answered } = await server.post('/solo/get_response', { message: 'hi' })

      expect(answered).toBe(200)
      expect(lines.filter((line) => line.includes('a run could not be traced')).at(0)).toContain('no room')
    },
  )

  test('an endpoint that is no address is refused at the start', async () => {
    expect(() => loadConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector' })).toThrow(
      'OTEL_EXPORTER_OTLP_ENDPOINT: must be',
    )
    await expect(startTestServer({ agencies: soloAgency(), tracing: { endpoint: 'collector' } })).rejects.toThrow(
      'tracing.endpoint',
    )
  })
})

test('a destination of the log that throws harms neither runs nor the server', async () => {
  const logDestination = {
    write: (line: string) => {
      if (line.includes('run ended')) throw new Error('no space left on device')
    },
  }
  const warned = once(process, 'warning')
  const server = await startTestServer({ agencies: bossAgency(), logLevel: 'debug', logDestination })
  server.provider.respond(() => text('Hello'))

  const answer = await server.post('/two/get_response', { message: 'hi' })
  const again = await server.post('/two/get_response', { message: 'hi' })

  expect([answer.body.response, again.body.response]).toEqual(['Hello', 'Hello'])
  expect(await warned).toMatchObject([{ message: expect.stringContaining('no space left on device') }])
})
