import { Agency, Agent, tool } from '@bureau/framework'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { hold, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import type { Json, TestServer } from '../support/test-server.ts'
import { aguiAgent, say, startAguiServer } from './agui.test-client.ts'

const add = tool({
  name: 'add',
  description: 'Adds.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => a + b,
})

/** Two agents: one that can add and ask, and one that is asked. */
async function startOffice(): Promise<TestServer> {
  const worker = new Agent({ name: 'Worker', instructions: 'Work.', model: 'gpt-test', tools: [add] })
  const boss = new Agent({ name: 'Boss', instructions: 'Lead.', model: 'gpt-test', tools: [add] })
  return startAguiServer({ agencies: { solo: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) } })
}

const asked = (message: string): Json => ({ recipient_agent: 'Worker', message, additional_instructions: '' })

/** What the model was told, item by item, without ids. */
function inputOf(server: TestServer, at = -1): Json[] {
  return (server.provider.modelRequests.at(at)!.body['input'] as Json[]).map(
    ({ type, role, call_id, content, output }) =>
      type === 'function_call' || type === 'function_call_output'
        ? `${type} ${call_id}${output === undefined ? '' : `: ${output}`}`
        : `${role}: ${typeof content === 'string' ? content : content.map(({ text: part }: Json) => part).join('')}`,
  )
}

test('twenty turns with tools and messages between agents: the client and the model remember the same', async () => {
  const server = await startOffice()
  const agent = aguiAgent({ server })
  const remembered: string[] = []
  for (let turn = 1; turn <= 20; turn++) {
    const call = `call_${turn}`
    const asks = turn % 3 === 0
    if (asks) server.provider.script([toolCall('send_message', asked(`job ${turn}`), { callId: call })])
    else server.provider.script([toolCall('add', { a: turn, b: 1 }, { callId: call })])
    // The one who is asked has calls of the same ids as the one who asks.
    if (asks) server.provider.script([toolCall('add', { a: 1, b: 1 }, { callId: call }), text(`Worked ${turn}.`)])
    server.provider.script([text(`Answer ${turn}.`)])

    const { types, warnings, messages } = await say(agent, `question ${turn}`)

    expect(types.at(-1)).toBe('RUN_FINISHED')
    expect(warnings).toEqual([])
    expect(new Set(messages.map(({ id }) => id)).size).toBe(messages.length)
    remembered.push(`user: question ${turn}`)
    expect(inputOf(server).filter((item) => !item.startsWith('function_call'))).toEqual(remembered)
    remembered.push(`assistant: Answer ${turn}.`)
  }
  expect(server.provider.rejected).toEqual([])
  const outputs = inputOf(server).filter((item) => item.startsWith('function_call_output'))
  expect(outputs).toHaveLength(20)
  expect(outputs.filter((item) => /Worked \d+\.$/.test(item))).toHaveLength(6)
})

test('three agents deep, each with calls of the same id: every call has its own result, every subagent its parent', async () => {
  const [boss, worker, helper] = ['Boss', 'Worker', 'Helper'].map(
    (name) => new Agent({ name, instructions: 'x', model: 'gpt-test', tools: [add] }),
  ) as [Agent, Agent, Agent]
  const agency = new Agency({
    entryPoint: boss,
    flows: [
      [boss, worker],
      [worker, helper],
    ],
  })
  const server = await startAguiServer({ agencies: { solo: agency } })
  const ask = (name: string): Json =>
    toolCall('send_message', { ...asked('go'), recipient_agent: name }, { callId: 'call_1' })
  const sum = toolCall('add', { a: 1, b: 2 }, { callId: 'call_1' })
  server.provider.script([ask('Worker'), ask('Helper'), sum, text('Helped.'), text('Worked.'), text('Done.')])

  const { events, messages } = await say(aguiAgent({ server }), 'go')

  const of = (type: string): Json[] => events.filter((event) => event.type === type)
  const calls: string[] = of('TOOL_CALL_START').map(({ toolCallId }) => toolCallId)
  const [asksWorker, asksHelper, adds] = calls
  expect(new Set(calls).size).toBe(3)
  const subagents = [`subagent_${asksWorker}`, `subagent_${asksHelper}`]
  expect(of('SUBAGENT_STARTED')).toMatchObject([
    { name: 'Worker', subagentRunId: subagents[0], parentToolCallId: asksWorker },
    { name: 'Helper', subagentRunId: subagents[1], parentSubagentRunId: subagents[0], parentToolCallId: asksHelper },
  ])
  expect(of('SUBAGENT_FINISHED').map(({ subagentRunId }) => subagentRunId)).toEqual(subagents.toReversed())
  expect(of('SUBAGENT_ERROR')).toEqual([])
  const results = messages.flatMap((message) => (message.role === 'tool' ? [message] : []))
  expect(
    new Map(results.map(({ toolCallId, content, subagentRunId }) => [toolCallId, [content, subagentRunId]])),
  ).toEqual(
    new Map([
      [asksWorker, ['Worked.', undefined]],
      [asksHelper, ['Helped.', subagents[0]]],
      [adds, ['3', subagents[1]]],
    ]),
  )
})

test.each([
  ['while the agent writes', (gate: Json) => [[textDeltas(['Half', hold(gate), ' done'])]]],
  [
    'while an agent that was asked writes',
    (gate: Json) => [[toolCall('send_message', asked('go'))], [textDeltas(['Half', hold(gate), ' done'])]],
  ],
  [
    'after a tool has returned',
    (gate: Json) => [[toolCall('add', { a: 1, b: 2 })], [textDeltas(['Half', hold(gate), ' done'])]],
  ],
])('a conversation goes on after its client hung up %s', async (_, turns) => {
  const server = await startOffice()
  const agent = aguiAgent({ server })
  server.provider.script([text('Hello.')])
  await say(agent, 'hi')
  const gate = server.provider.gate()
  server.provider.script(turns(gate))
  agent.addMessage({ id: 'u2', role: 'user', content: 'work' })
  const running = agent.runAgent({}, { onTextMessageContentEvent: () => agent.abortRun() })
  await server.provider.waitForAborts(1)
  await running
  gate.release()

  server.provider.script([text('Here I am.')])
  const { types, messages } = await say(agent, 'still there?')

  expect(types.at(-1)).toBe('RUN_FINISHED')
  expect(messages.at(-1)).toMatchObject({ content: 'Here I am.' })
  expect(server.provider.rejected).toEqual([])
  const input = inputOf(server)
  expect(input.at(-1)).toBe('user: still there?')
  expect(input.filter((item) => item.startsWith('function_call ')).length).toBe(
    input.filter((item) => item.startsWith('function_call_output ')).length,
  )
})

test('many clients at once each have their own conversation', async () => {
  const server = await startOffice()
  server.provider.respond(({ body }) => {
    const last = (body['input'] as Json[]).at(-1)
    return text(`You said ${typeof last.content === 'string' ? last.content : last.content[0].text}.`)
  })

  const outcomes = await Promise.all(
    Array.from({ length: 20 }, async (_, number) => {
      const agent = aguiAgent({ server })
      await say(agent, `first ${number}`)
      return say(agent, `second ${number}`)
    }),
  )

  outcomes.forEach(({ messages }, number) => {
    expect(messages.map(({ content }) => content)).toEqual([
      `first ${number}`,
      `You said first ${number}.`,
      `second ${number}`,
      `You said second ${number}.`,
    ])
  })
})
