import type { FakeProvider } from './fake-provider.ts'

/** The protocols through which an agency is asked, each behind the same few words. */

// oxlint-disable-next-line no-explicit-any -- answers are asserted on, member by member
type Json = any

/** A server, as a caller knows it. */
export type Place = {
  readonly url: string
  readonly provider: FakeProvider
  readonly headers?: Readonly<Record<string, string>>
  /** What the tool of an agency is called. Default: `ask_<agency>`. */
  readonly toolOf?: (agency: string) => string
  /** True: a run that waits is kept by the server, and goes on itself. */
  readonly keepsRuns?: true
}

/** What is said, in words that no protocol has. */
type Said = { readonly text: string; readonly image?: string }

/** An answer, in words that no protocol has. */
type Heard = {
  /** Text, or an object where the protocol has a place for one. */
  readonly answer: unknown
  readonly tokens?: number
}

export type Door = {
  readonly name: string
  readonly ask: (server: Place, agency: string, said: Said) => Promise<Heard>
  /** What its client reads of a run that fails, or waits for what it cannot bring. */
  readonly raw: (server: Place, said: Said) => Promise<string>
  /** A run that is to pay, approved by a person. Absent: the protocol has no way to bring a decision. */
  readonly approve?: (server: Place) => Promise<Heard>
  /** Ends a run that has begun. Default: its client hangs up. */
  readonly cancel?: (server: Place) => Promise<void>
  /** Where an image has no place, why. */
  readonly noImages?: string
}

const JSON_TYPES = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }

type Extra = { readonly headers?: Readonly<Record<string, string>> }

const post = (place: Place, path: string, body: Json, { headers }: Extra = {}) =>
  fetch(place.url + path, {
    method: 'POST',
    headers: { ...JSON_TYPES, ...place.headers, ...headers },
    body: JSON.stringify(body),
  })

export const dataUrl = (image: string): string => `data:image/png;base64,${image}`

/** The frames of a stream that have JSON. */
const framesOf = (body: string): Json[] =>
  [...body.matchAll(/^data: (.*)$/gm)].flatMap(([, data = '']) => (data.startsWith('{') ? [JSON.parse(data)] : []))

const items = ({ text: words, image }: Said): Json[] => [
  { type: 'input_text', text: words },
  ...(image === undefined ? [] : [{ type: 'input_image', image_url: dataUrl(image), detail: 'auto' }]),
]

const native = (said: Said): Json => ({ message: [{ role: 'user', content: items(said) }] })

export const getResponse: Door = {
  name: 'get_response',
  ask: async (server, agency, said) => {
    const { response: answer, usage } = (await (
      await post(server, `/${agency}/get_response`, native(said))
    ).json()) as Json
    return { answer, tokens: usage.total_tokens }
  },
  raw: async (server, said) => (await post(server, '/solo/get_response', native(said))).text(),
  approve: async (server) => {
    const path = '/solo/get_response'
    const first = (await (await post(server, path, { message: 'Pay.' })).json()) as Json
    const approvals = first.approvals.map(({ call_id, token }: Json) => ({ call_id, token, approve: true }))
    const body = { chat_history: first.new_messages, approvals }
    return { answer: ((await (await post(server, path, body)).json()) as Json).response }
  },
}

export const stream: Door = {
  ...getResponse,
  name: 'get_response_stream',
  ask: async (server, agency, said) => {
    const frames = framesOf(await (await post(server, `/${agency}/get_response_stream`, native(said))).text())
    const { new_messages: messages, usage } = frames.find((frame) => frame.new_messages)
    return { answer: messages.at(-1).content[0].text, tokens: usage.total_tokens }
  },
  raw: async (server, said) => (await post(server, '/solo/get_response_stream', native(said))).text(),
}

