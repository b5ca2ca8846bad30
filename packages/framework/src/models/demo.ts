import { setTimeout as sleep } from 'node:timers/promises'
import type { WireItem } from '@bureau/protocol'
import { responseUsage } from './answer-values.ts'
import { ResponseEventWriter, type ResponseUsage } from './response-events.ts'
import type { ModelCallOptions, ResponsesRequest } from '../agency/model-object.ts'

const WORD_PAUSE_MS = 8

type FunctionTool = { readonly name: string; readonly description: string; readonly parameters: Schema }
type Schema = { readonly [key: string]: unknown }

/**
 * The built-in offline model: answers, calls tools and delegates by simple rules, so that an agency can be tried without a
 * key. It speaks through the same events as a provider. It is not a language model and says so.
 *
 * The rules: a tool whose name or description shares words with the user's message is called once; when its result is
 * there, the answer repeats it; otherwise the answer says what the agent can do.
 */
export async function demoTransport(request: ResponsesRequest, call: ModelCallOptions): Promise<void> {
  const writer = new ResponseEventWriter(call.observer, request)
  const turn = readTurn(request.input)
  const tool = turn.results.length > 0 ? undefined : chooseTool(toolsOf(request), turn.message)
  if (tool) {
    const call = writer.functionCall({ name: tool.name })
    call.arguments(JSON.stringify(argumentsFor({ tool, message: turn.message, told: request.instructions ?? '' })))
  } else {
    const answer = formatOf(request) ?? titleOf(request, turn) ?? spokenAnswer(request, turn)
    for (const word of answer.match(/\S+\s*/g) ?? []) {
      writer.text(word)
      await call.observer.onBatchEnd()
      await sleep(WORD_PAUSE_MS, undefined, { signal: call.signal }).catch(() => call.signal.throwIfAborted())
    }
  }
  if (writer.speechless) writer.text('')
  writer.complete(usageOf(request))
  await call.observer.onBatchEnd()
}

type Turn = { readonly message: string; readonly results: readonly string[] }

/** The last message of the user and what tools have answered since. */
function readTurn(input: readonly WireItem[]): Turn {
  const start = input.findLastIndex((item) => item.role === 'user')
  const results = input
    .slice(start + 1)
    .filter((item) => item.type === 'function_call_output' && !isTransfer(item))
    .map((item) => textOf(item['output']))
  return { message: textOf(input[start]?.['content']), results }
}

function isTransfer(item: WireItem): boolean {
  return typeof item['output'] === 'string' && item['output'].startsWith('{"assistant":')
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.map((part: { text?: unknown } | null) => (typeof part?.text === 'string' ? part.text : '')).join(' ')
}

function toolsOf(request: ResponsesRequest): FunctionTool[] {
  return (request.tools ?? []).filter((tool) => tool['type'] === 'function') as FunctionTool[]
}

/** The tool with the most words in common with the message; messages to an agent count the agent's own words. */
function chooseTool(tools: readonly FunctionTool[], message: string): FunctionTool | undefined {
  const words = wordsOf(message)
  const scored = tools.map((tool) => ({ tool, score: overlap(words, wordsOf(`${tool.name} ${tool.description}`)) }))
  const best = scored.toSorted((a, b) => b.score - a.score)[0]
  return best && best.score > 0 ? best.tool : undefined
}

const COMMON = new Set(
  'the a an and or of to in is are for with that this it its be on by as at from you your who what how an agent agents sends message messages waits answer answers another handoff handle request recipients not no description can tool'.split(
    ' ',
  ),
)

function wordsOf(text: string): Set<string> {
  const words = text.toLowerCase().match(/\p{L}{2,}/gu) ?? []
  return new Set(words.map((word) => word.replace(/(?:ing|ers?|s)$/, '')).filter((word) => !COMMON.has(word)))
}

function overlap(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  return [...a].filter((word) => b.has(word)).length
}

type Asked = { readonly message: string; readonly tool: FunctionTool; readonly told: string }

function argumentsFor(asked: Asked): Record<string, unknown> {
  const properties = (asked.tool.parameters['properties'] ?? {}) as Record<string, Schema>
  const values: Record<string, unknown> = {}
  const numbers = asked.message.match(/-?\d+(?:\.\d+)?/g) ?? ['1']
  for (const [name, schema] of Object.entries(properties)) values[name] = valueFor(name, schema, asked, numbers)
  return values
}

