import { Agency, Agent, tool } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { text, toolCall } from '../support/fake-provider.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { type Json, soloAgency, type TestServer } from '../support/test-server.ts'
import { aguiAgent, aguiBody, say, startAguiServer } from './agui.test-client.ts'

const STREAM = '/solo/get_response_stream'

const paint = {
  name: 'paint',
  description: 'Paints the page.',
  parameters: { type: 'object', properties: { color: { type: 'string' } }, required: ['color'] },
}
const confirm = { name: 'confirm', description: 'Asks the user.', parameters: { type: 'object', properties: {} } }

const add = tool({
  name: 'add',
  description: 'Adds two numbers.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => String(a + b),
})

const offeredTo = (server: TestServer, at = -1): string[] =>
  ((server.provider.modelRequests.at(at)!.body['tools'] as Json[]) ?? []).map(({ name }) => name)

const inputOf = (server: TestServer, at = -1): Json[] => server.provider.modelRequests.at(at)!.body['input'] as Json[]

const outputsOf = (server: TestServer): Json[] =>
  inputOf(server).flatMap(({ type, call_id: id, output }) => (type === 'function_call_output' ? [[id, output]] : []))

/** A result of the page's, as it follows in the conversation. */
const result = (toolCallId: string, content: string, more: object = {}): Json => ({
  id: `result_${toolCallId}`,
  role: 'tool',
  toolCallId,
  content,
  ...more,
})

