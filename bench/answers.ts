import type { Answering, FunctionCall } from './scenarios.ts'

/** One answer of the Responses API as bytes ready for a socket: HTTP head, chunked body. */
export type Answer = {
  /** The opening events are in the first write, the closing ones in the last; one delta in each between. */
  readonly writes: readonly Buffer[]
}

/** The answers of a scenario: function calls for each round of it, and the text that follows the last one. */
export type Answers = { readonly rounds: readonly Answer[]; readonly text: Answer }

export function precompute({ rounds, deltas, paceMs, holdAfter }: Answering): Answers {
  const apart = paceMs > 0 || holdAfter !== null
  return { rounds: rounds.map(precomputeCalls), text: compile(textEvents(deltas), apart) }
}

/** An answer that is nothing but calls of functions. Their ids differ from those of the other rounds. */
export function precomputeCalls(calls: readonly FunctionCall[], round: number): Answer {
  return compile(callEvents(calls, round), false)
}

type Event = { readonly type: string } & Readonly<Record<string, unknown>>

const HEAD = [
  'HTTP/1.1 200 OK',
  'content-type: text/event-stream; charset=utf-8',
  'cache-control: no-cache',
  'x-request-id: req_bench',
  'transfer-encoding: chunked',
  '\r\n',
].join('\r\n')

/** Each event is an HTTP chunk of its own, as the service sends them, whether or not they share a packet. */
function compile(events: readonly Event[], apart: boolean): Answer {
  const frames = events.map((event, number) => {
    const data = JSON.stringify({ ...event, sequence_number: number })
    return chunk(`event: ${event.type}\ndata: ${data}\n\n`)
  })
  const isDelta = (index: number): boolean => events[index]?.type === 'response.output_text.delta'
  const writes: string[] = [HEAD]
  for (const [index, frame] of frames.entries()) {
    const alone = apart && isDelta(index) && isDelta(index - 1)
    const closing = apart && !isDelta(index) && isDelta(index - 1)
    if (alone || closing) writes.push(frame)
    else writes.push(`${writes.pop() ?? ''}${frame}`)
  }
  writes.push(`${writes.pop() ?? ''}0\r\n\r\n`)
  return { writes: writes.map((text) => Buffer.from(text)) }
}

const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`

function textEvents(count: number): readonly Event[] {
  const id = wireId('msg', 'a')
  const at = { item_id: id, output_index: 0, content_index: 0 }
  const pieces = Array.from({ length: count }, (_, index) => ` ${WORDS[index % WORDS.length] ?? ''}`)
  const text = pieces.join('')
  const part = { type: 'output_text', annotations: [], logprobs: [], text }
  const item = { id, type: 'message', status: 'completed', content: [part], role: 'assistant' }
  return [
    ...opening('b'),
    itemEvent('added', { ...item, status: 'in_progress', content: [] }, 0),
    { type: 'response.content_part.added', ...at, part: { ...part, text: '' } },
    ...pieces.map((delta) => ({
      type: 'response.output_text.delta',
      ...at,
      delta,
      logprobs: [],
      obfuscation: 'Xp3q9ZkT0mLw7c'.slice(delta.length),
    })),
    { type: 'response.output_text.done', ...at, text, logprobs: [] },
    { type: 'response.content_part.done', ...at, part },
    itemEvent('done', item, 0),
    completed('b', [item], count),
  ]
}

function callEvents(calls: readonly FunctionCall[], round: number): readonly Event[] {
  const items = calls.map(({ name, arguments: args }, place) => {
    const mark = `${round}${place}`
    return {
      id: wireId('fc', mark),
      type: 'function_call',
      status: 'completed',
      arguments: args,
      call_id: `call_${mark}`,
      name,
    }
  })
  const mark = `d${round}`
  return [...opening(mark), ...items.flatMap(oneCallEvents), completed(mark, items, calls.length * 5)]
}

function oneCallEvents(call: { readonly id: string; readonly arguments: string }, place: number): readonly Event[] {
  const at = { item_id: call.id, output_index: place }
  return [
    itemEvent('added', { ...call, status: 'in_progress', arguments: '' }, place),
    ...call.arguments.split(/\b/).map((delta) => ({
      type: 'response.function_call_arguments.delta',
      ...at,
      delta,
      obfuscation: 'Xp3q9ZkT0mLw7c',
    })),
    { type: 'response.function_call_arguments.done', ...at, arguments: call.arguments },
    itemEvent('done', call, place),
  ]
}

const opening = (mark: string): readonly Event[] => [
  { type: 'response.created', response: responseObject(mark) },
  { type: 'response.in_progress', response: responseObject(mark) },
]

const itemEvent = (step: 'added' | 'done', item: object, place: number): Event => ({
  type: `response.output_item.${step}`,
  output_index: place,
  item,
})

function completed(mark: string, output: readonly object[], outputTokens: number): Event {
  const usage = {
    input_tokens: 80,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: outputTokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 80 + outputTokens,
  }
  const response = { ...responseObject(mark), status: 'completed', output, usage }
  return { type: 'response.completed', response }
}

/** The answers of one run differ in their ids; runs share them, so that the bytes can be made once. */
const wireId = (prefix: string, mark: string): string => `${prefix}_${mark.padStart(48, 'a')}`

const responseObject = (mark: string): object => ({
  id: wireId('resp', mark),
  object: 'response',
  created_at: 1_760_000_000,
  status: 'in_progress',
  background: false,
  error: null,
  incomplete_details: null,
  instructions: 'You are a helpful assistant. Answer briefly.',
  max_output_tokens: null,
  model: 'gpt-5-mini-2025-08-07',
  output: [],
  parallel_tool_calls: true,
  previous_response_id: null,
  reasoning: { effort: 'medium', summary: null },
  service_tier: 'default',
  store: true,
  temperature: 1,
  text: { format: { type: 'text' }, verbosity: 'medium' },
  tool_choice: 'auto',
  tools: [WEATHER_TOOL],
  top_p: 1,
  truncation: 'disabled',
  usage: null,
  user: null,
  metadata: {},
})

const WEATHER_TOOL = {
  type: 'function',
  name: 'get_weather',
  description: 'Tells the weather in a city.',
  strict: true,
  parameters: {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  },
}

const WORDS = ['the', 'weather', 'in', 'Paris', 'is', 'mild', 'and', 'a', 'little', 'cloudy', 'today', 'with', 'rain']
