import { Agency, Agent, handoff, type InputGuardrail } from '@bureau/framework'
import type { WireItem } from '@bureau/protocol'
import { expect, test } from 'vitest'
import { text, toolCall } from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer } from '../support/test-server.ts'

const history = [
  { role: 'user', content: 'My name is Ada.', agent: 'Solo', callerAgent: null },
  { role: 'assistant', content: 'Hello Ada.', agent: 'Solo', callerAgent: null },
]

test('an input guardrail sees the history and the message', async () => {
  const seen: (readonly WireItem[])[] = []
  const look: InputGuardrail = {
    name: 'look',
    execute: async ({ input }) => {
      seen.push(input)
      return { tripwireTriggered: false, outputInfo: null }
    },
  }
  const server = await startTestServer({ agencies: soloAgency({ inputGuardrails: [look] }) })
  server.provider.script([text('Ada.')])

  await server.post('/solo/get_response', { message: 'Who am I?', chat_history: history })

  expect(seen).toEqual([
    [
      expect.objectContaining({ role: 'user', content: 'My name is Ada.' }),
      expect.objectContaining({ role: 'assistant' }),
      expect.objectContaining({ role: 'user', content: 'Who am I?' }),
    ],
  ])
})

test('what a handoff filter leaves of the history is what the next agent’s model is sent', async () => {
  const support = new Agent({ name: 'Support', instructions: 'Help.', model: 'gpt-test' })
  const solo = new Agent({
    name: 'Solo',
    instructions: 'Hand over.',
    model: 'gpt-test',
    handoffs: [
      handoff(support, {
        inputFilter: (data) => ({ ...data, inputHistory: data.inputHistory.slice(-1) }),
      }),
    ],
  })
  const server = await startTestServer({ agencies: { solo: new Agency({ entryPoint: solo }) } })
  server.provider.script([toolCall('transfer_to_Support', {}), text('Hello.')])

  const { body } = await server.post('/solo/get_response', { message: 'I want a refund', chat_history: history })

  expect(body.response).toBe('Hello.')
  const [first, second] = server.provider.requests.map((request) => request.body['input'] as Json[])
  expect(first!.map(({ content }: Json) => content)).toEqual(['My name is Ada.', 'Hello Ada.', 'I want a refund'])
  expect(second!.map(({ type, role, content }: Json) => (role === 'user' ? content : (type ?? role)))).toEqual([
    'I want a refund',
    'function_call',
    'function_call_output',
    'message',
  ])
})

test('the items of a tool search that an earlier turn has made are sent on', async () => {
  const found = {
    type: 'tool_search_output',
    id: 'tso_1',
    call_id: 'call_1',
    execution: 'server',
    status: 'completed',
    tools: [{ type: 'function', name: 'late', defer_loading: true, parameters: {} }],
  }
  const call = {
    type: 'tool_search_call',
    id: 'tsc_1',
    call_id: 'call_1',
    execution: 'server',
    status: 'completed',
    arguments: { q: 'x' },
  }
  const server = await startTestServer({ agencies: soloAgency(), provider: { validate: false } })
  server.provider.script([text('Yes.')])

  await server.post('/solo/get_response', { message: 'Again', chat_history: [...history, call, found] })

  const sent = server.provider.requests[0]!.body['input'] as Json[]
  expect(sent.slice(2)).toEqual([call, found, expect.objectContaining({ role: 'user', content: 'Again' })])
})