describe('a tool of the page', () => {
  test('is offered to the model, and its call ends the run as a success without a result', async () => {
    const server = await startAguiServer({ agencies: soloAgency({ tools: [add] }) })
    server.provider.script([toolCall('paint', { color: 'red' }, { callId: 'call_p' })])

    const { events, types, messages, warnings } = await say(aguiAgent({ server }), 'Paint it red.', { tools: [paint] })

    const { body } = server.provider.modelRequests[0]!
    expect((body['tools'] as Json[]).find(({ name }) => name === 'paint')).toMatchObject({ type: 'function', ...paint })
    expect(types.filter((type) => type.startsWith('TOOL_CALL') && type !== 'TOOL_CALL_ARGS')).toEqual([
      'TOOL_CALL_START',
      'TOOL_CALL_END',
    ])
    expect(events.at(-1)).toMatchObject({
      type: 'RUN_FINISHED',
      outcome: { type: 'success', pendingToolCallIds: ['call_p'] },
    })
    expect(events.at(-1)).not.toHaveProperty('result')
    expect(messages.at(-1)).toMatchObject({ toolCalls: [{ id: 'call_p', function: { arguments: '{"color":"red"}' } }] })
    expect(warnings).toEqual([])
  })

  test('the run goes on with the result that the page sends', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    server.provider.script([toolCall('paint', { color: 'red' }, { callId: 'call_p' }), text('It is red.')])
    const agent = aguiAgent({ server })
    await say(agent, 'Paint it red.', { tools: [paint] })

    agent.addMessage(result('call_p', 'painted'))
    const { events, messages } = await say(agent, null, { tools: [paint] })

    expect(inputOf(server).map(({ type, role }) => role ?? type)).toEqual([
      'user',
      'function_call',
      'function_call_output',
    ])
    expect(outputsOf(server)).toEqual([['call_p', 'painted']])
    expect(events.at(-1)).toMatchObject({ result: 'It is red.', outcome: { type: 'success' } })
    expect(events.at(-1).outcome).not.toHaveProperty('pendingToolCallIds')
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant'])
    expect(server.provider.rejected).toEqual([])
  })

  test('several at once are all left to the page, which answers them together; a failure is an answer', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    const calls = [toolCall('paint', { color: 'red' }, { callId: 'c1' }), toolCall('confirm', {}, { callId: 'c2' })]
    server.provider.script([calls, text('Done.')])
    const agent = aguiAgent({ server })
    const first = await say(agent, 'Go.', { tools: [paint, confirm] })

    agent.addMessage(result('c1', 'painted'))
    agent.addMessage(result('c2', '', { error: 'The user has closed the window.' }))
    await say(agent, null, { tools: [paint, confirm] })

    expect(first.events.at(-1).outcome).toEqual({ type: 'success', pendingToolCallIds: ['c1', 'c2'] })
    expect(outputsOf(server)).toEqual([
      ['c1', 'painted'],
      ['c2', 'The user has closed the window.'],
    ])
    expect(server.provider.rejected).toEqual([])
  })

  test.each([
    ['first', true],
    ['last', false],
  ])('beside a tool of the agent, called %s: that one is carried out, then the run ends', async (_, isFirst) => {
    const server = await startAguiServer({ agencies: soloAgency({ tools: [add] }) })
    const ofPage = toolCall('paint', { color: 'red' }, { callId: 'c_page' })
    const own = toolCall('add', { a: 1, b: 2 }, { callId: 'c_own' })
    server.provider.script([isFirst ? [ofPage, own] : [own, ofPage], text('Done.')])
    const agent = aguiAgent({ server })
    const { events, messages } = await say(agent, 'Go.', { tools: [paint] })

    // As CopilotKit does it: right behind the call and its results.
    const call = messages.findIndex(
      (message) => message.role === 'assistant' && message.toolCalls?.[0]?.id === 'c_page',
    )
    const after = messages.slice(call + 1).findIndex(({ role }) => role !== 'tool')
    const place = after < 0 ? messages.length : call + 1 + after
    agent.setMessages(messages.toSpliced(place, 0, result('c_page', 'painted')))
    const second = await say(agent, null, { tools: [paint] })

    expect(events.filter(({ type }) => type === 'TOOL_CALL_RESULT')).toMatchObject([
      { toolCallId: 'c_own', content: '3' },
    ])
    expect(events.at(-1).outcome).toEqual({ type: 'success', pendingToolCallIds: ['c_page'] })
    expect(new Map(outputsOf(server) as [string, string][])).toEqual(
      new Map([
        ['c_page', 'painted'],
        ['c_own', '3'],
      ]),
    )
    expect(second.events.at(-1)).toMatchObject({ result: 'Done.' })
    expect(server.provider.rejected).toEqual([])
  })

  test('beside a handoff: the conversation stays where it is, because the result goes to the agent that asked', async () => {
    const [boss, worker] = ['Boss', 'Worker'].map(
      (name) => new Agent({ name, instructions: name, model: 'gpt-test' }),
    ) as [Agent, Agent]
    const agency = new Agency({ entryPoint: boss, flows: [[boss, worker, 'handoff']] })
    const server = await startAguiServer({ agencies: { solo: agency } })
    server.provider.script([
      [
        toolCall('transfer_to_Worker', {}, { callId: 'c_hand' }),
        toolCall('paint', { color: 'red' }, { callId: 'c_p' }),
      ],
      text('Boss again.'),
    ])
    const agent = aguiAgent({ server })
    const { events } = await say(agent, 'Go.', { tools: [paint] })
    agent.addMessage(result('c_p', 'painted'))
    await say(agent, null, { tools: [paint] })

    expect(events.at(-1).outcome).toEqual({ type: 'success', pendingToolCallIds: ['c_p'] })
    expect(events.find(({ type }) => type === 'TOOL_CALL_RESULT')).toMatchObject({
      toolCallId: 'c_hand',
      content: 'Not carried out: functions of the caller were called in this turn.',
    })
    expect(server.provider.modelRequests.at(-1)!.body['instructions']).toContain('Boss')
  })

  test('is not offered to agents that another agent asks, nor after a handoff in the same run', async () => {
    const [boss, worker, clerk] = ['Boss', 'Worker', 'Clerk'].map(
      (name) => new Agent({ name, instructions: name, model: 'gpt-test' }),
    ) as [Agent, Agent, Agent]
    const flows = [[boss, worker] as const, [boss, clerk, 'handoff'] as const]
    const server = await startAguiServer({ agencies: { solo: new Agency({ entryPoint: boss, flows }) } })
    const ask = { recipient_agent: 'Worker', message: 'Do it.', additional_instructions: '' }
    server.provider.script([
      toolCall('send_message', ask),
      text('Worked.'),
      toolCall('transfer_to_Clerk', {}),
      text('Clerk here.'),
    ])

    const { events } = await say(aguiAgent({ server }), 'Go.', { tools: [paint] })

    expect(events.at(-1)).toMatchObject({ result: 'Clerk here.' })
    expect([0, 1, 2, 3].map((at) => offeredTo(server, at).includes('paint'))).toEqual([true, false, true, false])
  })

  test('that was never answered does not trouble the next turn', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    server.provider.script([toolCall('paint', { color: 'red' }, { callId: 'call_p' }), text('Hello.')])
    const agent = aguiAgent({ server })
    await say(agent, 'Paint it red.', { tools: [paint] })

    const { events } = await say(agent, 'Never mind. Hello!', { tools: [paint] })

    expect(inputOf(server).map(({ type, role }) => role ?? type)).toEqual(['user', 'user'])
    expect(events.at(-1)).toMatchObject({ result: 'Hello.' })
    expect(server.provider.rejected).toEqual([])
  })

  test('without parameters, and with none at all, is a function without arguments', async () => {
    const server = await startAguiServer({ agencies: soloAgency() })
    server.provider.script([text('ok')])
    const tools = [
      { name: 'bare', description: 'x' },
      { name: 'empty', description: 'x', parameters: null },
      { name: 'untyped', description: 'x', parameters: {} },
    ]

    await (await server.stream(STREAM, aguiBody({ tools }))).all()

    expect(server.provider.modelRequests[0]!.body['tools']).toMatchObject([
      { name: 'bare', parameters: { type: 'object', properties: {} } },
      { name: 'empty', parameters: { type: 'object', properties: {} } },
      { name: 'untyped', parameters: { type: 'object', properties: {} } },
    ])
  })
})

