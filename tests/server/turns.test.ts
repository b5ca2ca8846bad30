import {
  Agency,
  Agent,
  type AgentOptions,
  type FlowOption,
  handoff,
  type HandoffOptions,
  type InputGuardrail,
  removeAllTools,
} from '@bureau/framework'
import { tool } from '@openai/agents-core'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { text, toolCall, type Turn } from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer } from '../support/test-server.ts'

const passed = { tripwireTriggered: false, outputInfo: null }

const checkInput = (calls: string[], runInParallel: boolean): InputGuardrail => ({
  name: 'check',
  runInParallel,
  execute: async () => {
    calls.push('input guardrail')
    return passed
  },
})

const look = (calls: string[] = []) =>
  tool({
    name: 'look',
    description: 'Looks.',
    parameters: z.object({ at: z.string() }),
    isEnabled: () => calls.push('is tool enabled') > 0,
    execute: ({ at }) => `saw ${at}`,
  })

const other = (options: Partial<AgentOptions> = {}): Agent =>
  new Agent({ name: 'Other', instructions: 'Help.', model: 'gpt-test', ...options })

describe.each<[string, (calls: string[]) => Partial<AgentOptions>, before?: string | undefined, after?: string]>([
  ['a plain agent', () => ({})],
  [
    'an agent whose input is checked first',
    (calls) => ({ inputGuardrails: [checkInput(calls, false)] }),
    'input guardrail',
  ],
  [
    'an agent whose input is checked meanwhile',
    (calls) => ({ inputGuardrails: [checkInput(calls, true)] }),
    'input guardrail',
  ],
  [
    'an agent whose output is checked',
    (calls) => ({
      outputGuardrails: [
        {
          name: 'check',
          execute: async ({ details }) => {
            calls.push(`output guardrail of ${details.output.length} items`)
            return passed
          },
        },
      ],
    }),
    undefined,
    'output guardrail of 5 items',
  ],
  ['an agent with a structured answer', () => ({ outputType: z.object({ city: z.string() }) })],
])('%s', (_name, optionsOf, before, after) => {
  test('is asked once for what each of its turns begins with, and each answer is checked once', async () => {
    const calls: string[] = []
    const isEnabled = (): boolean => calls.push('is handoff enabled') > 0
    const solo = new Agent({
      name: 'Solo',
      model: 'gpt-test',
      instructions: async () => `These are instructions ${calls.push('instructions')}.`,
      tools: [look(calls)],
      handoffs: [handoff(other(), { isEnabled })],
      ...optionsOf(calls),
    })
    const server = await startTestServer({ agencies: { solo: new Agency({ entryPoint: solo }) } })

    for (const conversation of [1, 2]) {
      calls.length = 0
      server.provider.script([toolCall('look', { at: 'a' }), toolCall('look', { at: 'b' }), text('{"city":"Bern"}')])
      const { body } = await server.post('/solo/get_response', { message: 'go' })

      expect(body.response).toEqual(solo.outputType === 'text' ? '{"city":"Bern"}' : { city: 'Bern' })
      const turn = ['is handoff enabled', 'is tool enabled', 'instructions']
      expect(calls).toEqual([before, ...turn, ...turn, ...turn, after].filter((call) => call !== undefined))
      const requests = server.provider.modelRequests.slice(-3)
      expect(requests.map(({ toolOutputs }) => toolOutputs.map(({ output }) => output))).toEqual([
        [],
        ['saw a'],
        ['saw a', 'saw b'],
      ])
      expect(server.provider.modelRequests).toHaveLength(3 * conversation)
    }
  })
})

test('a tool that must be called must be called in the first turn, and in all turns when the agent says so', async () => {
  const agentOf = (resetToolChoice: boolean): Partial<AgentOptions> => ({
    tools: [look()],
    modelSettings: { toolChoice: 'required' },
    resetToolChoice,
  })
  for (const [resets, choices] of [
    [true, ['required', undefined, undefined]],
    [false, ['required', 'required', 'required']],
  ] as const) {
    const server = await startTestServer({ agencies: soloAgency(agentOf(resets)) })
    server.provider.script([toolCall('look', { at: 'a' }), toolCall('look', { at: 'b' }), text('Done.')])

    await server.post('/solo/get_response', { message: 'go' })

    expect(server.provider.modelRequests.map(({ body }) => body['tool_choice'])).toEqual(choices)
  }
})

