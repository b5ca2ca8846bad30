import { Agency, Agent, messageTool } from '@bureau/framework'
import { tool as sdkTool } from '@openai/agents'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { Gate, hold, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import { type Json, startTestServer } from '../support/test-server.ts'

const agent = (name: string, description?: string): Agent =>
  new Agent({
    name,
    instructions: `I am ${name}.`,
    model: 'gpt-test',
    ...(description !== undefined && { description }),
  })

const outputsOf = (items: Json[]): string[] =>
  items.filter((item) => item.type === 'function_call_output').map((item) => item.output)

const message = (recipient: string, more: object = {}): Record<string, unknown> => ({
  recipient_agent: recipient,
  message: 'Do it',
  additional_instructions: '',
  ...more,
})

describe('the tool for messages', () => {
  test('names its recipients and what they do, all of its parameters are required, and no others are allowed', async () => {
    const boss = agent('Boss')
    const flows = [
      [boss, agent('Dev Worker', 'Develops.')],
      [boss, agent('Tester')],
    ] as const
    const server = await startTestServer({ agencies: { two: new Agency({ entryPoint: boss, flows }) } })
    server.provider.script([text('ok')])

    await server.post('/two/get_response', { message: 'hi' })

    const [sent, ...others] = server.provider.modelRequests[0]!.body['tools'] as Json[]
    expect(others).toEqual([])
    expect(sent).toMatchObject({ type: 'function', name: 'send_message', strict: true })
    expect(sent.description).toContain('- Dev Worker: Develops.\n- Tester: no description')
    expect(sent.parameters).toMatchObject({
      properties: { recipient_agent: { enum: ['Dev Worker', 'Tester'] }, message: {}, additional_instructions: {} },
      required: ['recipient_agent', 'message', 'additional_instructions'],
      additionalProperties: false,
    })
  })

  test('an exact name wins over one that differs in its case', async () => {
    const boss = agent('Boss')
    const flows = [
      [boss, agent('BOB')],
      [boss, agent('Bob')],
    ] as const
    const server = await startTestServer({ agencies: { two: new Agency({ entryPoint: boss, flows }) } })
    server.provider.respond(({ instructions, toolOutputs }) => {
      if (instructions !== 'I am Boss.') return text(instructions)
      return toolOutputs.length > 0
        ? text('done')
        : [toolCall('send_message', message('Bob')), toolCall('send_message', message('bOB'))]
    })

    const { body } = await server.post('/two/get_response', { message: 'go' })

    expect(outputsOf(body.new_messages)).toEqual(['I am Bob.', 'I am BOB.'])
  })

  test('additional instructions are for the recipient of the message, this time only', async () => {
    const [boss, worker] = [agent('Boss'), agent('Worker')]
    const server = await startTestServer({
      agencies: { two: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) },
    })
    const heard: string[] = []
    server.provider.respond(({ instructions, toolOutputs }) => {
      if (!instructions.startsWith('I am Boss.')) heard.push(instructions)
      if (!instructions.startsWith('I am Boss.')) return text('yes')
      if (toolOutputs.length === 2) return text('done')
      const extra = toolOutputs.length === 0 ? { additional_instructions: 'Hurry.' } : {}
      return toolCall('send_message', message('Worker', extra))
    })

    await server.post('/two/get_response', { message: 'go', additional_instructions: 'For the boss.' })

    expect(heard).toEqual(['I am Worker.\n\nHurry.', 'I am Worker.'])
  })
})

