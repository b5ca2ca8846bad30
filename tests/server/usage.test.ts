import { Agency, Agent, tool } from '@bureau/framework'
import { calcPrice, findProvider } from '@pydantic/genai-prices'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  cut,
  errorEvent,
  type Gate,
  hold,
  responseFields,
  status,
  text,
  textDeltas,
  toolCall,
  type TokenUsage,
  type Turn,
  usage,
} from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

const echo = tool({ name: 'echo', description: 'Echoes.', parameters: z.object({}), execute: () => 'x' })

/** What the price list asks for one answer, with the arithmetic of its own package. */
function priceOf(
  model: string,
  { input, cached = 0, output }: Partial<TokenUsage> & { input: number; output: number },
): number {
  const tokens = { input_tokens: input, cache_read_tokens: cached, output_tokens: output }
  const provider = findProvider({ modelId: model })
  const price = calcPrice(tokens, model, provider ? { provider } : {})
  if (!price || price.total_price <= 0) throw new Error(`the price list does not know ${model}`)
  return price.total_price
}

const worker = new Agent({ name: 'Worker', instructions: 'Work.', model: 'gpt-4o-mini', tools: [echo] })
const boss = new Agent({ name: 'Boss', instructions: 'Lead.', model: 'gpt-5-mini', tools: [echo] })
const two = new Agency({ entryPoint: boss, flows: [[boss, worker]] })
const toWorker = { recipient_agent: 'Worker', message: 'Do it', additional_instructions: '' }

/** The usage of the same run by `get_response` and by `get_response_stream`, which must not differ. */
async function usageOf(
  server: TestServer,
  agency: string,
  script: () => void,
  body: object = { message: 'go' },
): Promise<Json> {
  script()
  const answer = await server.post(`/${agency}/get_response`, body)
  script()
  const stream = await (await server.stream(`/${agency}/get_response_stream`, body)).all()
  expect(answer.status).toBe(200)
  expect(stream.result.usage).toEqual(answer.body.usage)
  return answer.body.usage
}