/** @param numbers - Those of the message that no argument has been given yet; the last one is for all that are left. */
function valueFor(name: string, schema: Schema, asked: Asked, numbers: string[]): unknown {
  if (Array.isArray(schema['enum'])) return bestOption(schema['enum'], asked)
  if (name === 'additional_instructions') return ''
  if (name === 'path') return /\/[\w.-]+(?:\/[\w.-]+)+/.exec(`${asked.message} ${asked.told}`)?.[0] ?? '/'
  switch (schema['type']) {
    case 'number':
    case 'integer':
      return Number(numbers.length > 1 ? numbers.shift() : numbers[0])
    case 'boolean':
      return true
    case 'array':
      return []
    case 'object':
      return argumentsFor({ ...asked, tool: { ...asked.tool, parameters: schema } })
    default:
      return name === 'message' || name === 'text' ? asked.message : subjectOf(asked.message)
  }
}

/** An agent is chosen by the words of its line in the tool's description. */
function bestOption(options: readonly unknown[], { message, tool }: Asked): unknown {
  const words = wordsOf(message)
  const scored = options.map((option) => {
    const line = tool.description.split('\n').find((text) => text.includes(`${String(option)}:`)) ?? String(option)
    return { option, score: overlap(words, wordsOf(line)) }
  })
  return scored.toSorted((a, b) => b.score - a.score)[0]?.option
}

/** A capitalised word inside the sentence, or a quoted text, or the whole message. */
function subjectOf(message: string): string {
  const quoted = /["“]([^"“”]+)["”]/.exec(message)?.[1]
  const named = /\S\s+(\p{Lu}[\p{L}-]+)/u.exec(message)?.[1]
  return quoted ?? named ?? message
}

/** Asked for a title, the answer is the first words of the conversation. */
function titleOf(request: ResponsesRequest, turn: Turn): string | undefined {
  if (!/\btitles?\b/i.test(request.instructions ?? '')) return undefined
  const words = turn.message.replace(/^\w+:\s*/, '').match(/\p{L}[\p{L}\p{N}'-]*/gu) ?? []
  return words.length < 2 ? 'A short talk' : words.slice(0, 4).join(' ')
}

function spokenAnswer(request: ResponsesRequest, turn: Turn): string {
  if (turn.results.length > 0) return turn.results.join(' ')
  const tools = toolsOf(request).map((tool) => tool.name)
  const able = tools.length > 0 ? ` I can use: ${tools.join(', ')}.` : ''
  return `This is the built-in demo model, which follows simple rules.${able} You said: ${turn.message}`
}

/** With a structured output type the answer is the smallest value that fits its schema. */
function formatOf(request: ResponsesRequest): string | undefined {
  const format = (request['text'] as { format?: { type?: string; schema?: Schema } } | undefined)?.format
  return format?.type === 'json_schema' && format.schema ? JSON.stringify(smallest(format.schema)) : undefined
}

/** A schema may come from a caller, so no list and no text is filled with more characters than this. */
const MAX_FILLED = 10_000

function smallest(schema: Schema): unknown {
  if (schema['const'] !== undefined) return schema['const']
  if (Array.isArray(schema['enum'])) return schema['enum'][0] ?? null
  const kinds = schema['anyOf'] ?? schema['oneOf']
  if (Array.isArray(kinds)) return smallest(kinds[0] as Schema)
  switch ([schema['type']].flat()[0]) {
    case 'object': {
      const properties = Object.entries((schema['properties'] ?? {}) as Record<string, Schema>)
      return Object.fromEntries(properties.map(([name, member]) => [name, smallest(member)]))
    }
    case 'array': {
      const { items = {}, minItems = 0 } = schema as { items?: Schema; minItems?: number }
      const entry = smallest(items)
      const most = Math.ceil(MAX_FILLED / JSON.stringify(entry).length)
      return Array.from({ length: Math.min(minItems, most) }, () => entry)
    }
    case 'number':
    case 'integer':
      return numberIn(schema)
    case 'boolean':
      return false
    default:
      return textIn(schema)
  }
}

function numberIn(schema: Schema): number {
  const { minimum = 0, exclusiveMinimum = -1, maximum = Infinity } = schema as Record<string, number | undefined>
  return Math.min(Math.max(0, minimum, exclusiveMinimum + 1), maximum)
}

const TEXTS = new Map<unknown, string>([
  ['email', 'demo@example.com'],
  ['uri', 'https://example.com'],
  ['uuid', '00000000-0000-0000-0000-000000000000'],
  ['date', '2000-01-01'],
  ['time', '00:00:00'],
  ['date-time', '2000-01-01T00:00:00Z'],
])

function textIn(schema: Schema): string {
  const { minLength = 0, maxLength } = schema as { minLength?: number; maxLength?: number }
  return TEXTS.get(schema['format']) ?? 'demo'.padEnd(Math.min(minLength, MAX_FILLED), '.').slice(0, maxLength)
}

/** Estimated at four characters a token, so that usage and allowances can be tried offline too. */
function usageOf(request: ResponsesRequest): ResponseUsage {
  const input = Math.ceil(JSON.stringify(request.input).length / 4)
  return responseUsage({ input, cached: 0, written: 0, output: 24, reasoning: 0 })
}
