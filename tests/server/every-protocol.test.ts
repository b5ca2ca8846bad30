import { expect, test } from 'vitest'
import { text } from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer, type TestServer, TestStream } from '../support/test-server.ts'

/** A turn of a conversation, in the words of a protocol: what was answered, what it cost, and how the next turn names it. */
type Turn = { readonly answer: string; readonly tokens?: number; readonly next: Json }

type Ask = (server: TestServer, message: string, previous: Json) => Promise<Turn>

const frames = async (server: TestServer, path: string, body: unknown, headers = {}): Promise<TestStream> =>
  (await server.stream(path, body, { headers })).all()

const user = (content: string): Json => ({ role: 'user', content })
const assistant = (content: string): Json => ({ role: 'assistant', content })

const mcp: Ask = async (server, message, thread_id) => {
  const params = { name: 'ask_solo', arguments: { message, ...(thread_id && { thread_id }) } }
  const headers = { accept: 'application/json, text/event-stream' }
  const stream = await frames(server, '/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call', params }, headers)
  const { answer, usage, thread_id: next } = JSON.parse(stream.frames.at(-1)!.data).result.structuredContent
  return { answer, tokens: usage.total_tokens, next }
}

const a2aMessage = (text: string, contextId: string | undefined): Json => ({
  message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text }], ...(contextId && { contextId }) },
})
const A2A = { 'a2a-version': '1.0' }

/** Every way to send a message to an agency of a self-hosted server. */
const PROTOCOLS: readonly [string, Ask][] = [
  [
    'get_response',
    async (server, message, chat_history = []) => {
      const { body } = await server.post('/solo/get_response', { message, chat_history })
      return { answer: body.response, tokens: body.usage.total_tokens, next: [...chat_history, ...body.new_messages] }
    },
  ],
  [
    'get_response_stream',
    async (server, message, chat_history = []) => {
      const { result } = await frames(server, '/solo/get_response_stream', { message, chat_history })
      const answer = result.new_messages.at(-1).content[0].text
      return { answer, tokens: result.usage.total_tokens, next: [...chat_history, ...result.new_messages] }
    },
  ],
  [
    'AG-UI',
    async (server, message, history = []) => {
      const messages = [...history, { id: `u${history.length}`, ...user(message) }]
      const stream = await frames(server, '/solo/agui', { threadId: 't', runId: `r${history.length}`, messages })
      const events = stream.frames.map(({ data }) => JSON.parse(data))
      const answer = events.flatMap(({ type, delta }) => (type === 'TEXT_MESSAGE_CONTENT' ? delta : [])).join('')
      return { answer, next: [...messages, { id: `a${history.length}`, ...assistant(answer) }] }
    },
  ],
  [
    'Chat Completions',
    async (server, message, history = []) => {
      const messages = [...history, user(message)]
      const { body } = await server.post('/openai/v1/chat/completions', { model: 'solo', messages })
      const { content } = body.choices[0].message
      return { answer: content, tokens: body.usage.total_tokens, next: [...messages, assistant(content)] }
    },
  ],
  [
    'Open Responses',
    async (server, message, history = []) => {
      const input = [...history, user(message)]
      const { body } = await server.post('/openai/v1/responses', { model: 'solo', input })
      const answer = body.output.at(-1).content[0].text
      return { answer, tokens: body.usage.total_tokens, next: [...input, assistant(answer)] }
    },
  ],
  ['MCP', mcp],
  [
    'A2A over JSON-RPC',
    async (server, message, contextId) => {
      const request = { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: a2aMessage(message, contextId) }
      const { task } = (await server.post('/a2a/solo', request, A2A)).body.result
      return { answer: task.artifacts[0].parts[0].text, next: task.contextId }
    },
  ],
  [
    'A2A over HTTP',
    async (server, message, contextId) => {
      const { task } = (await server.post('/a2a/solo/message:send', a2aMessage(message, contextId), A2A)).body
      return { answer: task.artifacts[0].parts[0].text, next: task.contextId }
    },
  ],
]

/** Who says what in the input of a model. */
const spoken = (server: TestServer): [unknown, string][] =>
  server.provider.modelRequests.at(-1)!.items.map(({ role, content }) => {
    const parts = typeof content === 'string' ? [{ text: content }] : (content as { text: string }[])
    return [role, parts.map((part) => part.text).join('')]
  })

test.each(PROTOCOLS)(
  '%s: the same messages get the same answers, at the same cost, in one conversation',
  async (_, ask) => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Paris.'), text('Two million.')])

    const first = await ask(server, 'The capital of France?', undefined)
    const second = await ask(server, 'How many people?', first.next)

    expect([first.answer, second.answer]).toEqual(['Paris.', 'Two million.'])
    expect(spoken(server)).toEqual([
      ['user', 'The capital of France?'],
      ['assistant', 'Paris.'],
      ['user', 'How many people?'],
    ])
    const { instructions } = server.provider.modelRequests.at(-1)!
    expect(instructions).toBe('You are the secret instructions.')
    if (first.tokens !== undefined) {
      const plain = await startTestServer({ agencies: soloAgency() })
      plain.provider.script([text('Paris.')])
      const [, getResponse] = PROTOCOLS[0]!
      expect(first.tokens).toBe((await getResponse(plain, 'The capital of France?', undefined)).tokens)
    }
  },
)
