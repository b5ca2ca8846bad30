import { Agency, Agent, tool } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { text, toolCall, type Turn } from '../support/fake-provider.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { type Json, soloAgency, type TestServer } from '../support/test-server.ts'
import { aguiAgent, aguiBody, say, startAguiServer } from './agui.test-client.ts'

const SECRET = 'a secret of this test that is long enough'

function refunds() {
  const calls: Json[] = []
  const refund = tool({
    name: 'refund',
    description: 'Pays an order back.',
    parameters: z.object({ amount: z.number() }),
    needsApproval: { when: ({ amount }) => amount > 100, edit: true },
    execute: (input) => {
      calls.push(input)
      return `paid ${input.amount} back`
    },
  })
  return { refund, calls }
}

const call = (amount: number, callId = 'call_r'): Turn => toolCall('refund', { amount }, { callId })

async function open(agencies: { solo: Agency }, script: readonly Turn[], approvalMs?: number): Promise<TestServer> {
  const folder = await temporaryFolder()
  const server = await startAguiServer({
    agencies,
    ...(approvalMs !== undefined && { approvalMs }),
    env: { BUREAU_SECRET: SECRET, BUREAU_APPROVALS_PATH: folder },
  })
  server.provider.script(script)
  return server
}

const interruptsOf = (events: readonly Json[]): Json[] => events.at(-1).outcome.interrupts

const yes = ({ id }: Json, more: object = {}) => ({
  interruptId: id,
  status: 'resolved' as const,
  payload: { approved: true, ...more },
})

