import { tool } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { text, toolCall, usage } from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

const lookUp = tool({
  name: 'look_up',
  description: 'Looks something up.',
  parameters: z.object({ key: z.string() }),
  execute: ({ key }) => `value of ${key}`,
})

/** What a client has in the end: the answer, and what the run has cost. */
type Outcome = { readonly answer: string; readonly tokens: number }

type Door = { readonly door: string; readonly ask: (server: TestServer) => Promise<Outcome> }

const earlier = [
  { role: 'user', content: 'Hello' },
  { role: 'assistant', content: 'Hi.' },
] as const

const question = { role: 'user', content: 'What is a?' } as const

const native = { message: question.content, chat_history: earlier }

async function framesOf(server: TestServer, path: string, body: object): Promise<Json[]> {
  const { frames } = await (await server.stream(path, body)).all()
  return frames.flatMap(({ data }) => (data === '[DONE]' ? [] : [JSON.parse(data)]))
}

const textOf = (items: readonly Json[]): string =>
  items
    .filter(({ role }) => role === 'assistant')
    .map(({ content }) => content[0].text)
    .join('')

const DOORS: readonly Door[] = [
  {
    door: 'get_response',
    ask: async (server) => {
      const { body } = await server.post('/solo/get_response', native)
      return { answer: body.response, tokens: body.usage.total_tokens }
    },
  },
  {
    door: 'get_response_stream',
    ask: async (server) => {
      const { result } = await (await server.stream('/solo/get_response_stream', native)).all()
      return { answer: textOf(result.new_messages), tokens: result.usage.total_tokens }
    },
  },
  {
    door: 'AG-UI',
    ask: async (server) => {
      const messages = [...earlier, question].map((message, index) => ({ id: `m${index}`, ...message }))
      const frames = await framesOf(server, '/solo/agui', { threadId: 't', runId: 'r', messages })
      const deltas = frames.filter(({ type }) => type === 'TEXT_MESSAGE_CONTENT').map(({ delta }) => delta)
      return { answer: deltas.join(''), tokens: frames.at(-1).usage[0].totalTokens }
    },
  },
  {
    door: 'Chat Completions',
    ask: async (server) => {
      const { body } = await server.post('/openai/v1/chat/completions', { messages: [...earlier, question] })
      return { answer: body.choices[0].message.content, tokens: body.usage.total_tokens }
    },
  },
  {
    door: 'Chat Completions, streamed',
    ask: async (server) => {
      const messages = [...earlier, question]
      const body = { messages, stream: true, stream_options: { include_usage: true } }
      const chunks = await framesOf(server, '/openai/v1/chat/completions', body)
      const answer = chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')
      return { answer, tokens: chunks.at(-1).usage.total_tokens }
    },
  },
  {
    door: 'Responses',
    ask: async (server) => {
      const { body } = await server.post('/openai/v1/responses', { input: [...earlier, question] })
      return { answer: textOf(body.output), tokens: body.usage.total_tokens }
    },
  },
  {
    door: 'Responses, streamed',
    ask: async (server) => {
      const body = { input: [...earlier, question], stream: true }
      const { response } = (await framesOf(server, '/openai/v1/responses', body)).at(-1)
      return { answer: textOf(response.output), tokens: response.usage.total_tokens }
    },
  },
]

describe('the same message', () => {
  test.each(DOORS)('has the same answer, usage and history through $door', async ({ ask }) => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [lookUp] }) })
    server.provider.respond(({ toolOutputs }) =>
      toolOutputs.length === 0
        ? [toolCall('look_up', { key: 'a' }), usage({ input: 10, output: 5 })]
        : [text('It is value of a.'), usage({ input: 20, output: 7 })],
    )

    expect(await ask(server)).toEqual({ answer: 'It is value of a.', tokens: 42 })
    const [first, second] = server.provider.modelRequests.map(({ body }) => body['input'] as Json[])
    expect(first!.map(({ role, content }) => [role, content])).toEqual(
      [...earlier, question].map(({ role, content }) => [role, content]),
    )
    expect(second!.slice(3)).toMatchObject([{ type: 'function_call' }, { output: 'value of a' }])
  })
})