const agui = ({ text: words, image }: Said): Json => {
  const source = { type: 'data', value: image, mimeType: 'image/png' }
  const content =
    image === undefined
      ? words
      : [
          { type: 'text', text: words },
          { type: 'image', source },
        ]
  return { threadId: 't', runId: 'r', messages: [{ id: 'u', role: 'user', content }] }
}

const aguiText = (frames: Json[]): string => {
  const last = frames.findLast(({ type }) => type === 'TEXT_MESSAGE_START')?.messageId
  return frames
    .flatMap(({ type, messageId, delta }) => (type === 'TEXT_MESSAGE_CONTENT' && messageId === last ? [delta] : []))
    .join('')
}

const aguiAt = ({ keepsRuns }: Place, agency: string): string => (keepsRuns ? `/agui/${agency}` : `/${agency}/agui`)

export const agUi: Door = {
  name: 'AG-UI',
  ask: async (server, agency, said) => ({
    answer: aguiText(framesOf(await (await post(server, aguiAt(server, agency), agui(said))).text())),
  }),
  raw: async (server, said) => (await post(server, aguiAt(server, 'solo'), agui(said))).text(),
  approve: async (server) => {
    const body = agui({ text: 'Pay.' })
    const frames = framesOf(await (await post(server, aguiAt(server, 'solo'), body)).text())
    const [{ id: interruptId }] = frames.at(-1).outcome.interrupts
    const call = { id: 'call_p', type: 'function', function: { name: 'pay', arguments: '{"euros":5}' } }
    const messages = [...body.messages, { id: 'a', role: 'assistant', toolCalls: [call] }]
    const resume = [{ interruptId, status: 'resolved', payload: { approved: true } }]
    const next = await post(server, aguiAt(server, 'solo'), { ...body, runId: 'r2', messages, resume })
    return { answer: aguiText(framesOf(await next.text())) }
  },
}

const chat = (model: string, { text: words, image }: Said): Json => {
  const url = image !== undefined && { type: 'image_url', image_url: { url: dataUrl(image) } }
  const content = [{ type: 'text', text: words }, ...(url ? [url] : [])]
  return { model, messages: [{ role: 'user', content }] }
}
const CHAT = '/openai/v1/chat/completions'

export const chatCompletions: Door = {
  name: 'Chat Completions',
  ask: async (server, agency, said) => {
    const { choices, usage } = (await (await post(server, CHAT, chat(agency, said))).json()) as Json
    return { answer: choices[0].message.content, tokens: usage.total_tokens }
  },
  raw: async (server, said) => (await post(server, CHAT, chat('solo', said))).text(),
}

const RESPONSES = '/openai/v1/responses'
const responseBody = (model: string, said: Said): Json => ({
  model,
  input: [{ role: 'user', content: items(said) }],
})
const outputText = ({ output }: Json): string => output.findLast(({ type }: Json) => type === 'message').content[0].text

export const responses: Door = {
  name: 'Open Responses',
  ask: async (server, agency, said) => {
    const response = (await (await post(server, RESPONSES, responseBody(agency, said))).json()) as Json
    return { answer: outputText(response), tokens: response.usage.total_tokens }
  },
  raw: async (server, said) => (await post(server, RESPONSES, responseBody('solo', said))).text(),
  approve: async (server) => {
    const body = responseBody('solo', { text: 'Pay.' })
    const { id, output } = (await (await post(server, RESPONSES, body)).json()) as Json
    const decision = { type: 'bureau:approval_response', call_id: 'call_p', approve: true }
    const next = server.keepsRuns
      ? { input: [decision], previous_response_id: id }
      : { input: [...body.input, ...output, decision] }
    return { answer: outputText(await (await post(server, RESPONSES, { ...body, ...next })).json()) }
  },
}

const toolName = ({ toolOf = (name) => `ask_${name}` }: Place, agency: string): string => toolOf(agency)

const mcpCall = async (server: Place, params: Json): Promise<Json> => {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
  }
  const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': params.name }
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { ...params, _meta } }
  return framesOf(await (await post(server, '/mcp', body, { headers })).text()).at(-1).result
}

