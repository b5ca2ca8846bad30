import { HttpAgent } from '@ag-ui/client'
import type { EventSource, ModelEvent, RunEnded, RunEvent, WireItem } from '@bureau/protocol'
import { NO_USAGE, SseParser } from '@bureau/protocol'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Json } from '../../../../tests/support/test-server.ts'
import type { AguiRun } from './read-request.ts'
import { aguiEncoder } from './encode.ts'

const SOLO: EventSource = { agent: 'Solo', callerAgent: null, agent_run_id: 'run_solo' }

const REQUEST: AguiRun = {
  threadId: 't',
  runId: 'r',
  protocolVersion: '1.0',
  messages: [{ id: 'u1', role: 'user', content: 'hi' }],
}

beforeEach(() => vi.spyOn(console, 'warn').mockImplementation(() => {}))
afterEach(() => vi.restoreAllMocks())

function model(kind: string, data: object, source = SOLO): ModelEvent {
  return { type: 'model.event', source, kind, json: JSON.stringify({ type: kind, ...data }) }
}

function created(
  name: 'message_output_created' | 'tool_called' | 'tool_output',
  item: WireItem,
  source = SOLO,
): RunEvent {
  return { type: 'item.created', source, name, item: { type: name, agent: { name: source.agent }, raw_item: item } }
}

function ended(status: RunEnded['status'], fields: Partial<RunEnded> = {}): RunEnded {
  const nothing = { new_messages: [], usage: null, usage_by_model: [], output: null, error: null }
  return { type: 'run.ended', run_id: 'x', status, ...nothing, ...fields }
}

const started: RunEvent = { type: 'run.started', run_id: 'x', agent: 'Solo' }

function encode(events: readonly RunEvent[], run: AguiRun = REQUEST): string {
  const encodeEvent = aguiEncoder(run)
  return events.map((event, index) => encodeEvent(event, index + 1)).join('')
}

async function encoded(events: readonly RunEvent[], run?: AguiRun): Promise<Json[]> {
  return new SseParser().push(encode(events, run)).map(({ data }) => JSON.parse(data))
}

/** The events as the official client sees them, over its own parser. */
async function seenByClient(
  events: readonly RunEvent[],
  { comment = '', run = REQUEST }: { comment?: string; run?: AguiRun } = {},
): Promise<{ seen: Json[]; agent: HttpAgent }> {
  const body = comment + encode(events, run)
  const headers = { 'content-type': 'text/event-stream' }
  const fetch = async (): Promise<Response> => new Response(body, { headers })
  const agent = new HttpAgent({
    url: 'http://agency.test',
    fetch,
    initialMessages: [{ id: 'u1', role: 'user', content: 'hi' }],
  })
  const seen: Json[] = []
  await agent.runAgent({}, { onEvent: ({ event }) => void seen.push(event) })
  return { seen, agent }
}

const message = (id: string, text: string): WireItem => ({
  id,
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text, annotations: [] }],
})

describe('sign-in to tool servers', () => {
  const redirect: RunEvent = { type: 'oauth.redirect', state: 's1', server: 'notes', auth_url: 'https://id.test/a' }
  const status = (value: string): RunEvent => ({ type: 'oauth.status', state: 's1', server: 'notes', status: value })

  test('named frames carry the members that plain clients read', async () => {
    const frames = new SseParser().push(encode([started, redirect, status('pending')]))
    expect(frames.slice(1).map(({ event }) => event)).toEqual(['oauth_redirect', 'oauth_status'])
    expect(JSON.parse(frames[1]!.data)).toMatchObject({ state: 's1', server: 'notes', auth_url: 'https://id.test/a' })
    expect(JSON.parse(frames[2]!.data)).toMatchObject({ state: 's1', server: 'notes', status: 'pending' })
  })

  test('the official client takes them for custom events, and comments for nothing', async () => {
    const events = [started, redirect, status('pending'), status('authorized'), ended('completed')]
    const { seen } = await seenByClient(events, { comment: ': keepalive 1790000000\n\n' })
    expect(seen.filter(({ type }) => type === 'CUSTOM')).toMatchObject([
      { name: 'oauth_redirect', value: { state: 's1', server: 'notes', auth_url: 'https://id.test/a' } },
      { name: 'oauth_status', value: { status: 'pending' } },
      { name: 'oauth_status', value: { status: 'authorized' } },
    ])
  })
})