test('an agent that is handed back to need not call again what it must call once', async () => {
  const solo = new Agent({
    name: 'Solo',
    instructions: 'x',
    model: 'gpt-test',
    modelSettings: { toolChoice: 'required' },
  })
  const helper = other()
  const flows: FlowOption[] = [
    [solo, helper, 'handoff'],
    [helper, solo, 'handoff'],
  ]
  const server = await startTestServer({ agencies: { solo: new Agency({ entryPoint: solo, flows }) } })
  server.provider.script([toolCall('transfer_to_Other', {}), toolCall('transfer_to_Solo', {}), text('Done.')])

  await server.post('/solo/get_response', { message: 'go' })

  const choices = server.provider.modelRequests.map(({ body }) => body['tool_choice'])
  expect(choices).toEqual(['required', undefined, undefined])
})

test('an agent that stops at a tool answers with what the tool has returned', async () => {
  const agencies = soloAgency({ tools: [look()], toolUseBehavior: 'stop_on_first_tool' })
  const server = await startTestServer({ agencies })
  server.provider.script([toolCall('look', { at: 'a' })])

  const { body } = await server.post('/solo/get_response', { message: 'go' })

  expect(body.response).toBe('saw a')
  expect(server.provider.modelRequests).toHaveLength(1)
})

test('an agent that stops at a tool of that name goes on after others, and so does one whose function says so', async () => {
  const write = tool({ name: 'write', description: 'Writes.', parameters: z.object({}), execute: () => 'written' })
  const script = [toolCall('look', { at: 'a' }), toolCall('write', {})]
  const behaviors = [
    { stopAtToolNames: ['write'] },
    (_context: unknown, results: readonly { readonly tool: { readonly name: string }; readonly output: unknown }[]) => {
      const written = results.find((each) => each.tool.name === 'write')
      return { isFinalOutput: written !== undefined, isInterrupted: undefined, finalOutput: String(written?.output) }
    },
  ]
  for (const toolUseBehavior of behaviors) {
    const server = await startTestServer({ agencies: soloAgency({ tools: [look(), write], toolUseBehavior }) })
    server.provider.script(script)

    const { body } = await server.post('/solo/get_response', { message: 'go' })

    expect(body.response).toBe('written')
    expect(server.provider.modelRequests).toHaveLength(2)
  }
})

test('a handoff’s filter may put items of its own in place of others', async () => {
  const summary = { role: 'system', content: 'The user wants to go.' }
  const inputFilter: HandoffOptions['inputFilter'] = ({ newItems }) => {
    return { inputHistory: [summary], preHandoffItems: [], newItems }
  }
  const server = await startTestServer({ agencies: soloAgency({ handoffs: [handoff(other(), { inputFilter })] }) })
  server.provider.script([toolCall('transfer_to_Other'), text('Done.')])

  const { body } = await server.post('/solo/get_response', { message: 'go' })

  expect(body.response).toBe('Done.')
  const { items } = server.provider.modelRequests[1]!
  expect(items[0]).toMatchObject(summary)
  expect(items.map(({ type, role }) => role ?? type)).toEqual([
    'system',
    'function_call',
    'function_call_output',
    'system',
  ])
})

test('the turns of all agents of a conversation are counted together', async () => {
  const back = other({ tools: [look()] })
  const solo = new Agent({ name: 'Solo', instructions: 'x', model: 'gpt-test', tools: [look()], handoffs: [back] })
  const agency = new Agency({ entryPoint: solo, maxTurns: 4 })
  const server = await startTestServer({ agencies: { solo: agency } })
  let asked = 0
  server.provider.respond(() => (asked++ === 1 ? toolCall('transfer_to_Other', {}) : toolCall('look', { at: 'a' })))

  const stream = await (await server.stream('/solo/get_response_stream', { message: 'go' })).all()

  expect(stream.events.at(-1)).toMatchObject({ type: 'error', code: 'max_turns_exceeded' })
  expect(server.provider.modelRequests).toHaveLength(4)
})

test('a handoff’s filter sees what was done before the handoff in this run, apart from the history', async () => {
  const seen: number[][] = []
  const filtered = handoff(other(), {
    inputFilter: (data) => {
      seen.push([data.inputHistory.length, data.preHandoffItems.length, data.newItems.length])
      return data
    },
  })
  const server = await startTestServer({ agencies: soloAgency({ tools: [look()], handoffs: [filtered] }) })
  server.provider.script([toolCall('look', { at: 'a' }), toolCall('transfer_to_Other', {}), text('Hello.')])

  const { body } = await server.post('/solo/get_response', { message: 'go' })

  expect([body.response, seen]).toEqual(['Hello.', [[1, 2, 2]]])
})