describe('a call that needs an approval', () => {
  test('ends the run with an interrupt; the snapshots before it hold the call', async () => {
    const { refund, calls } = refunds()
    const server = await open(soloAgency({ tools: [refund] }), [call(250)])

    const { events, types, messages, warnings } = await say(aguiAgent({ server }), 'Refund it.')

    expect(types.slice(-3)).toEqual(['MESSAGES_SNAPSHOT', 'STATE_SNAPSHOT', 'RUN_FINISHED'])
    expect(interruptsOf(events)).toEqual([
      {
        id: expect.any(String),
        reason: 'tool_call',
        message: 'Solo wants to use refund.',
        toolCallId: 'call_r',
        responseSchema: {
          type: 'object',
          properties: { approved: { type: 'boolean' }, reason: expect.anything(), editedArgs: expect.anything() },
          required: ['approved'],
        },
        expiresAt: expect.stringMatching(/^\d{4}-/),
        metadata: { tool: 'refund', arguments: '{"amount":250}', agent: 'Solo' },
      },
    ])
    expect(messages.at(-1)).toMatchObject({ role: 'assistant', toolCalls: [{ id: 'call_r' }] })
    expect([calls, warnings]).toEqual([[], []])
  })

  test('approved: a new run sends the result of the old call, and does not repeat the call', async () => {
    const { refund, calls } = refunds()
    const server = await open(soloAgency({ tools: [refund] }), [call(250), text('Done.')])
    const agent = aguiAgent({ server })
    const [interrupt] = interruptsOf((await say(agent, 'Refund it.')).events)

    const { types, events, messages, warnings } = await say(agent, null, { resume: [yes(interrupt)] })

    expect(types.filter((type) => type.startsWith('TOOL_CALL'))).toEqual(['TOOL_CALL_RESULT'])
    expect(events.find(({ type }) => type === 'TOOL_CALL_RESULT')).toMatchObject({
      toolCallId: 'call_r',
      content: 'paid 250 back',
    })
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant'])
    expect(events.at(-1)).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'success' }, result: 'Done.' })
    expect([calls, warnings]).toEqual([[{ amount: 250 }], []])
    expect(server.provider.rejected).toEqual([])
  })

  test.each([
    ['approved', { status: 'resolved' as const, payload: { approved: true } }, '{"approved":true}', 'paid 250 back'],
    [
      'cancelled',
      { status: 'cancelled' as const },
      '{"status":"cancelled"}',
      expect.stringMatching(/^Not carried out/),
    ],
  ])(
    '%s, and CopilotKit has written the decision into the thread as a result: the result takes its place',
    async (...given) => {
      const [, answer, written, content] = given
      const { refund } = refunds()
      const server = await open(soloAgency({ tools: [refund] }), [call(250), text('Done.')])
      const agent = aguiAgent({ server })
      const [{ id: interruptId }] = interruptsOf((await say(agent, 'Refund it.')).events)

      agent.addMessage({ id: 'decision', role: 'tool', toolCallId: 'call_r', content: written })
      const { messages } = await say(agent, null, { resume: [{ interruptId, ...answer }] })

      expect(messages.filter(({ role }) => role === 'tool')).toMatchObject([{ id: 'call_r', content }])
      expect(messages.at(-1)).toMatchObject({ content: 'Done.' })
      expect(server.provider.rejected).toEqual([])
    },
  )

  test('changed arguments, a refusal in the payload, and a cancelled interrupt', async () => {
    const { refund, calls } = refunds()
    const server = await open(soloAgency({ tools: [refund] }), [])
    const outputs: unknown[] = []
    for (const answer of [
      (interrupt: Json) => yes(interrupt, { editedArgs: { amount: 120 } }),
      (interrupt: Json) => yes(interrupt, { approved: false, reason: 'Too much.' }),
      (interrupt: Json) => ({ interruptId: interrupt.id, status: 'cancelled' as const }),
    ]) {
      server.provider.script([call(250), text('Done.')])
      const agent = aguiAgent({ server })
      const [interrupt] = interruptsOf((await say(agent, 'Refund it.')).events)
      const { messages } = await say(agent, null, { resume: [answer(interrupt)] })
      outputs.push(messages.find(({ role }) => role === 'tool')?.content)
    }

    expect(outputs).toEqual([
      'A person changed the arguments to {"amount":120}.\npaid 120 back',
      'Not carried out: a person rejected this call. Reason: Too much.',
      'Not carried out: a person rejected this call. Reason: The user cancelled it.',
    ])
    expect(calls).toEqual([{ amount: 120 }])
  })

  test('all that wait are answered at once: an answer to some of them is refused, and uses nothing up', async () => {
    const { refund, calls } = refunds()
    const server = await open(soloAgency({ tools: [refund] }), [[call(250, 'c1'), call(300, 'c2')], text('Done.')])
    const agent = aguiAgent({ server })
    const interrupts = interruptsOf((await say(agent, 'Refund both.')).events)
    expect(interrupts).toHaveLength(2)

    const some = await server.stream(
      '/solo/get_response_stream',
      aguiBody({ messages: agent.messages, resume: [yes(interrupts[0])] }),
    )
    const { events } = await say(agent, null, { resume: interrupts.map((each) => yes(each)) })

    expect((await some.all()).text).toMatch(/"type":"RUN_ERROR".*"code":"approval_missing"/)
    expect(events.at(-1)).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'success' } })
    expect(calls).toEqual([{ amount: 250 }, { amount: 300 }])
  })

  test('the same answer again is safe: nothing is carried out twice', async () => {
    const { refund, calls } = refunds()
    const server = await open(soloAgency({ tools: [refund] }), [call(250)])
    server.provider.respond(({ toolOutputs }) => text(`The tool said: ${String(toolOutputs[0]?.output)}`))
    const agent = aguiAgent({ server })
    const [interrupt] = interruptsOf((await say(agent, 'Refund it.')).events)
    const before = [...agent.messages]
    await say(agent, null, { resume: [yes(interrupt)] })
    const answered = agent.messages.slice(0, 3)

    const repeat = (messages: readonly unknown[]) =>
      server.stream('/solo/get_response_stream', aguiBody({ messages, resume: [yes(interrupt)] }))
    const unknown = await (await repeat(before)).all()
    const known = await (await repeat(answered)).all()

    expect(unknown.text).toMatch(/"type":"RUN_ERROR".*"code":"approval_used"/)
    expect(known.text).toMatch(/The tool said: .*"type":"RUN_FINISHED"/s)
    expect(calls).toHaveLength(1)
  })

  test('after its expiry it is RUN_ERROR', async () => {
    const { refund } = refunds()
    const server = await open(soloAgency({ tools: [refund] }), [call(250)], 1)
    const agent = aguiAgent({ server })
    const [interrupt] = interruptsOf((await say(agent, 'Refund it.')).events)
    await expect.poll(() => Date.now()).toBeGreaterThan(Date.parse(interrupt.expiresAt))

    const body = aguiBody({ messages: agent.messages, resume: [yes(interrupt)] })
    const late = await (await server.stream('/solo/get_response_stream', body)).all()

    expect(late.text).toMatch(/"type":"RUN_ERROR".*"code":"approval_expired"/)
  })

  test('an id that was made up is refused, alone or for all; beside known ones it counts for nothing', async () => {
    const { refund, calls } = refunds()
    const server = await open(soloAgency({ tools: [refund] }), [call(250), text('Done.')])
    const agent = aguiAgent({ server })
    const [interrupt] = interruptsOf((await say(agent, 'Refund it.')).events)
    const madeUp = yes({ id: 'call_r' })

    const body = aguiBody({ messages: agent.messages, resume: [madeUp] })
    const alone = await (await server.stream('/solo/get_response_stream', body)).all()
    expect(calls).toEqual([])
    const { events } = await say(agent, null, { resume: [yes(interrupt), madeUp] })

    expect(alone.text).toMatch(/"type":"RUN_ERROR".*"code":"approval_invalid"/)
    expect(events.at(-1)).toMatchObject({ type: 'RUN_FINISHED' })
    expect(calls).toHaveLength(1)
  })

  test.each<[object, string]>([
    [{ status: 'resolved', payload: 'yes' }, 'payload'],
    [{ status: 'resolved' }, 'payload'],
    [{ status: 'maybe' }, 'status'],
  ])('422 %o', async (entry, field) => {
    const server = await open(soloAgency(), [])

    const { status, body } = await server.post(
      '/solo/get_response_stream',
      aguiBody({ resume: [{ interruptId: 'x', ...entry }] }),
    )

    expect([status, body.error]).toEqual([422, expect.stringContaining(`resume.0.${field}`)])
  })

  test('keys in snake_case are understood', async () => {
    const { refund, calls } = refunds()
    const server = await open(soloAgency({ tools: [refund] }), [call(250), text('Done.')])
    const agent = aguiAgent({ server })
    const [interrupt] = interruptsOf((await say(agent, 'Refund it.')).events)
    const entry = {
      interrupt_id: interrupt.id,
      status: 'resolved',
      payload: { approved: true, edited_args: { amount: 1 } },
    }

    await (
      await server.stream('/solo/get_response_stream', aguiBody({ messages: agent.messages, resume: [entry] }))
    ).all()

    expect(calls).toEqual([{ amount: 1 }])
  })
})

