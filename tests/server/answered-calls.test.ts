import { hostedMcpTool } from '@openai/agents'
import { describe, expect, test } from 'vitest'
import { mcpApprovalRequest, text } from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer } from '../support/test-server.ts'

const docs = hostedMcpTool({ serverLabel: 'docs', serverUrl: 'https://docs.example/mcp', requireApproval: 'always' })
const asked = { type: 'function_call', call_id: 'call_1', name: 'look', arguments: '{}', status: 'completed' }
const answered = { type: 'function_call_output', call_id: 'call_1', output: 'seen' }
const user = { role: 'user', content: 'go' }

const typesOf = (items: readonly Json[]): string[] => items.map(({ type, role }) => role ?? type)

test.each([
  ['without its output', [asked, user], 0, 'this call has no output'],
  ['behind its output', [answered, asked], 0, 'chat_history does not hold what this item answers'],
  ['twice, with one output between', [asked, answered, asked], 2, 'this call has no output'],
])('422 for a call in the message %s: providers refuse it', async (_, message, at, msg) => {
  const server = await startTestServer({ agencies: soloAgency() })

  const { status, body } = await server.post('/solo/get_response', { message })

  expect([status, body.detail]).toMatchObject([
    422,
    [{ loc: ['body', 'message', at], msg: expect.stringContaining(msg) }],
  ])
  expect(server.provider.requests).toEqual([])
})

describe('a call of the history that the message answers', () => {
  test('reaches the model with its answer, and the answer is one of the new messages', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => text('ok'))

    const stream = await server.stream('/solo/get_response_stream', {
      message: [answered, { role: 'user', content: 'Go on.' }],
      chat_history: [user, asked],
    })
    const { new_messages: fresh } = (await stream.all()).result
    const next = await server.post('/solo/get_response', { message: 'and?', chat_history: [user, asked, ...fresh] })

    expect(typesOf(fresh)).toEqual(['function_call_output', 'user', 'assistant'])
    expect(typesOf(server.provider.modelRequests[0]!.items)).toEqual([
      'user',
      'function_call',
      'function_call_output',
      'user',
    ])
    expect(next.status).toBe(200)
    expect(server.provider.rejected).toEqual([])
  })

  test('may be a request for an approval', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [docs] }) })
    server.provider.script([mcpApprovalRequest('docs', 'delete'), text('deleted')])
    const first = await (await server.stream('/solo/get_response_stream', { message: 'delete it' })).all()
    const request = first.events.find(({ name }) => name === 'mcp_approval_requested').item.raw_item

    const { body } = await server.post('/solo/get_response', {
      message: [{ type: 'mcp_approval_response', approval_request_id: request.id, approve: true }],
      chat_history: [...first.result.new_messages, request],
    })

    expect(body.response).toBe('deleted')
    expect(typesOf(body.new_messages)).toEqual(['mcp_approval_response', 'assistant'])
    expect(server.provider.rejected).toEqual([])
  })

  test('without that answer is left out; an answer without its call is refused before any model is asked', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => text('ok'))

    const left = await server.post('/solo/get_response', { message: 'go on', chat_history: [user, asked] })
    const alone = await server.post('/solo/get_response', { message: [answered], chat_history: [user] })

    expect([left.status, typesOf(server.provider.modelRequests[0]!.items)]).toEqual([200, ['user', 'user']])
    expect([alone.status, alone.body.detail]).toEqual([422, [expect.objectContaining({ loc: ['body', 'message', 0] })]])
    expect(server.provider.modelRequests).toHaveLength(1)
  })
})