describe('beside a call that waits for a person', () => {
  const env = async (): Promise<Record<string, string>> => ({
    BUREAU_SECRET: 'a secret of this test that is long enough',
    BUREAU_APPROVALS_PATH: await temporaryFolder(),
  })

  async function interrupted() {
    const paid: number[] = []
    const refund = tool({
      name: 'refund',
      description: 'Pays an order back.',
      parameters: z.object({ amount: z.number() }),
      needsApproval: true,
      execute: ({ amount }) => {
        paid.push(amount)
        return `paid ${amount}`
      },
    })
    const server = await startAguiServer({ agencies: soloAgency({ tools: [refund] }), env: await env() })
    const calls = [
      toolCall('refund', { amount: 5 }, { callId: 'c_r' }),
      toolCall('paint', { color: 'red' }, { callId: 'c_p' }),
    ]
    server.provider.script([calls, text('Done.')])
    const agent = aguiAgent({ server })
    const first = await say(agent, 'Go.', { tools: [paint] })
    const { id: interruptId } = first.events.at(-1).outcome.interrupts[0]
    const resume = [{ interruptId, status: 'resolved' as const, payload: { approved: true } }]
    return { server, agent, first, resume, paid }
  }

  test('the run is interrupted, and the page brings its result with the decision', async () => {
    const { server, agent, first, resume, paid } = await interrupted()
    expect(first.events.at(-1).outcome).toMatchObject({ type: 'interrupt', interrupts: [{ toolCallId: 'c_r' }] })
    expect(paid).toEqual([])

    agent.addMessage(result('c_p', 'painted'))
    const { events, warnings } = await say(agent, null, { tools: [paint], resume })

    expect(paid).toEqual([5])
    expect(new Map(outputsOf(server) as [string, string][])).toEqual(
      new Map([
        ['c_p', 'painted'],
        ['c_r', 'paid 5'],
      ]),
    )
    expect(events.at(-1)).toMatchObject({ result: 'Done.', outcome: { type: 'success' } })
    expect(warnings).toEqual([])
    expect(server.provider.rejected).toEqual([])
  })

  test('a decision without the result leaves the call to the page again', async () => {
    const { agent, resume, paid, server } = await interrupted()

    const second = await say(agent, null, { tools: [paint], resume })
    agent.addMessage(result('c_p', 'painted'))
    const third = await say(agent, null, { tools: [paint] })

    expect(paid).toEqual([5])
    expect(second.events.at(-1).outcome).toEqual({ type: 'success', pendingToolCallIds: ['c_p'] })
    expect(third.events.at(-1)).toMatchObject({ result: 'Done.' })
    expect(server.provider.rejected).toEqual([])
  })
})

test('RUN_ERROR for a last message whose calls have no results: no provider answers it', async () => {
  const server = await startAguiServer({ agencies: soloAgency() })
  const call = { id: 'c_p', type: 'function', function: { name: 'paint', arguments: '{}' } }
  const messages = [
    { id: 'u', role: 'user', content: 'Paint.' },
    { id: 'a', role: 'assistant', toolCalls: [call] },
  ]

  const { text: answer } = await server.post(STREAM, aguiBody({ messages, tools: [paint] }))

  expect(answer).toMatch(/"RUN_ERROR",.*no message of the role .* has their results.*"invalid_input"/)
  expect(server.provider.requests).toEqual([])
})

describe('tools that cannot be offered', () => {
  test.each<[string, Json[], Json[]]>([
    ['a name that no model takes', [{ ...paint, name: 'paint it!' }], ['tools', 0, 'name']],
    ['a name of a tool of the provider', [{ ...paint, name: 'FileSearchTool' }], ['tools', 0, 'name']],
    ['two of one name', [paint, paint], ['tools', 1, 'name']],
    ['no description', [{ name: 'paint' }], ['tools', 0, 'description']],
    ['parameters that are no schema', [{ ...paint, parameters: 'color' }], ['tools', 0, 'parameters']],
    ['too many', Array.from({ length: 129 }, (_, at) => ({ ...paint, name: `paint_${at}` })), ['tools']],
  ])('422 %s', async (_, tools, loc) => {
    const server = await startAguiServer({ agencies: soloAgency() })

    const { status, body } = await server.post(STREAM, aguiBody({ tools }))

    expect([status, body.detail[0].loc]).toEqual([422, ['body', ...loc]])
    expect(server.provider.requests).toEqual([])
  })

  test('a name that a tool of the agent has: RUN_ERROR, and the model is not asked', async () => {
    const server = await startAguiServer({ agencies: soloAgency({ tools: [add] }) })

    const stream = await (await server.stream(STREAM, aguiBody({ tools: [{ ...paint, name: 'add' }] }))).all()

    expect(stream.text).toMatch(/"type":"RUN_ERROR".*"code":"function_name_taken"/)
    expect(server.provider.modelRequests).toEqual([])
  })
})
