import type { JsonObject } from './json-object.ts'
import { ProviderError } from './provider-error.ts'
import type { RecordedRequest } from './recorded-request.ts'
import { includeOf, outputItem } from './responses-items.ts'
import type { EndingPart, OutputPart, Part, TokenUsage } from './turn.ts'
import { newId, obfuscates, obfuscation, responseFieldsOf, stepOfCut, stepOfHold, usageOf } from './wire.ts'
import type { Step, WireAnswer } from './wire.ts'

/** One turn as the Responses API puts it on the wire, event by event and as one object. */
export function responsesAnswer(parts: readonly Part[], request: RecordedRequest): WireAnswer {
  const ending = parts.find((part) => part.part === 'ending') ?? { part: 'ending', how: 'completed' }
  const endless = parts.every((part) => part.part !== 'ending')
  const events = new EventSequence(obfuscates(request.body))
  const response = responseObject(parts, request)
  const output: JsonObject[] = []
  const context = { include: includeOf(request.body), last: parts.findLast((part) => isOutput(part)), ending }

  events.add('response.created', { response })
  events.add('response.in_progress', { response })
  for (const part of endless ? [...parts, ending] : parts) {
    if (isOutput(part)) output.push(addItem(events, part, { ...context, index: output.length }))
    else if (part.part === 'ending') addEnding(events, part, ended(response, { parts, ending, output }))
    else addStep(events, part)
  }
  const body = ended(response, { parts, ending, output })
  return { steps: events.steps, output, whole: wholeAnswer(ending, body) }
}

/** Numbers the events as the service does: from 0, without a gap. */
class EventSequence {
  readonly steps: Step[] = []
  readonly #obfuscate: boolean
  #next = 0

  constructor(obfuscate: boolean) {
    this.#obfuscate = obfuscate
  }

  add(type: string, fields: JsonObject): void {
    const { delta } = fields
    const padding = this.#obfuscate && typeof delta === 'string' ? { obfuscation: obfuscation(delta) } : {}
    const event = { type, sequence_number: this.#next++, ...fields, ...padding }
    this.steps.push({ step: 'event', name: type, data: JSON.stringify(event) })
  }
}

type ItemContext = { include: readonly unknown[]; last: Part | undefined; ending: EndingPart; index: number }

function addItem(events: EventSequence, part: OutputPart, { include, last, ending, index }: ItemContext): JsonObject {
  const status = ending.how === 'incomplete' && part === last ? 'incomplete' : 'completed'
  const item = outputItem(part, { status, include })
  const place = { item_id: item.added['id'], output_index: index }
  events.add('response.output_item.added', { output_index: index, item: item.added })
  for (const entry of item.progress) {
    if (entry.part === 'hold') events.steps.push(stepOfHold(entry))
    else events.add(entry.type, { ...place, ...entry.fields })
  }
  events.add('response.output_item.done', { output_index: index, item: item.done })
  return item.done
}

function addStep(events: EventSequence, part: Part): void {
  if (part.part === 'hold' && part.before === null) events.steps.push(stepOfHold(part))
  if (part.part === 'cut' && part.after === null) events.steps.push(stepOfCut(part))
  if (part.part === 'raw') events.steps.push({ step: 'raw', bytes: part.bytes })
  if (part.part === 'event') {
    const { type, ...fields } = part.event
    events.add(String(type), fields)
  }
}

function addEnding(events: EventSequence, ending: EndingPart, response: JsonObject): void {
  if (ending.how !== 'error') return events.add(`response.${ending.how}`, { response })
  const { code, message } = ending
  const error = { code, message, param: null }
  events.add('error', ending.nested ? { error: { type: 'server_error', ...error } } : error)
}

const isOutput = (part: Part): part is OutputPart => OUTPUT_PARTS.has(part.part)

const OUTPUT_PARTS: ReadonlySet<string> = new Set<OutputPart['part']>([
  'message',
  'refusal',
  'reasoning',
  'function_call',
  'item',
])

type End = { parts: readonly Part[]; ending: EndingPart; output: readonly JsonObject[] }

function ended(response: JsonObject, { parts, ending, output }: End): JsonObject {
  const tokens = usageOf(parts)
  const error = ending.how === 'failed' ? { code: ending.code, message: ending.message } : null
  return {
    ...response,
    status: ending.how,
    error,
    incomplete_details: ending.how === 'incomplete' ? { reason: ending.reason } : null,
    output: [...output],
    usage: tokens && ending.how !== 'failed' ? wireUsage(tokens) : null,
  }
}

const wireUsage = ({ input, cached, cacheWrite, output, reasoning }: TokenUsage): JsonObject => ({
  input_tokens: input,
  input_tokens_details: { cached_tokens: cached, cache_write_tokens: cacheWrite },
  output_tokens: output,
  output_tokens_details: { reasoning_tokens: reasoning },
  total_tokens: input + output,
})

function wholeAnswer(ending: EndingPart, body: JsonObject): WireAnswer['whole'] {
  if (ending.how !== 'error') return { status: 200, body }
  const { message, code } = ending
  return { status: 500, body: new ProviderError(message, { code, type: 'server_error' }).body }
}

/** The response object before its end: it echoes the settings of the request. */
function responseObject(parts: readonly Part[], { body }: RecordedRequest): JsonObject {
  const given = Object.entries(body).filter(([key]) => key in ECHOED)
  return {
    id: newId('resp'),
    object: 'response',
    created_at: Math.floor(Date.now() / 1000),
    status: 'in_progress',
    background: false,
    error: null,
    incomplete_details: null,
    model: body['model'],
    output: [],
    usage: null,
    ...ECHOED,
    ...Object.fromEntries(given),
    ...responseFieldsOf(parts),
  }
}

const ECHOED: JsonObject = {
  instructions: null,
  max_output_tokens: null,
  max_tool_calls: null,
  metadata: {},
  parallel_tool_calls: true,
  previous_response_id: null,
  prompt_cache_key: null,
  reasoning: { effort: null, summary: null },
  safety_identifier: null,
  service_tier: 'default',
  store: true,
  temperature: 1,
  text: { format: { type: 'text' }, verbosity: 'medium' },
  tool_choice: 'auto',
  tools: [],
  top_logprobs: 0,
  top_p: 1,
  truncation: 'disabled',
  user: null,
}