test('a call of an agent that was asked by another: the subagent is suspended, and goes on', async () => {
  const { refund, calls } = refunds()
  const worker = new Agent({ name: 'Worker', instructions: 'Work.', model: 'gpt-test', tools: [refund] })
  const boss = new Agent({ name: 'Boss', instructions: 'Delegate.', model: 'gpt-test' })
  const message = { recipient_agent: 'Worker', message: 'Refund it', additional_instructions: '' }
  const server = await open({ solo: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) }, [
    toolCall('send_message', message, { callId: 'call_m' }),
    call(250),
    text('Worker is done.'),
    text('All is done.'),
  ])
  const agent = aguiAgent({ server })
  const first = await say(agent, 'Refund it.')
  const [interrupt] = interruptsOf(first.events)
  const suspended = first.events.find(({ type }) => type === 'SUBAGENT_FINISHED')
  expect(interrupt).toMatchObject({ toolCallId: 'call_r', subagentRunId: suspended.subagentRunId })
  expect(suspended.outcome).toEqual({ type: 'suspended', interruptIds: [interrupt.id] })

  const { events, warnings } = await say(agent, null, { resume: [yes(interrupt)] })

  expect(events.filter(({ type }) => type === 'TOOL_CALL_RESULT').map(({ toolCallId }) => toolCallId)).toEqual([
    'call_r',
    'call_m',
  ])
  expect(events.at(-1)).toMatchObject({ type: 'RUN_FINISHED', result: 'All is done.' })
  expect([calls, warnings]).toEqual([[{ amount: 250 }], []])
  expect(server.provider.rejected).toEqual([])
})