describe('a tool of its own for some flows', () => {
  const ask = messageTool({
    name: 'ask_expert',
    description: 'Asks an expert.',
    parameters: z.object({ urgency: z.enum(['low', 'high']), facts: z.array(z.string()).describe('What is known.') }),
  })
  const [boss, worker, expert] = [agent('Boss'), agent('Worker'), agent('Expert')]
  const agency = new Agency({
    entryPoint: boss,
    flows: [
      [boss, worker],
      [boss, expert, ask],
    ],
  })

  test('has its name, its description and more parameters, beside the usual one', async () => {
    const server = await startTestServer({ agencies: { two: agency } })
    server.provider.script([text('ok')])

    await server.post('/two/get_response', { message: 'hi' })

    const tools = server.provider.modelRequests[0]!.body['tools'] as Json[]
    expect(tools.map(({ name }) => name)).toEqual(['send_message', 'ask_expert'])
    expect(tools.map(({ parameters }) => parameters.properties.recipient_agent.enum)).toEqual([['Worker'], ['Expert']])
    expect(tools[1]).toMatchObject({
      description: expect.stringMatching(/^Asks an expert\. Recipients:/),
      strict: true,
    })
    expect(tools[1].parameters.required).toEqual([
      'recipient_agent',
      'message',
      'additional_instructions',
      'urgency',
      'facts',
    ])
    expect(tools[1].parameters.properties.facts.description).toBe('What is known.')
  })

  test('the recipient reads the message and what was said besides; the call carries the events of its conversation', async () => {
    const server = await startTestServer({ agencies: { two: agency } })
    const args = message('expert', { urgency: 'high', facts: ['It is "red".', 'It is late.'] })
    server.provider.respond(({ instructions, toolOutputs, lastUserText }) => {
      if (instructions === 'I am Expert.') return text(`heard: ${lastUserText}`)
      return toolOutputs.length > 0 ? text('done') : toolCall('ask_expert', args, { callId: 'call_ask' })
    })

    const stream = await (await server.stream('/two/get_response_stream', { message: 'go' })).all()

    const said = 'Do it\n\nurgency: high\nfacts: ["It is \\"red\\".","It is late."]'
    expect(outputsOf(stream.result.new_messages)).toEqual([`heard: ${said}`])
    expect(stream.result.new_messages[1]).toMatchObject({
      content: said,
      agent: 'Expert',
      callerAgent: 'Boss',
      parent_run_id: 'call_ask',
    })
    const nested = stream.events.filter((event) => event.agent === 'Expert')
    for (const event of nested) expect(event).toMatchObject({ callerAgent: 'Boss', parent_run_id: 'call_ask' })
  })

  test.each([
    ['a value that is not allowed', { urgency: 'now', facts: [] }, /urgency/],
    ['a missing one', { urgency: 'low' }, /facts/],
  ])('input is checked: %s is told to the sender, and nobody is asked', async (_, more, problem) => {
    const server = await startTestServer({ agencies: { two: agency } })
    server.provider.script([toolCall('ask_expert', message('Expert', more)), text('sorry')])

    const { body } = await server.post('/two/get_response', { message: 'go' })

    expect(body.response).toBe('sorry')
    const [output] = outputsOf(body.new_messages)
    expect(output).toMatch(/^Error: the arguments of ask_expert are not valid/)
    expect(output).toMatch(problem)
    expect(server.provider.modelRequests).toHaveLength(2)
  })

  test('its parameters may be checked by code that waits', async () => {
    const careful = messageTool({
      name: 'ask_carefully',
      description: 'Asks.',
      parameters: z.object({ topic: z.string().refine(async (topic) => topic !== 'gossip', 'not about others') }),
    })
    const server = await startTestServer({
      agencies: { two: new Agency({ entryPoint: boss, flows: [[boss, expert, careful]] }) },
    })
    server.provider.script([
      toolCall('ask_carefully', message('Expert', { topic: 'gossip' })),
      toolCall('ask_carefully', message('Expert', { topic: 'work' })),
      text('I work.'),
      text('done'),
    ])

    const { body } = await server.post('/two/get_response', { message: 'go' })

    expect(outputsOf(body.new_messages)).toEqual([expect.stringContaining('not about others'), 'I work.'])
  })

  test('only the recipients of its flows can be asked with it', async () => {
    const server = await startTestServer({ agencies: { two: agency } })
    server.provider.script([toolCall('ask_expert', message('Worker', { urgency: 'low', facts: [] })), text('sorry')])

    const { body } = await server.post('/two/get_response', { message: 'go' })

    expect(outputsOf(body.new_messages)).toEqual(['Error: there is no recipient "Worker". Allowed: Expert.'])
  })

  test('a recipient of two tools is one recipient: busy for both', async () => {
    const both = new Agency({
      entryPoint: boss,
      flows: [
        [boss, worker],
        [boss, worker, messageTool({ name: 'ask' })],
      ],
    })
    const server = await startTestServer({ agencies: { two: both } })
    server.provider.respond(({ instructions, toolOutputs }) => {
      if (instructions === 'I am Worker.') return text('yes')
      if (toolOutputs.length > 0) return text('done')
      return [toolCall('send_message', message('Worker')), toolCall('ask', message('Worker'))]
    })

    const { body } = await server.post('/two/get_response', { message: 'go' })

    expect(outputsOf(body.new_messages)).toEqual(['yes', expect.stringContaining('still working')])
    expect(both.recipientsOf('Boss')).toEqual([worker])
  })

  test.each([
    ['a bad name', { name: 'ask the expert' }, 'a name has 1 to 64'],
    [
      'a parameter that every message has',
      { parameters: z.object({ message: z.string() }) },
      'has the parameter message',
    ],
    ['parameters that are no object', { parameters: z.string() as never }, 'must be a zod object'],
  ])('ConfigError: %s', (_, options, problem) => {
    expect(() => messageTool(options)).toThrow(problem)
  })

  test('ConfigError: two tools of a sender with one name, one flow with one tool twice', () => {
    const again = messageTool({ name: 'ask_expert' })
    expect(
      () =>
        new Agency({
          entryPoint: boss,
          flows: [
            [boss, worker, again],
            [boss, expert, ask],
          ],
        }),
    ).toThrow('two tools are named "ask_expert"')
    expect(
      () =>
        new Agency({
          entryPoint: boss,
          flows: [
            [boss, expert, ask],
            [boss, expert, ask],
          ],
        }),
    ).toThrow('"Boss -> Expert" (ask_expert) is listed twice')
  })
})

