import { getEventListeners, once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { Agency } from './agency/agency.ts'
import { Agent } from './agency/agent.ts'
import type { AgentOptions } from './agency/agent-options.ts'
import { handoff } from './agency/handoff.ts'
import { ask, askStreamed } from './ask.ts'
import { assistantMessage, functionCall, modelError, modelResponder, ScriptedModel } from './testing.ts'
import type { ToolContext } from './agency/run-context.ts'
import { tool } from './agency/tool.ts'
import { MCPServerStdio } from './mcp/mcp-servers.ts'

const greet = tool({
  name: 'greet',
  description: 'Greets somebody.',
  parameters: z.object({ name: z.string() }),
  execute: ({ name }, { userContext }) => `Good ${userContext['time'] === 'late' ? 'night' : 'day'}, ${name}.`,
})

function solo(model?: ScriptedModel): Agency {
  return new Agency({
    entryPoint: new Agent({ name: 'Solo', instructions: 'Greet.', tools: [greet], ...(model && { model }) }),
  })
}

test('without a key the built-in demo model answers', async () => {
  const { status, output, usage } = await ask(solo(), 'Greet Ada.')

  expect(status).toBe('completed')
  expect(output).toBe('Good day, Ada.')
  expect(usage?.request_count).toBe(2)
})

test('a variable that is set to nothing, as in the .env of a new project, brings no key, address or model', async () => {
  const { output } = await ask(solo(), 'Greet Ada.', { apiKey: '', baseUrl: '', model: '' })
  const elsewhere = new Agency({ entryPoint: new Agent({ name: 'Solo', model: 'thirdparty/mistral/small' }) })
  const { error } = await ask(elsewhere, 'Greet Ada.', { readKey: () => '' })

  expect(output).toBe('Good day, Ada.')
  expect(error?.message).toContain('set MISTRAL_API_KEY')
})

test.each([
  ['gpt-5-mini', "give the option apiKey, such as process.env['OPENAI_API_KEY']"],
  ['thirdparty/mistral/small', 'set MISTRAL_API_KEY and give the option readKey, such as (name) => process.env[name]'],
  ['thirdparty/openai_compatible/x', 'set OPENAI_COMPATIBLE_BASE_URL and give the option readKey'],
])('a model without a key says which option gives it: %s', async (model, advice) => {
  const { error } = await ask(new Agency({ entryPoint: new Agent({ name: 'Solo', model }) }), 'Hello')

  expect(error?.message).toContain(advice)
})

test('the demo model gives a tool the numbers of a message in their order', async () => {
  const refund = tool({
    name: 'refund_order',
    description: 'Refunds money.',
    parameters: z.object({ order: z.number().int(), euros: z.number(), cents: z.number() }),
    execute: ({ order, euros, cents }) => `${order}: ${euros} and ${cents}`,
  })
  const agency = new Agency({ entryPoint: new Agent({ name: 'Solo', tools: [refund] }) })

  expect((await ask(agency, 'Refund order 7, 250 euros')).output).toBe('7: 250 and 250')
  expect((await ask(agency, 'Refund the order')).output).toBe('1: 1 and 1')
})

test('the demo model fills a structured output with values that fit', async () => {
  const outputType = z.object({
    kind: z.literal('ticket'),
    score: z.number().int().min(1).max(5),
    share: z.number().gt(0).max(0.5),
    depth: z.number().max(-3),
    name: z.string().max(3),
    reason: z.string().min(12),
    email: z.email(),
    day: z.iso.date(),
    at: z.iso.datetime(),
    id: z.uuid(),
    page: z.url(),
    tags: z.array(z.string()).min(2),
    event: z.discriminatedUnion('type', [z.object({ type: z.literal('call') }), z.object({ type: z.literal('mail') })]),
    note: z.string().nullable(),
  })

  const { output, error } = await ask(new Agency({ entryPoint: new Agent({ name: 'Solo', outputType }) }), 'Hello')

  expect(error).toBeNull()
  expect(output).toMatchObject({
    kind: 'ticket',
    score: 1,
    depth: -3,
    name: 'dem',
    event: { type: 'call' },
    note: 'demo',
  })
})

test('the demo model fills nothing without end, whatever a schema demands', async () => {
  let schema: object = { type: 'string', minLength: 1e12 }
  for (let depth = 0; depth < 30; depth++) schema = { type: 'array', items: schema, minItems: 1e9 }
  const properties = { deep: schema, any: true, kind: { type: 'string', format: '__proto__' } }
  const outputType = { type: 'json_schema', name: 'huge', strict: false, schema: { type: 'object', properties } }
  const entryPoint = new Agent({ name: 'Solo', outputType: outputType as never })

  const { new_messages: messages } = await ask(new Agency({ entryPoint }), 'Hello')

  expect(JSON.stringify(messages).length).toBeLessThan(100_000)
})

test('a scripted model gets the conversation, the tools and what they returned', async () => {
  const model = new ScriptedModel([
    [functionCall('greet', { name: 'Ada' }, { callId: 'c1' })],
    [assistantMessage('Done.')],
  ])

  const first = await ask(solo(model), 'Greet Ada.', { userContext: { time: 'late' } })
  model.enqueue([assistantMessage('Still here.')])
  const second = await ask(solo(model), 'And now?', { history: first.new_messages })

  expect([first.output, second.output]).toEqual(['Done.', 'Still here.'])
  expect(JSON.stringify(model.calls[1]!.request.input)).toContain('Good night, Ada.')
  expect(JSON.stringify(model.lastCall!.request.input)).toMatch(/Greet Ada.*Done.*And now/)
  expect(model.firstCall!.request.tools?.map(({ name }) => name)).toEqual(['greet'])
  model.assertComplete()
})

test('calls of a script have ids of their own, where it names none', async () => {
  const model = new ScriptedModel([
    [functionCall('greet', { name: 'Ada' }), functionCall('greet', { name: 'Eve' })],
    [assistantMessage('Done.')],
  ])

  const { new_messages: messages } = await ask(solo(model), 'Greet them.')

  const outputs = messages.filter(({ type }) => type === 'function_call_output')
  expect(outputs.map(({ output }) => output)).toEqual(['Good day, Ada.', 'Good day, Eve.'])
  expect(new Set(outputs.map(({ call_id: id }) => id)).size).toBe(2)
})

test('a model object is the model of all agents that name none', async () => {
  const guide = new Agent({ name: 'Guide', description: 'Knows places.' })
  const clerk = new Agent({ name: 'Clerk', tools: [greet] })
  const agency = new Agency({ entryPoint: clerk, flows: [[clerk, guide, 'handoff']] })
  const model = new ScriptedModel([
    [functionCall('greet', { name: 'Ada' }, { callId: 'c1' })],
    [functionCall('transfer_to_Guide', {}, { callId: 'c2' })],
    [assistantMessage('Here you are.')],
  ])

  const { output, new_messages: messages } = await ask(agency, 'Greet Ada, then show the way.', { model })

  expect([output, messages.at(-1)?.agent]).toEqual(['Here you are.', 'Guide'])
  model.assertComplete()
  await expect(ask(agency, 'hi', { model: {} as ScriptedModel })).rejects.toThrow(
    'ask: model: the model object cannot be used',
  )
})

test('a failed run is an answer with an error, and its cause is told', async () => {
  const causes: unknown[] = []
  const model = new ScriptedModel([modelError(new Error('out of paper'))])

  const { status, output, error } = await ask(solo(model), 'hi', { onFailure: (cause) => void causes.push(cause) })

  expect({ status, output }).toEqual({ status: 'failed', output: null })
  expect(error?.message).not.toContain('paper')
  expect(causes).toHaveLength(1)
})

test('a failed run ends even when its onFailure callback throws', async () => {
  const fails = (): Agency => solo(new ScriptedModel([modelError(new Error('out of paper'))]))
  const onFailure = (): never => {
    throw new Error('nobody listens')
  }

  const { status } = await ask(fails(), 'hi', { onFailure })
  let last: unknown
  for await (const event of askStreamed(fails(), 'hi', { onFailure })) last = event

  expect(status).toBe('failed')
  expect(last).toMatchObject({ type: 'run.ended', status: 'failed' })
})

test.each<[string, () => unknown, string]>([
  ['return nothing', () => undefined, 'they are undefined, not a text'],
  ['return an object', async () => ({ city: 'Bern' }), 'they are an object, not a text'],
  ['throw', () => Promise.reject(new Error('no template')), 'no template'],
])('instructions that %s fail the run, and the cause names the agent', async (_, instructions, why) => {
  const causes: unknown[] = []
  const model = new ScriptedModel()
  const agent = new Agent({ name: 'Clerk', instructions: instructions as () => string, model })

  const { error } = await ask(new Agency({ entryPoint: agent }), 'hi', { onFailure: (cause) => causes.push(cause) })

  expect(error?.code).toBe('run_failed')
  expect(causes).toMatchObject([{ message: 'the instructions of the agent "Clerk" failed', cause: { message: why } }])
  expect(model.calls).toEqual([])
})

test.each<[string, () => unknown, string]>([
  ['returns nothing', () => undefined, 'Cannot read properties of undefined'],
  ['throws', () => Promise.reject(new Error('no such item')), 'no such item'],
])('a filter of a handoff that %s fails the run, and the cause names the handoff', async (_, filter, why) => {
  const causes: unknown[] = []
  const model = new ScriptedModel([[functionCall('transfer_to_Guide', {}, { callId: 'c1' })]])
  const guide = new Agent({ name: 'Guide', model })
  const clerk = new Agent({ name: 'Clerk', model, handoffs: [handoff(guide, { inputFilter: filter as never })] })

  const { error } = await ask(new Agency({ entryPoint: clerk }), 'hi', { onFailure: (cause) => causes.push(cause) })

  expect(error?.code).toBe('run_failed')
  expect(causes).toMatchObject([
    { message: 'the inputFilter of the handoff to "Guide" failed', cause: { message: expect.stringContaining(why) } },
  ])
})

const fails = async (): Promise<never> => {
  throw new Error('out of ink')
}

const filtered = {
  name: 'files',
  toolFilter: fails,
  connect: async () => {},
  close: async () => {},
  listTools: async () => [{ name: 'read', inputSchema: {} }],
  callTool: async () => [],
}

const guide = new Agent({ name: 'Guide' })

test.each<[string, Partial<AgentOptions>]>([
  ['isEnabled of the tool "greet" of the agent "Clerk"', { tools: [{ ...greet, isEnabled: fails }] }],
  ['isEnabled of the handoff to "Guide" of the agent "Clerk"', { handoffs: [handoff(guide, { isEnabled: fails })] }],
  ['onHandoff of the handoff to "Guide"', { handoffs: [handoff(guide, { onHandoff: fails })] }],
  ['needsApproval of the tool "greet" of the agent "Clerk"', { tools: [{ ...greet, needsApproval: fails }] }],
  ['the tool "greet" of the agent "Clerk"', { tools: [{ ...greet, invoke: fails }] }],
  ['the prompt of the agent "Clerk"', { prompt: fails }],
  ['toolUseBehavior of the agent "Clerk"', { tools: [greet], toolUseBehavior: fails }],
  ['the toolFilter of the tool server "files" for the agent "Clerk"', { mcpServers: [filtered] }],
  ['the input guardrail "polite"', { inputGuardrails: [{ name: 'polite', execute: fails }] }],
])('%s that throws fails the run, and the cause names it', async (callback, options) => {
  const causes: unknown[] = []
  const called =
    'handoffs' in options
      ? functionCall('transfer_to_Guide', {}, { callId: 'c1' })
      : functionCall('greet', { name: 'Ada' }, { callId: 'c1' })
  const agent = new Agent({ name: 'Clerk', model: new ScriptedModel([[called]]), ...options })

  const { error } = await ask(new Agency({ entryPoint: agent }), 'hi', { onFailure: (cause) => causes.push(cause) })

  expect(error?.code).toBe('run_failed')
  expect(causes).toMatchObject([{ message: `${callback} failed`, cause: { message: 'out of ink' } }])
})

test('checks that wait hold for what a tool, a handoff and an answer get', async () => {
  const known = z.string().refine(async (city) => (await Promise.resolve(city)) === 'Bern')
  const found: unknown[] = []
  const model = new ScriptedModel([
    [functionCall('look', { city: 'Bern' }, { callId: 'c1' })],
    [functionCall('transfer_to_Guide', { city: 'Bern' }, { callId: 'c2' })],
    [assistantMessage('{"city":"Bern"}')],
  ])
  const parameters = z.object({ city: known })
  const execute = ({ city }: { city: string }): number => found.push(city)
  const guide = new Agent({ name: 'Guide', model, outputType: parameters })
  const clerk = new Agent({
    name: 'Clerk',
    model,
    tools: [tool({ name: 'look', description: 'Looks.', parameters, execute })],
    handoffs: [handoff(guide, { inputType: parameters, onHandoff: (_, { city }) => void found.push(city) })],
  })

  const { output, error } = await ask(new Agency({ entryPoint: clerk }), 'hi')

  expect({ output, error, found }).toEqual({ output: { city: 'Bern' }, error: null, found: ['Bern', 'Bern'] })
})

test('a model that cannot be reached fails the run', async () => {
  const { error } = await ask(solo(), 'hi', { baseUrl: 'http://127.0.0.1:9/v1', model: 'any' })

  expect(error?.code).toBe('upstream_unavailable')
})

test('events come in order, and the reader gets all of them', async () => {
  const types: string[] = []
  let text = ''
  for await (const event of askStreamed(solo(), 'Greet Ada.')) {
    types.push(event.type)
    if (event.type === 'model.event' && event.kind === 'response.output_text.delta') {
      text += (JSON.parse(event.json) as { delta: string }).delta
    }
  }

  expect([types[0], types.at(-1)]).toEqual(['run.started', 'run.ended'])
  expect(text).toBe('Good day, Ada.')
})

test('leaving the loop cancels the run, its model request too', async () => {
  const { promise: asked, resolve } = Promise.withResolvers<AbortSignal>()
  const model = new ScriptedModel([
    modelResponder(async ({ signal }) => {
      resolve(signal)
      await once(signal, 'abort')
      return [assistantMessage('too late')]
    }),
  ])
  const events = askStreamed(solo(model), 'hi')
  await events.next()
  const signal = await asked

  await events.return()

  expect(signal.aborted).toBe(true)
})

test('a signal cancels the run, before it begins as well, and is let go afterwards', async () => {
  const stop = new AbortController()
  const model = new ScriptedModel([
    modelResponder(() => {
      stop.abort()
      return [assistantMessage('too late')]
    }),
  ])

  const during = await ask(solo(model), 'hi', { signal: stop.signal })
  const before = await ask(solo(), 'hi', { signal: stop.signal })

  expect([during.status, before.status]).toEqual(['cancelled', 'cancelled'])
  expect(getEventListeners(stop.signal, 'abort')).toEqual([])
})

test('a tool can hand its signal on to what it asks, also outside a run, where it has none', async () => {
  const { signal }: Pick<ToolContext, 'signal'> = { signal: null }

  expect((await ask(solo(), 'Greet Ada.', { signal })).output).toBe('Good day, Ada.')
})

test('a reader far behind holds the model back and still gets everything', async () => {
  const long = 'word '.repeat(3_000)
  const model = new ScriptedModel([[assistantMessage(long)]])
  let events = 0
  let text = ''
  for await (const event of askStreamed(solo(model), 'hi')) {
    if (++events % 100 === 0) await new Promise(setImmediate)
    if (event.type === 'run.ended') text = String(event.output)
  }

  expect(text).toBe(long)
})

test('tool servers are connected for the run and closed after it, again and again', async () => {
  const script = fileURLToPath(new URL('../../../tests/support/stdio-tool-server.ts', import.meta.url))
  const server = new MCPServerStdio({ name: 'greeter', command: process.execPath, args: [script] })
  const agency = new Agency({ entryPoint: new Agent({ name: 'Solo', instructions: '', mcpServers: [server] }) })

  const answers = [await ask(agency, 'Greet Ada.'), await ask(agency, 'Greet Grace.')]

  expect(answers.map(({ output }) => output)).toEqual([
    expect.stringContaining('Hello Ada, from the tool server'),
    expect.stringContaining('Hello Grace, from the tool server'),
  ])
})

test('a request that was refused is not counted when the run is stopped before it is made again', async () => {
  const stop = new AbortController()
  const doStream = async (): Promise<never> => {
    setImmediate(() => stop.abort())
    throw Object.assign(new Error('busy'), { statusCode: 503, responseHeaders: { 'retry-after': '9' } })
  }
  const model = { specificationVersion: 'v4', provider: 'acme.chat', modelId: 'm-1', doStream } as const
  const agency = new Agency({ entryPoint: new Agent({ name: 'Solo', model }) })

  const { status, usage } = await ask(agency, 'Greet Ada.', { signal: stop.signal })

  expect([status, usage?.request_count]).toEqual(['cancelled', 0])
})