test('when a nested call has the same id as the call that started its agent, the decision applies to the nested one', async () => {
  const { refund, calls } = refunds()
  const worker = new Agent({ name: 'Worker', instructions: 'Work.', model: 'gpt-test', tools: [refund] })
  const boss = new Agent({ name: 'Boss', instructions: 'Delegate.', model: 'gpt-test' })
  const message = { recipient_agent: 'Worker', message: 'Refund it', additional_instructions: '' }
  const server = await open({ solo: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) }, [
    toolCall('send_message', message, { callId: 'call_0' }),
    call(250, 'call_0'),
    text('Worker is done.'),
    text('All is done.'),
  ])
  const agent = aguiAgent({ server })
  const [interrupt] = interruptsOf((await say(agent, 'Refund it.')).events)

  const { events } = await say(agent, null, { resume: [yes(interrupt)] })

  expect(events.at(-1)).toMatchObject({ type: 'RUN_FINISHED', result: 'All is done.' })
  expect(calls).toEqual([{ amount: 250 }])
  expect(server.provider.rejected).toEqual([])
})

test('a call of an agent to which the conversation was handed over: it goes on with the result, and with the next message', async () => {
  const { refund, calls } = refunds()
  const billing = new Agent({ name: 'Billing', instructions: 'Billing.', model: 'gpt-test', tools: [refund] })
  const desk = new Agent({ name: 'Desk', instructions: 'Desk.', model: 'gpt-test' })
  const server = await open({ solo: new Agency({ entryPoint: desk, flows: [[desk, billing, 'handoff']] }) }, [
    toolCall('transfer_to_Billing'),
    call(250),
    text('Paid.'),
    text('Anything else?'),
  ])
  const agent = aguiAgent({ server })
  const [interrupt] = interruptsOf((await say(agent, 'Refund it.')).events)

  const { events } = await say(agent, null, { resume: [yes(interrupt)] })
  await say(agent, 'Thanks.')

  expect(events.at(-1)).toMatchObject({ type: 'RUN_FINISHED', result: 'Paid.' })
  expect(calls).toEqual([{ amount: 250 }])
  expect(server.provider.modelRequests.map(({ body }) => body['instructions'])).toEqual([
    'Desk.',
    'Billing.',
    'Billing.',
    'Billing.',
  ])
  expect(server.provider.rejected).toEqual([])
})

test('of a model server that counts its calls from one in every answer: the decision is about the call that waits', async () => {
  const { refund, calls } = refunds()
  const server = await open(soloAgency({ tools: [refund] }), [
    call(50, 'call_1'),
    text('Paid.'),
    call(250, 'call_1'),
    text('Paid too.'),
    text('Fine.'),
  ])
  const agent = aguiAgent({ server })
  await say(agent, 'Refund 50.')
  const first = await say(agent, 'Refund 250.')
  const [interrupt] = interruptsOf(first.events)

  const { events, messages } = await say(agent, null, { resume: [yes(interrupt)] })
  await say(agent, 'Thanks.')

  expect(events.at(-1)).toMatchObject({ type: 'RUN_FINISHED', result: 'Paid too.' })
  expect(calls).toEqual([{ amount: 50 }, { amount: 250 }])
  expect(messages.filter(({ role }) => role === 'tool')).toMatchObject([
    { toolCallId: 'call_1', content: 'paid 50 back' },
    { toolCallId: interrupt.toolCallId, content: 'paid 250 back' },
  ])
  expect(server.provider.rejected).toEqual([])
})