describe('agents that ask each other', () => {
  const [a, b] = [agent('A'), agent('B')]
  const circle = new Agency({
    entryPoint: a,
    flows: [
      [a, b],
      [b, a],
    ],
  })
  const other = (instructions: string): string => (instructions === 'I am A.' ? 'B' : 'A')

  test('in a circle are stopped, and every one of them answers', async () => {
    const server = await startTestServer({ agencies: { circle } })
    server.provider.respond(({ instructions, toolOutputs, items }) => {
      const last = items.at(-1)
      if (last?.['type'] === 'function_call_output') return text(toolOutputs.at(-1)!.output.slice(0, 200))
      return toolCall('send_message', message(other(instructions)))
    })

    const { body } = await server.post('/circle/get_response', { message: 'go' })

    expect(body.response).toContain('Agents have already asked each other 12 times in a row')
    expect(body.usage.request_count).toBe(26)
    expect(server.provider.rejected).toEqual([])
  })

  test('back: the one who asked first can be asked in turn, as a conversation of its own', async () => {
    const server = await startTestServer({ agencies: { circle } })
    server.provider.respond(({ instructions, items }) => {
      const last = items.at(-1)
      if (last?.['type'] === 'function_call_output') return text(`${instructions} ${String(last['output'])}`)
      const asked = items.filter((item) => item['type'] === 'function_call').length
      if (instructions === 'I am A.' && items.length > 1 && asked === 0) return text('enough')
      return toolCall('send_message', message(other(instructions)))
    })

    const { body } = await server.post('/circle/get_response', { message: 'go' })

    expect(body.response).toBe('I am A. I am B. enough')
    expect(server.provider.rejected).toEqual([])
  })

  test('at the same time: one that loses its provider does not disturb the other', async () => {
    const [boss, left, right] = [agent('Boss'), agent('Left'), agent('Right')]
    const agency = new Agency({
      entryPoint: boss,
      flows: [
        [boss, left],
        [boss, right],
      ],
    })
    const server = await startTestServer({ agencies: { two: agency } })
    const gate = server.provider.gate()
    server.provider.respond(({ instructions, toolOutputs }) => {
      if (instructions === 'I am Left.') return [textDeltas(['Half of it']), { part: 'cut', how: 'reset', after: null }]
      if (instructions === 'I am Right.') return textDeltas(['All', hold(gate), ' of it'])
      if (toolOutputs.length > 0) return text('done')
      return [toolCall('send_message', message('Left')), toolCall('send_message', message('Right'))]
    })

    const stream = await server.stream('/two/get_response_stream', { message: 'go' })
    const failure = await stream.until(({ data }) => data.includes('"type":"error"') && data.includes('"agent":"Left"'))
    gate.release()
    await stream.all()

    expect(JSON.parse(failure.data).data).toMatchObject({ callerAgent: 'Boss', parent_run_id: expect.any(String) })
    expect(outputsOf(stream.result.new_messages)).toEqual([
      expect.stringMatching(/^Error: Left could not answer\./),
      'All of it',
    ])
    expect(stream.result.new_messages.at(-1).content[0].text).toBe('done')
    expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
    expect(server.provider.rejected).toEqual([])
  })
})

test('an agent that is being asked stops when another call of the turn ends the run', async () => {
  const gate = new Gate()
  const failing = sdkTool({
    name: 'fail',
    description: 'Fails.',
    parameters: z.object({}),
    execute: async () => {
      await server.provider.waitForRequests(2)
      throw new Error('out of order')
    },
    errorFunction: null,
  })
  const boss = new Agent({ name: 'Boss', instructions: 'I am Boss.', model: 'gpt-test', tools: [failing] })
  const flows = [[boss, agent('Worker')]] as const
  const server = await startTestServer({ agencies: { two: new Agency({ entryPoint: boss, flows }) } })
  server.provider.script([
    [toolCall('fail', {}), toolCall('send_message', message('Worker'))],
    textDeltas(['work', hold(gate), 'ed']),
  ])

  const stream = await (await server.stream('/two/get_response_stream', { message: 'go' })).all()

  expect(stream.events).toContainEqual(expect.objectContaining({ type: 'error', code: 'run_failed' }))
  expect(stream.result.usage.request_count).toBe(2)
  await server.provider.waitForAborts(1)
})
