import type { Answering } from './scenarios.ts'

/** One answer of the Responses API as bytes ready for a socket: HTTP head, chunked body. */
export type Answer = {
  /** The opening events are in the first write, the closing ones in the last; one delta in each between. */
  readonly writes: readonly Buffer[]
}

/** The two answers of a scenario: text, and the function call that precedes it in a tool round. */
export type Answers = { readonly text: Answer; readonly toolCall: Answer }

export function precompute({ deltas, paceMs, holdAfter }: Answering): Answers {
  const apart = paceMs > 0 || holdAfter !== null
  return { text: compile(textEvents(deltas), apart), toolCall: precomputeCall(WEATHER_CALL) }
}

type FunctionCall = { readonly name: string; readonly arguments: string }

/** An answer that is one call of a function. */
export function precomputeCall(call: FunctionCall): Answer {
  return compile(toolCallEvents(call), false)
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
    itemEvent('added', { ...item, status: 'in_progress', content: [] }),
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
    itemEvent('done', item),
    completed('b', item, count),
  ]
}

const WEATHER_CALL: FunctionCall = { name: 'get_weather', arguments: '{"city":"Paris"}' }

function toolCallEvents({ name, arguments: args }: FunctionCall): readonly Event[] {
  const id = wireId('fc', 'c')
  const call = { id, type: 'function_call', status: 'completed', call_id: 'call_c0ffee01', name }
  const pieces = args.split(/\b/)
  return [
    ...opening('d'),
    itemEvent('added', { ...call, status: 'in_progress', arguments: '' }),
    ...pieces.map((delta) => ({
      type: 'response.function_call_arguments.delta',
      item_id: id,
      output_index: 0,
      delta,
      obfuscation: 'Xp3q9ZkT0mLw7c',
    })),
    { type: 'response.function_call_arguments.done', item_id: id, output_index: 0, arguments: args },
    itemEvent('done', { ...call, arguments: args }),
    completed('d', { ...call, arguments: args }, pieces.length),
  ]
}

const opening = (mark: string): readonly Event[] => [
  { type: 'response.created', response: responseObject(mark) },
  { type: 'response.in_progress', response: responseObject(mark) },
]

const itemEvent = (step: 'added' | 'done', item: object): Event => ({
  type: `response.output_item.${step}`,
  output_index: 0,
  item,
})

function completed(mark: string, item: object, outputTokens: number): Event {
  const usage = {
    input_tokens: 80,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: outputTokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 80 + outputTokens,
  }
  const response = { ...responseObject(mark), status: 'completed', output: [item], usage }
  return { type: 'response.completed', response }
}

/** The answers of one run differ in their ids; runs share them, so that the bytes can be made once. */
const wireId = (prefix: string, mark: string): string => `${prefix}_${mark.repeat(48)}`

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
