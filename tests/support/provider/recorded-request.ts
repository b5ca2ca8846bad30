import type { IncomingHttpHeaders } from 'node:http'
import { isJsonObject, jsonObjects, stringOr, type JsonObject } from './json-object.ts'

type ProviderApi = 'responses' | 'chat' | 'files' | 'models' | 'other'

type Arrival = { order: number; method: string; path: string; headers: IncomingHttpHeaders; bytes: Buffer }

type ToolOutput = { readonly callId: string; readonly output: string }

/** One request that reached the provider. The getters read its JSON body the same way for both model APIs. */
export class RecordedRequest {
  /** From 1, over all requests, in the order in which they arrived completely. */
  readonly order: number
  /** When it arrived, in milliseconds of `performance.now()`. */
  readonly at = performance.now()
  readonly method: string
  /** Without the query. */
  readonly path: string
  readonly query: string
  readonly headers: IncomingHttpHeaders
  readonly bytes: Buffer
  readonly api: ProviderApi
  /** The JSON body; empty when there is none or it is no JSON object. */
  readonly body: JsonObject
  /** Whether the body was a JSON object. */
  readonly isJson: boolean

  constructor({ order, method, path, headers, bytes }: Arrival) {
    const [pathname = '', query = ''] = path.split('?', 2)
    this.order = order
    this.method = method
    this.path = pathname
    this.query = query
    this.headers = headers
    this.bytes = bytes
    this.api = apiOf(method, pathname)
    const parsed = headers['content-type']?.includes('json') ? parseBody(bytes) : null
    this.isJson = parsed !== null
    this.body = parsed ?? {}
  }

  /** The key of the `Authorization` header, null without one. */
  get apiKey(): string | null {
    return /^Bearer (.+)$/.exec(this.headers.authorization ?? '')?.[1] ?? null
  }

  get model(): string {
    return stringOr(this.body['model'], '')
  }

  get stream(): boolean {
    return this.body['stream'] === true
  }

  /** `instructions`, or the system and developer messages of a chat completion. */
  get instructions(): string {
    if (this.api !== 'chat') return stringOr(this.body['instructions'], '')
    const told = this.items.filter(({ role }) => role === 'system' || role === 'developer')
    return told.map((message) => textOf(message['content'])).join('\n')
  }

  /** The input items, or the messages of a chat completion, in wire form. */
  get items(): readonly JsonObject[] {
    if (this.api === 'chat') return jsonObjects(this.body['messages'])
    const { input } = this.body
    return typeof input === 'string' ? [{ role: 'user', content: input }] : jsonObjects(input)
  }

  /** Text of the last user message. */
  get lastUserText(): string {
    return textOf(this.items.findLast(({ role }) => role === 'user')?.['content'])
  }

  /** Results of function calls since the last user message. */
  get toolOutputs(): readonly ToolOutput[] {
    const since = this.items.slice(this.items.findLastIndex(({ role }) => role === 'user') + 1)
    return since.flatMap((item) => {
      if (item['type'] === 'function_call_output') return [outputOf(item['call_id'], item['output'])]
      return item['role'] === 'tool' ? [outputOf(item['tool_call_id'], item['content'])] : []
    })
  }

  /** Names of the function tools on offer. */
  get toolNames(): readonly string[] {
    const tools = jsonObjects(this.body['tools'])
    return tools.flatMap((tool) => {
      const named = isJsonObject(tool['function']) ? tool['function'] : tool
      return typeof named['name'] === 'string' ? [named['name']] : []
    })
  }
}

function apiOf(method: string, path: string): ProviderApi {
  if (method === 'POST' && path.endsWith('/responses')) return 'responses'
  if (method === 'POST' && path.endsWith('/chat/completions')) return 'chat'
  if (/\/files(\/|$)/.test(path)) return 'files'
  return /\/models(\/|$)/.test(path) ? 'models' : 'other'
}

function parseBody(bytes: Buffer): JsonObject | null {
  try {
    const value: unknown = JSON.parse(bytes.toString())
    return isJsonObject(value) ? value : null
  } catch {
    return null
  }
}

const outputOf = (callId: unknown, output: unknown): ToolOutput => ({ callId: String(callId), output: textOf(output) })

function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  return jsonObjects(content)
    .map((part) => stringOr(part['text'], ''))
    .join('')
}