describe('a run that does not complete', () => {
  const call: WireItem = { id: 'fc_1', type: 'function_call', call_id: 'call_1', name: 'add', arguments: '{}' }
  const unfinished: RunEvent[] = [
    started,
    model('response.output_item.added', { output_index: 0, item: call }),
    model('response.output_item.done', { output_index: 0, item: call }),
    model('response.output_item.added', { output_index: 1, item: message('msg_1', '') }),
    model('response.output_text.delta', { output_index: 1, item_id: 'msg_1', delta: 'Half' }),
  ]

  test('cancelled: everything is closed, and what was not finished is taken back', async () => {
    const { seen, agent } = await seenByClient([...unfinished, ended('cancelled')])
    expect(seen.slice(-3).map(({ type }) => type)).toEqual(['TEXT_MESSAGE_END', 'MESSAGES_SNAPSHOT', 'RUN_FINISHED'])
    expect(seen.at(-1).outcome).toEqual({ type: 'cancelled' })
    expect(agent.messages.map(({ id }) => id)).toEqual(['u1'])
  })

  test('failed: RUN_ERROR with code and usage is the last event', async () => {
    const error = { code: 'run_timeout', message: 'The run took longer than it may.' } as const
    const usage = { ...NO_USAGE, request_count: 1, input_tokens: 5, output_tokens: 2, total_tokens: 7 }
    const usage_by_model = [{ agent: 'Solo', model: 'm', priced: false, usage }]
    const events = await encoded([...unfinished, ended('failed', { error, usage, usage_by_model })])
    expect(events.at(-1)).toMatchObject({ type: 'RUN_ERROR', ...error, usage: [{ model: 'm', inputTokens: 5 }] })
    expect(events.filter(({ type }) => type === 'RUN_FINISHED')).toEqual([])
  })
})

test('a structured answer is the result of the run', async () => {
  const events = await encoded([started, ended('completed', { output: { city: 'Paris' } })])
  expect(events.at(-1)).toMatchObject({ type: 'RUN_FINISHED', result: { city: 'Paris' } })
})

test('without usage tracking no usage is told', async () => {
  expect((await encoded([started, ended('completed')])).at(-1)).not.toHaveProperty('usage')
})

test('events of the agency itself are CUSTOM under their type, and RAW with who sent them', async () => {
  const custom = (data: Json): RunEvent => ({ type: 'custom', source: SOLO, data })
  const progress = { type: 'progress', percent: 40 }
  const predicted = { type: 'PredictState', value: [{ state_key: 'text', tool: 'write', tool_argument: 'text' }] }
  const events = [started, custom(progress), custom(predicted), custom({ type: 'big', size: 1n }), ended('completed')]

  const { seen } = await seenByClient(events)

  expect(seen.slice(1, -1)).toEqual([
    { type: 'CUSTOM', name: 'progress', value: progress },
    { type: 'RAW', event: { ...progress, ...SOLO } },
    { type: 'CUSTOM', name: 'PredictState', value: predicted.value },
    { type: 'RAW', event: { ...predicted, ...SOLO } },
  ])
})

test('a snapshot while another message is being written keeps that message', async () => {
  const other: EventSource = { ...SOLO, agent: 'Other', agent_run_id: 'run_other' }
  const { agent } = await seenByClient([
    started,
    model('response.output_item.added', { output_index: 0, item: message('msg_a', '') }),
    model('response.output_text.delta', { item_id: 'msg_a', delta: 'One ' }),
    model('response.output_item.added', { output_index: 0, item: message('msg_b', '') }, other),
    model('response.output_item.done', { output_index: 0, item: message('msg_b', 'B') }, other),
    created('message_output_created', message('msg_b', 'B'), other),
    model('response.output_text.delta', { item_id: 'msg_a', delta: 'two' }),
    model('response.output_item.done', { output_index: 0, item: message('msg_a', 'One two') }),
    ended('completed'),
  ])
  expect(agent.messages.map(({ content }) => content)).toEqual(['hi', 'One two', 'B'])
})

test('deltas without an item id belong to the item at their place', async () => {
  const item = { ...message('__fake_id__', '') }
  const events = await encoded([
    started,
    model('response.output_item.added', { output_index: 0, item: message('msg_a', '') }),
    model('response.output_text.delta', { output_index: 0, delta: 'A' }),
    model('response.output_item.added', { output_index: 1, item }),
    model('response.output_text.delta', { output_index: 1, item_id: '__fake_id__', delta: 'B' }),
  ])
  expect(events.filter(({ type }) => type === 'TEXT_MESSAGE_CONTENT')).toMatchObject([
    { messageId: 'msg_a', delta: 'A' },
    { messageId: '__fake_id__', delta: 'B' },
  ])
})