export const mcp: Door = {
  name: 'MCP',
  ask: async (server, agency, { text: message }) => {
    const { structuredContent } = await mcpCall(server, { name: toolName(server, agency), arguments: { message } })
    return { answer: structuredContent.answer, tokens: structuredContent.usage.total_tokens }
  },
  raw: async (server, { text: message, image }) =>
    JSON.stringify(
      await mcpCall(server, { name: toolName(server, 'solo'), arguments: { message, ...(image && { image }) } }),
    ),
  approve: async (server) => {
    const call = { name: toolName(server, 'solo'), arguments: { message: 'Pay.' } }
    const { requestState } = await mcpCall(server, call)
    const inputResponses = { approval_1: { action: 'accept', content: { approve: true } } }
    return { answer: (await mcpCall(server, { ...call, requestState, inputResponses })).structuredContent.answer }
  },
  noImages: 'the arguments of a tool are text, so an image is refused as a member that does not exist',
}

const a2aParts = ({ text: words, image }: Said): Json[] => [
  { text: words },
  ...(image === undefined ? [] : [{ raw: image, mediaType: 'image/png' }]),
]
type A2aCall = (server: Place, agency: string, method: string, params: Json) => Promise<Json>
const VERSION = { 'a2a-version': '1.0' }

export const overRpc: A2aCall = async (server, agency, method, params) => {
  const answer = await post(server, `/a2a/${agency}`, { jsonrpc: '2.0', id: 1, method, params }, { headers: VERSION })
  return ((await answer.json()) as Json).result
}

export const overHttp: A2aCall = async (server, agency, method, params) => {
  const path = method === 'SendMessage' ? '/message:send' : `/tasks/${params.id}:cancel`
  return (await post(server, `/a2a/${agency}${path}`, params, { headers: VERSION })).json()
}

export const a2aDoor = (binding: string, call: A2aCall): Door => {
  const send = async (server: Place, agency: string, parts: Json[], more: Json = {}): Promise<Json> => {
    const { configuration, ...rest } = more
    const message = { messageId: 'm', role: 'ROLE_USER', parts, ...rest }
    return (await call(server, agency, 'SendMessage', { message, ...(configuration && { configuration }) })).task
  }
  const answerOf = ({ artifacts }: Json): unknown => artifacts[0].parts[0].data ?? artifacts[0].parts[0].text
  return {
    name: `A2A over ${binding}`,
    ask: async (server, agency, said) => ({ answer: answerOf(await send(server, agency, a2aParts(said))) }),
    raw: async (server, said) => JSON.stringify(await send(server, 'solo', a2aParts(said))),
    approve: async (server) => {
      const { id: taskId } = await send(server, 'solo', a2aParts({ text: 'Pay.' }))
      const data = { approvals: [{ call_id: 'call_p', approve: true }] }
      return { answer: answerOf(await send(server, 'solo', [{ data }], { taskId })) }
    },
    // A task goes on without its client.
    cancel: async (server) => {
      const before = server.provider.modelRequests.length
      const configuration = { returnImmediately: true }
      const { id } = await send(server, 'solo', a2aParts({ text: 'Count.' }), { configuration })
      await server.provider.waitForRequests(before + 1)
      await call(server, 'solo', 'CancelTask', { id })
    },
  }
}

/** Begins a request as the door does, and hangs up when the model answers. */
export async function hangUp({ raw }: Door, server: Place): Promise<void> {
  const before = server.provider.modelRequests.length
  const real = globalThis.fetch
  const leaving = new AbortController()
  globalThis.fetch = (input, init) => real(input, { ...init, signal: leaving.signal })
  const asking = raw(server, { text: 'Count.' }).catch(() => {})
  globalThis.fetch = real
  await server.provider.waitForRequests(before + 1)
  leaving.abort()
  await asking
}