describe('usage', () => {
  test('adds up all model requests of a run, tool rounds included', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [echo] }) })

    const spent = await usageOf(server, 'solo', () =>
      server.provider.script([
        [toolCall('echo'), usage({ input: 100, cached: 40, cacheWrite: 8, output: 20, reasoning: 5 })],
        [text('Done'), usage({ input: 200, cached: 60, output: 30, reasoning: 10 })],
      ]),
    )

    expect(spent).toEqual({
      request_count: 2,
      cached_tokens: 100,
      cache_write_tokens: 8,
      input_tokens: 300,
      output_tokens: 50,
      total_tokens: 350,
      total_cost: 0,
      reasoning_tokens: 15,
    })
  })

  test('speaks of reasoning only when there was some', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    const spent = await usageOf(server, 'solo', () => server.provider.script([text('Hello')]))

    expect(Object.keys(spent)).toEqual([
      'request_count',
      'cached_tokens',
      'cache_write_tokens',
      'input_tokens',
      'output_tokens',
      'total_tokens',
      'total_cost',
    ])
  })

  test('counts nested agents, each at the price of its own model', async () => {
    const server = await startTestServer({ agencies: { two } })

    const spent = await usageOf(server, 'two', () =>
      server.provider.script([
        [toolCall('send_message', toWorker), usage({ input: 1_000, output: 100 })],
        [toolCall('echo'), usage({ input: 2_000, cached: 500, output: 200 })],
        [text('worked'), usage({ input: 3_000, output: 300 })],
        [text('done'), usage({ input: 4_000, output: 400 })],
      ]),
    )

    const cost =
      priceOf('gpt-5-mini', { input: 1_000, output: 100 }) +
      priceOf('gpt-4o-mini', { input: 2_000, cached: 500, output: 200 }) +
      priceOf('gpt-4o-mini', { input: 3_000, output: 300 }) +
      priceOf('gpt-5-mini', { input: 4_000, output: 400 })
    expect(spent).toMatchObject({ request_count: 4, input_tokens: 10_000, output_tokens: 1_000 })
    expect(spent.total_cost).toBeCloseTo(cost, 9)
  })

  test('prices what comes after a handoff by the model of the agent that took over', async () => {
    const billing = new Agent({ name: 'Billing', instructions: 'Bill.', model: 'gpt-4o-mini' })
    const front = new Agent({ name: 'Front', instructions: 'Greet.', model: 'gpt-5-mini', handoffs: [billing] })
    const server = await startTestServer({ agencies: { shop: new Agency({ entryPoint: front }) } })

    const spent = await usageOf(server, 'shop', () =>
      server.provider.script([
        [toolCall('transfer_to_Billing'), usage({ input: 1_000, output: 10 })],
        [text('Paid'), usage({ input: 50_000, output: 500 })],
      ]),
    )

    const cost =
      priceOf('gpt-5-mini', { input: 1_000, output: 10 }) + priceOf('gpt-4o-mini', { input: 50_000, output: 500 })
    expect(spent.total_cost).toBeCloseTo(cost, 9)
  })

  test('a price tier depends on one request, never on the sum of several', async () => {
    const server = await startTestServer({ agencies: soloAgency({ model: 'gemini-2.5-pro', tools: [echo] }) })
    const spend = (...inputs: number[]) =>
      usageOf(server, 'solo', () =>
        server.provider.script(
          inputs.map((input, at) => [
            at === inputs.length - 1 ? text('Done') : toolCall('echo'),
            usage({ input, output: 100 }),
          ]),
        ),
      )

    const small = await spend(150_000, 150_000)
    const edge = await spend(200_000)
    const large = await spend(200_001)

    expect(small.total_cost).toBeCloseTo(2 * priceOf('gemini-2.5-pro', { input: 150_000, output: 100 }), 8)
    expect(edge.total_cost).toBeCloseTo(priceOf('gemini-2.5-pro', { input: 200_000, output: 100 }), 8)
    expect(large.total_cost).toBeCloseTo(priceOf('gemini-2.5-pro', { input: 200_001, output: 100 }), 8)
    expect(large.total_cost / edge.total_cost).toBeGreaterThan(1.9)
  })

  test('is priced by the model that answered, by a dated name too', async () => {
    const server = await startTestServer({ agencies: soloAgency({ model: 'house-alias' }) })

    const spent = await usageOf(server, 'solo', () =>
      server.provider.script([
        [
          text('Hello'),
          usage({ input: 100, cached: 20, output: 30 }),
          responseFields({ model: 'gpt-4o-mini-2024-07-18' }),
        ],
      ]),
    )

    expect(spent.total_cost).toBeCloseTo(0.0000315, 10)
  })

  test('a model without a known price costs 0, and others of the run still count', async () => {
    const odd = new Agent({ name: 'Worker', instructions: 'Work.', model: 'nobody-knows-this' })
    const server = await startTestServer({ agencies: { two: new Agency({ entryPoint: boss, flows: [[boss, odd]] }) } })

    const spent = await usageOf(server, 'two', () =>
      server.provider.script([
        [toolCall('send_message', toWorker), usage({ input: 1_000, output: 100 })],
        [text('worked'), usage({ input: 9_000, output: 900 })],
        [text('done'), usage({ input: 1_000, output: 100 })],
      ]),
    )

    expect(spent).toMatchObject({ request_count: 3, input_tokens: 11_000, output_tokens: 1_100 })
    expect(spent.total_cost).toBeCloseTo(2 * priceOf('gpt-5-mini', { input: 1_000, output: 100 }), 9)
  })

  test.each([
    ['none', null],
    ['zeros', { input: 0, output: 0 }],
  ])('is estimated, and marked, where a provider reports %s', async (_, reported) => {
    const server = await startTestServer({ agencies: soloAgency({ model: 'gpt-5-mini' }) })

    const spent = await usageOf(server, 'solo', () => server.provider.script([[text('Hello'), usage(reported)]]))

    expect(spent).toMatchObject({ request_count: 1, estimated: true })
    expect(spent.input_tokens).toBeGreaterThan(0)
    expect(spent.output_tokens).toBeGreaterThan(0)
    expect(spent.total_cost).toBeGreaterThan(0)
  })

  test("follows client_config: the request's model has the request's price", async () => {
    const server = await startTestServer({ agencies: soloAgency({ model: 'gpt-5-mini' }) })
    const body = { message: 'go', client_config: { model: 'gpt-4o-mini' } }

    const spent = await usageOf(
      server,
      'solo',
      () => server.provider.script([[text('Hi'), usage({ input: 5_000, output: 50 })]]),
      body,
    )

    expect(spent.total_cost).toBeCloseTo(priceOf('gpt-4o-mini', { input: 5_000, output: 50 }), 9)
  })

  test("of many runs at once is each one's own", async () => {
    const server = await startTestServer({ agencies: soloAgency({ model: 'gpt-5-mini' }) })
    server.provider.respond((request) => {
      const input = Number(request.lastUserText)
      return [text('ok'), usage({ input, output: input })]
    })

    const inputs = Array.from({ length: 40 }, (_, each) => (each + 1) * 100)
    const answers = await Promise.all(
      inputs.map((input) => server.post('/solo/get_response', { message: String(input) })),
    )

    expect(answers.map((answer) => answer.body.usage.input_tokens)).toEqual(inputs)
  })
})