test('with removeAllTools the next agent sees what was said, and nothing that was called', async () => {
  const toOther = handoff(other(), { inputFilter: removeAllTools })
  const server = await startTestServer({ agencies: soloAgency({ tools: [look()], handoffs: [toOther] }) })
  server.provider.script([toolCall('look', { at: 'a' }), text('Saw a.')])
  const before = await server.post('/solo/get_response', { message: 'look' })
  server.provider.script([toolCall('look', { at: 'b' }), toolCall('transfer_to_Other'), text('Done.')])

  const { body } = await server.post('/solo/get_response', { message: 'go', chat_history: before.body.new_messages })

  expect(body.response).toBe('Done.')
  const { items } = server.provider.modelRequests.at(-1)!
  expect(items.map(({ type = 'message', role }) => [type, role])).toEqual([
    ['message', 'user'],
    ['message', 'assistant'],
    ['message', 'user'],
    ['message', 'system'],
  ])
})

test('an agent that takes over is asked for what its first turn begins with, and answers', async () => {
  const calls: string[] = []
  const guarded = other({
    instructions: () => `These are instructions ${calls.push('instructions')}.`,
    tools: [look(calls)],
    inputGuardrails: [checkInput(calls, false)],
  })
  const solo = new Agent({ name: 'Solo', instructions: 'x', model: 'gpt-test', tools: [look()], handoffs: [guarded] })
  const server = await startTestServer({ agencies: { solo: new Agency({ entryPoint: solo }) } })
  server.provider.script([toolCall('transfer_to_Other', {}), toolCall('look', { at: 'a' }), text('Hello.')])

  const { body } = await server.post('/solo/get_response', { message: 'go' })

  expect(body.response).toBe('Hello.')
  // An input guardrail is for the agent that the user has addressed.
  expect(calls).toEqual(['is tool enabled', 'instructions', 'is tool enabled', 'instructions'])
})

test.each(['inputGuardrails', 'outputGuardrails'] as const)(
  '%s that do not say whether they refuse let nothing through',
  async (kind) => {
    const silent = { name: 'silent', execute: async () => ({ tripwire_triggered: true }) as never }
    const server = await startTestServer({ agencies: soloAgency({ [kind]: [silent] }) })
    server.provider.script([text('Hello.')])

    const { body } = await server.post('/solo/get_response', { message: 'go' })

    expect(body.error).toBe('The agent could not complete the run.')
    expect(JSON.stringify(body)).not.toContain('Hello.')
  },
)

test.each([
  ['the same', 'a'],
  ['another', 'b'],
])('%s call with the id of an earlier call gets an id of its own, and the run goes on', async (_which, at) => {
  const server = await startTestServer({ agencies: soloAgency({ tools: [look()] }) })
  const call = (where: string): Turn => toolCall('look', { at: where }, { callId: 'call_0' })
  server.provider.script([[call('a'), call('c')], call(at), text('Seen.')])

  const stream = await (await server.stream('/solo/get_response_stream', { message: 'go' })).all()
  server.provider.script([call('d'), text('Again.')])
  const next = { message: 'more', chat_history: stream.result.new_messages }
  const { body } = await server.post('/solo/get_response', next)

  expect(stream.events.filter(({ name }) => name === 'tool_output')).toHaveLength(3)
  expect(body.response).toBe('Again.')
  const items: Json[] = [...stream.result.new_messages, ...body.new_messages]
  const idsOf = (type: string): string[] => items.flatMap((item) => (item.type === type ? [item.call_id] : []))
  expect(idsOf('function_call')).toEqual(idsOf('function_call_output'))
  expect(new Set(idsOf('function_call')).size).toBe(4)
  const streamed = stream.events.flatMap(({ data }) => data?.response?.output ?? data?.item ?? [])
  const shown = streamed.flatMap((item: Json) => (item.type === 'function_call' ? [item.call_id] : []))
  expect(new Set(shown)).toEqual(new Set(idsOf('function_call').slice(0, 3)))
  expect(server.provider.rejected).toEqual([])
})

test.each<[string, string, string]>([
  ['whose input the model gets wrong', '{"city":5}', 'upstream_invalid_response'],
  ['whose input is not JSON', '{"city":', 'upstream_invalid_response'],
  ['whose own code fails', '{"city":"Atlantis"}', 'run_failed'],
])('a handoff %s ends the run, and the next agent is not asked', async (_which, args, code) => {
  const onHandoff = (_context: unknown, { city }: { city: string }): void => {
    throw new Error(`${city} has sunk`)
  }
  const toOther = handoff(other(), { inputType: z.object({ city: z.string() }), onHandoff })
  const server = await startTestServer({ agencies: soloAgency({ handoffs: [toOther] }) })
  server.provider.script([toolCall('transfer_to_Other', args), text('Never.')])

  const stream = await (await server.stream('/solo/get_response_stream', { message: 'go' })).all()

  expect(stream.events.at(-1)).toMatchObject({ type: 'error', code, agent: 'Solo' })
  expect(server.provider.modelRequests).toHaveLength(1)
})