test('items that no model streamed are told as a whole', async () => {
  const call = { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'add', arguments: '{"a":1}' }
  const output = { type: 'function_call_output', call_id: 'call_1', output: '3' }
  const { seen, agent } = await seenByClient([
    started,
    created('tool_called', call),
    created('tool_output', output),
    created('message_output_created', message('msg_1', 'It is 3.')),
    ended('completed'),
  ])
  expect(seen.map(({ type }) => type)).toEqual([
    'RUN_STARTED',
    'TOOL_CALL_START',
    'TOOL_CALL_ARGS',
    'TOOL_CALL_END',
    'MESSAGES_SNAPSHOT',
    'RAW',
    'TOOL_CALL_RESULT',
    'MESSAGES_SNAPSHOT',
    'TEXT_MESSAGE_START',
    'TEXT_MESSAGE_CONTENT',
    'TEXT_MESSAGE_END',
    'MESSAGES_SNAPSHOT',
    'RUN_FINISHED',
  ])
  expect(agent.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant'])
})

test('a tool that returns an image gives the client an image', async () => {
  const call = { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'draw', arguments: '{}' }
  const output = [{ type: 'input_image', image_url: 'data:image/png;base64,QUJD', detail: 'auto' }]
  const events = await encoded([
    started,
    created('tool_called', call),
    created('tool_output', { type: 'function_call_output', call_id: 'call_1', output }),
  ])
  expect(events.find(({ type }) => type === 'TOOL_CALL_RESULT').content).toEqual([
    { type: 'image', source: { type: 'data', mimeType: 'image/png', value: 'QUJD' } },
  ])
})

test('the note on the origin of files stands before the message that they came with', async () => {
  const note = { role: 'system', content: 'Files: {"a.txt":{}}' }
  const run = { ...REQUEST, fileSources: () => note }
  const events = await encoded([started, created('message_output_created', message('msg_1', 'ok'))], run)
  const snapshot = events.find(({ type }) => type === 'MESSAGES_SNAPSHOT')
  expect(snapshot.messages.map(({ role }: Json) => role)).toEqual(['system', 'user', 'assistant'])
})

/** One step of an agent's work on one item: it may come twice, too early, or never. */
const step = fc.record({
  agent: fc.constantFrom('Solo', 'Nested'),
  item: fc.constantFrom(
    'message',
    'reasoning',
    'function_call',
    'file_search_call',
    'code_interpreter_call',
    'web_search_call',
  ),
  what: fc.constantFrom('added', 'delta', 'partDone', 'done', 'created', 'output', 'updated', 'error'),
  number: fc.integer({ min: 1, max: 3 }),
  text: fc.constantFrom('', 'a', '{"x":1}'),
})

type Step = typeof step extends fc.Arbitrary<infer S> ? S : never

const DELTAS: Record<string, string> = {
  message: 'response.output_text.delta',
  reasoning: 'response.reasoning_summary_text.delta',
  function_call: 'response.function_call_arguments.delta',
  file_search_call: 'response.file_search_call.searching',
  code_interpreter_call: 'response.code_interpreter_call_code.delta',
  web_search_call: 'response.web_search_call.searching',
}

function eventOf({ agent, item, what, number, text }: Step): RunEvent {
  const nested = { agent, callerAgent: 'Solo', agent_run_id: 'run_nested', parent_run_id: 'call_1' }
  const source: EventSource = agent === 'Solo' ? SOLO : nested
  const id = `${item}_${number}`
  const wire: WireItem = {
    ...(item === 'message' ? message(id, text) : { id, type: item }),
    ...(item === 'function_call' && { call_id: `call_${number}`, name: 'add', arguments: text }),
    ...(item === 'reasoning' && { summary: text === '' ? [] : [{ type: 'summary_text', text }] }),
  }
  switch (what) {
    case 'added':
      return model('response.output_item.added', { item: wire, output_index: number }, source)
    case 'delta':
      return model(DELTAS[item]!, { item_id: id, output_index: number, delta: text }, source)
    case 'partDone':
      return model('response.reasoning_summary_part.done', { item_id: id, output_index: number }, source)
    case 'done':
      return model('response.output_item.done', { item: wire, output_index: number }, source)
    case 'created':
      return created(item === 'message' ? 'message_output_created' : 'tool_called', wire, source)
    case 'output':
      return created('tool_output', { type: 'function_call_output', call_id: `call_${number}`, output: text }, source)
    case 'updated':
      return { type: 'agent.updated', source }
    case 'error':
      return { type: 'custom', source, data: { type: 'error', content: 'It failed.' } }
  }
}

test('whatever a run does, its stream is legal for the official client', async () => {
  const status = fc.constantFrom('completed', 'failed', 'cancelled')
  const version = fc.constantFrom(undefined, '0.9', '1.0')
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), status, version, async (steps, how, protocolVersion) => {
      const { protocolVersion: _, ...before } = REQUEST
      const modern = protocolVersion === '1.0'
      const run = { ...before, ...(protocolVersion !== undefined && { protocolVersion }) } as AguiRun
      const events = [started, ...steps.map(eventOf), ended(how)]
      const { seen } = await seenByClient(events, { run })
      const finished = how === 'completed' || (how === 'cancelled' && modern)
      expect(seen.at(-1).type).toBe(finished ? 'RUN_FINISHED' : 'RUN_ERROR')
      expect(seen.filter((event) => event.delta === '')).toEqual([])
      const last = seen.findLast(({ type }) => type === 'MESSAGES_SNAPSHOT')
      const ids = (last?.messages ?? []).map(({ id }: Json) => id)
      expect(new Set(ids).size).toBe(ids.length)
    }),
    { numRuns: 300 },
  )
})