describe('usage of a run that does not end well', () => {
  /** One round of a tool that costs something, then something else. */
  const first = [toolCall('send_message', toWorker), usage({ input: 1_000, cached: 200, output: 100 })]
  const nested = [toolCall('echo'), usage({ input: 2_000, output: 200 })]
  const spent = {
    request_count: 2,
    cached_tokens: 200,
    cache_write_tokens: 0,
    input_tokens: 3_000,
    output_tokens: 300,
    total_tokens: 3_300,
    total_cost: expect.closeTo(
      priceOf('gpt-5-mini', { input: 1_000, cached: 200, output: 100 }) +
        priceOf('gpt-4o-mini', { input: 2_000, output: 200 }),
      9,
    ),
  }

  test('failed: what was spent before, nested agents included', async () => {
    const server = await startTestServer({ agencies: { two } })
    server.provider.script([first, nested, status(401), status(401)])

    const stream = await (await server.stream('/two/get_response_stream', { message: 'go' })).all()

    expect(stream.outline.slice(-3)).toEqual(['error', 'messages', 'end'])
    expect(stream.result.usage).toEqual(spent)
  })

  test('cancelled at once: with an estimate of what was under way, in the stream and in the answer to the cancel', async () => {
    const server = await startTestServer({ agencies: { two } })
    const gate = server.provider.gate()
    server.provider.script([first, nested, textDeltas(['Half', hold(gate), ' done'])])
    const stream = await server.stream('/two/get_response_stream', { message: 'go' })
    await stream.untilText('output_text.delta')

    const cancel = await server.post('/two/cancel_response_stream', { run_id: stream.runId })
    await stream.all()

    expect(stream.result.cancelled).toBe(true)
    const { usage: counted } = stream.result
    expect(counted).toMatchObject({ request_count: 3, estimated: true, cached_tokens: 200 })
    expect(counted.input_tokens).toBeGreaterThan(3_000)
    expect(counted.output_tokens).toBe(301)
    expect(counted.total_cost).toBeGreaterThan(0.000825)
    expect(cancel.body.usage).toEqual(counted)
  })

  /** About 1,000 and 42 tokens. */
  const prompt = 'It is a truth universally acknowledged. '.repeat(160)
  const words = Array.from({ length: 42 }, (_, each) => `word${each} `)
  const half = (gate: Gate): Turn => textDeltas([...words, hold(gate), 'more'])
  const ESTIMATE = { request_count: 1, estimated: true }

  test.each(['responses', 'chat_completions'])('cancelled at %s: the prompt and what has arrived', async (api) => {
    const server = await startTestServer({ agencies: soloAgency(), env: { OPENAI_API: api } })
    server.provider.script([half(server.provider.gate())])
    const stream = await server.stream('/solo/get_response_stream', { message: prompt })
    await stream.untilText('word41')

    await server.post('/solo/cancel_response_stream', { run_id: stream.runId })
    await stream.all()

    expect(stream.result.usage).toMatchObject(ESTIMATE)
    expect(stream.result.usage.input_tokens).toBeGreaterThan(800)
    expect(stream.result.usage.input_tokens).toBeLessThan(2_000)
    expect(stream.result.usage.output_tokens).toBeGreaterThanOrEqual(42)
    expect(stream.result.usage.output_tokens).toBeLessThan(120)
  })

  test('cancelled before the first word: the prompt alone', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([[hold(server.provider.gate(), { before: 'headers' }), text('Hi')]])
    const stream = await server.stream('/solo/get_response_stream', { message: prompt })
    await server.provider.waitForRequests(1)
    await stream.until(({ event }) => event === 'meta')

    await server.post('/solo/cancel_response_stream', { run_id: stream.runId })
    await stream.all()

    expect(stream.result.usage).toMatchObject({ ...ESTIMATE, output_tokens: 0 })
    expect(stream.result.usage.input_tokens).toBeGreaterThan(800)
  })

  test.each<[string, Turn]>([
    ['breaks off', [textDeltas(words), cut({ how: 'reset', after: 20 })]],
    ['reports a failure', [textDeltas(words), errorEvent('server_error')]],
  ])('an answer that %s: the prompt and what has arrived', async (_, turn) => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([turn])

    const stream = await (await server.stream('/solo/get_response_stream', { message: prompt })).all()

    expect(stream.result.usage).toMatchObject(ESTIMATE)
    expect(stream.result.usage.input_tokens).toBeGreaterThan(800)
    expect(stream.result.usage.output_tokens).toBeGreaterThan(5)
  })

  test('a request that the provider refuses costs nothing', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([status(401)])

    const stream = await (await server.stream('/solo/get_response_stream', { message: prompt })).all()

    expect(stream.result.usage).toMatchObject({ request_count: 0, input_tokens: 0 })
    expect(stream.result.usage).not.toHaveProperty('estimated')
  })

  test('cancelled after the turn: with what the turn still cost', async () => {
    const server = await startTestServer({ agencies: { two } })
    const gate = server.provider.gate()
    server.provider.script([first, nested, [textDeltas(['work', hold(gate), 'ed']), usage({ input: 500, output: 50 })]])
    const stream = await server.stream('/two/get_response_stream', { message: 'go' })
    await stream.untilText('output_text.delta')

    const cancelling = server.post('/two/cancel_response_stream', { run_id: stream.runId, cancel_mode: 'after_turn' })
    await server.handled('/two/cancel_response_stream')
    gate.release()
    await stream.all()

    expect(stream.result.usage).toMatchObject({ request_count: 3, input_tokens: 3_500, output_tokens: 350 })
    expect((await cancelling).body.usage).toEqual(stream.result.usage)
  })

  test('an answer that is cut short by its limit counts as well', async () => {
    const server = await startTestServer({ agencies: soloAgency({ model: 'gpt-5-mini' }) })
    server.provider.script([
      [
        text('Half an'),
        { part: 'ending', how: 'incomplete', reason: 'max_output_tokens' },
        usage({ input: 700, output: 70 }),
      ],
    ])

    const { body } = await server.post('/solo/get_response', { message: 'go' })

    expect(body.usage).toMatchObject({ request_count: 1, input_tokens: 700, output_tokens: 70 })
    expect(body.usage.total_cost).toBeCloseTo(priceOf('gpt-5-mini', { input: 700, output: 70 }), 9)
  })
})
