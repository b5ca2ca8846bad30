import { Agency, Agent, type AnyTool, tool, Tool } from '@bureau/framework'
import { ConfigError } from '@bureau/protocol'
import {
  Agent as SdkAgent,
  applyPatchTool,
  type Computer,
  computerTool,
  type Editor,
  type Shell,
  shellTool,
  tool as sdkTool,
  toolNamespace,
  toolSearchTool,
} from '@openai/agents'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { mcpCall, text, toolCall, type Turn } from '../support/fake-provider.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { type Json, soloAgency, startTestServer, type TestStream } from '../support/test-server.ts'

const outputsOf = (items: Json[]): string[] =>
  items.filter((item) => item.type === 'function_call_output').map((item) => item.output)

/** Works until the test lets it finish. */
function printer(options: { oneAtATime: boolean }) {
  const finish = Promise.withResolvers<string>()
  const calls: string[] = []
  const print = tool({
    name: 'print',
    description: 'Prints.',
    parameters: z.object({ page: z.string() }),
    oneAtATime: options.oneAtATime,
    execute: async ({ page }) => {
      calls.push(page)
      return `${page} ${await finish.promise}`
    },
  })
  return { print, calls, finish: () => finish.resolve('printed') }
}

const print = (page: string) => toolCall('print', { page }, { callId: `call_${page}` })

describe('a tool that runs one call at a time', () => {
  test('parallel calls: the first one runs, the others are told to wait, and the run goes on', async () => {
    const { print: tool, calls, finish } = printer({ oneAtATime: true })
    const server = await startTestServer({ agencies: soloAgency({ tools: [tool] }) })
    server.provider.script([[print('a'), print('b'), print('c')], text('done')])
    const stream = await server.stream('/solo/get_response_stream', { message: 'print all' })
    await stream.untilText('concurrency violation')
    finish()
    await stream.all()

    const violation = expect.stringMatching(/^Error: concurrency violation\. print runs one call at a time/)
    expect(outputsOf(stream.result.new_messages)).toEqual(['a printed', violation, violation])
    expect(calls).toEqual(['a'])
    expect(stream.result.new_messages.at(-1).content[0].text).toBe('done')
    expect(server.provider.rejected).toEqual([])
  })

  test('calls in turns that follow each other all run, also after one has failed', async () => {
    let calls = 0
    const flaky = tool({
      name: 'flaky',
      description: 'Fails first.',
      parameters: z.object({}),
      oneAtATime: true,
      execute: () => {
        if (++calls === 1) throw new Error('not yet')
        return `call ${calls}`
      },
    })
    const server = await startTestServer({ agencies: soloAgency({ tools: [flaky] }) })
    server.provider.script([toolCall('flaky'), toolCall('flaky'), text('done')])

    const { body } = await server.post('/solo/get_response', { message: 'go' })

    expect(outputsOf(body.new_messages)).toEqual([expect.stringContaining('not yet'), 'call 2'])
  })

  test('requests do not hold each other up', async () => {
    const { print: tool, calls, finish } = printer({ oneAtATime: true })
    const server = await startTestServer({ agencies: soloAgency({ tools: [tool] }) })
    server.provider.respond(({ lastUserText, toolOutputs }) =>
      toolOutputs.length > 0 ? text(toolOutputs[0]!.output) : print(lastUserText),
    )
    const streams = await Promise.all(
      ['one', 'two'].map((message) => server.stream('/solo/get_response_stream', { message })),
    )
    await Promise.all(streams.map((stream) => stream.untilText('tool_called')))
    finish()
    await Promise.all(streams.map((stream) => stream.all()))

    expect(streams.map((stream) => outputsOf(stream.result.new_messages))).toEqual([['one printed'], ['two printed']])
    expect(calls.toSorted()).toEqual(['one', 'two'])
  })

  test('a class says so by a member; without it parallel calls run together', async () => {
    let running = 0
    let most = 0
    class Together extends Tool {
      override readonly description = 'Runs.'
      override readonly parameters = z.object({})
      async run(): Promise<string> {
        most = Math.max(most, ++running)
        await new Promise(setImmediate)
        running--
        return 'ran'
      }
    }
    class Alone extends Together {
      override readonly oneAtATime = true
    }
    const server = await startTestServer({ agencies: soloAgency({ tools: [Together, Alone] }) })
    server.provider.script([
      [toolCall('Together'), toolCall('Together')],
      [toolCall('Alone'), toolCall('Alone')],
      text('done'),
    ])

    const { body } = await server.post('/solo/get_response', { message: 'go' })

    expect(outputsOf(body.new_messages)).toEqual([
      'ran',
      'ran',
      'ran',
      expect.stringContaining('concurrency violation'),
    ])
    expect(most).toBe(2)
  })
})

test('tools may take whatever zod can say: the provider accepts them, and their input is checked', async () => {
  const shape = tool({
    name: 'shape',
    description: 'Takes shapes.',
    parameters: z.object({
      shape: z.discriminatedUnion('kind', [
        z.object({ kind: z.literal('circle'), radius: z.number() }),
        z.object({ kind: z.literal('line'), points: z.tuple([z.number(), z.number()]) }),
      ]),
      link: z.url(),
      more: z.unknown(),
    }),
    execute: ({ shape: { kind } }) => kind,
  })
  const server = await startTestServer({ agencies: soloAgency({ tools: [shape] }) })
  const link = 'https://example.com'
  server.provider.script([
    toolCall('shape', { shape: { kind: 'line', points: [1, 2] }, link, more: { x: [1] } }),
    toolCall('shape', { shape: { kind: 'square' }, link: 'nowhere', more: 1 }),
    text('done'),
  ])

  const { body } = await server.post('/solo/get_response', { message: 'go' })

  expect(outputsOf(body.new_messages)).toEqual(['line', expect.stringMatching(/Invalid URL[^]*Invalid discriminator/)])
  expect(server.provider.rejected).toEqual([])
})

describe('a tool that returns a picture', () => {
  const data = 'data:image/png;base64,iVBORw0KGgo='
  const draw = sdkTool({
    name: 'draw',
    description: 'Draws.',
    parameters: z.object({}),
    execute: () => [
      { type: 'text' as const, text: 'A dot.' },
      { type: 'image' as const, image: data },
    ],
  })

  test('the model sees it, in this run and from the history, and the client gets it', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [draw] }) })
    server.provider.script([toolCall('draw'), text('A dot.'), text('Still a dot.')])

    const { body } = await server.post('/solo/get_response', { message: 'draw' })
    await server.post('/solo/get_response', { message: 'and?', chat_history: body.new_messages })

    const parts = [
      { type: 'input_text', text: 'A dot.' },
      { type: 'input_image', image_url: data },
    ]
    expect(body.new_messages[2]).toMatchObject({ type: 'function_call_output', output: parts })
    for (const { items } of server.provider.modelRequests.slice(1)) expect(items[2]).toMatchObject({ output: parts })
    expect(server.provider.rejected).toEqual([])
  })

  test('with Chat Completions the user’s side shows it', async () => {
    const server = await startTestServer({
      agencies: soloAgency({ tools: [draw] }),
      env: { OPENAI_API: 'chat_completions' },
    })
    server.provider.script([toolCall('draw'), text('A dot.')])

    await server.post('/solo/get_response', { message: 'draw' })

    const [output, shown] = server.provider.modelRequests[1]!.items.slice(-2)
    expect(output).toMatchObject({ role: 'tool', content: 'A dot.' })
    expect(shown).toMatchObject({ role: 'user', content: [{ type: 'text' }, { image_url: { url: data } }] })
    expect(server.provider.rejected).toEqual([])
  })
})

describe('tools that Bureau does not carry out', () => {
  const done = async (): Promise<void> => {}
  const acts = { click: done, doubleClick: done, scroll: done, type: done, wait: done, move: done, keypress: done }
  const screen: Computer = {
    ...acts,
    drag: done,
    environment: 'browser',
    dimensions: [10, 10],
    screenshot: async () => 'iVBORw0KGgo=',
  }
  const outcome = { type: 'exit' as const, exitCode: 0 }
  const shell: Shell = { run: async () => ({ output: [{ stdout: 'hi', stderr: '', outcome }] }) }
  const edited = async () => ({ status: 'completed' as const, output: 'made' })
  const editor: Editor = { createFile: edited, updateFile: edited, deleteFile: edited }
  const late = sdkTool({
    name: 'late',
    description: 'Late.',
    parameters: z.object({}),
    deferLoading: true,
    execute: () => '',
  })
  const quick = sdkTool({ name: 'quick', description: 'Quick.', parameters: z.object({}), execute: () => '' })
  const asked = new SdkAgent({ name: 'Asked' }).asTool({ toolName: 'ask', toolDescription: 'Asks.' })

  test.each<[string, unknown, string]>([
    ['a computer', computerTool({ computer: screen }), 'needs computer use'],
    ['a shell', shellTool({ shell }), 'needs a shell'],
    ['an editor', applyPatchTool({ editor }), 'needs patches'],
    ['deferred loading', late, 'the tool "late" defers its loading'],
    ['a namespace', toolNamespace({ name: 'space', description: 'A space.', tools: [quick] })[0], 'is in a namespace'],
    ['a tool search', toolSearchTool(), 'is a tool search'],
    ['an agent as a tool', asked, 'is an agent as a tool'],
  ])('%s is refused by name when the agent is made', (_, refused, message) => {
    const make = (): Agent => new Agent({ name: 'Solo', tools: [refused as AnyTool] })

    expect(make).toThrow(ConfigError)
    expect(make).toThrow(message)
  })
})

describe('names of tools', () => {
  const named = (name: string) => tool({ name, description: name, parameters: z.object({}), execute: () => '' })
  const other = new Agent({ name: 'Dev Worker', instructions: 'Work.' })

  test.each<[string, () => Agency, string]>([
    [
      'two tools of an agent',
      () => new Agency({ entryPoint: new Agent({ name: 'A', tools: [named('x'), named('x')] }) }),
      'Agent "A": two tools are named "x"',
    ],
    [
      'a tool and the tool for messages',
      () => {
        const agent = new Agent({ name: 'A', tools: [named('send_message')] })
        return new Agency({ entryPoint: agent, flows: [[agent, other]] })
      },
      'two tools are named "send_message"',
    ],
    [
      'a tool and a handoff',
      () =>
        new Agency({
          entryPoint: new Agent({ name: 'A', tools: [named('transfer_to_Dev_Worker')], handoffs: [other] }),
        }),
      'two tools are named "transfer_to_Dev_Worker"',
    ],
    [
      'handoffs to agents whose names look alike',
      () => new Agency({ entryPoint: new Agent({ name: 'A', handoffs: [other, new Agent({ name: 'Dev-Worker' })] }) }),
      'two tools are named "transfer_to_Dev_Worker"',
    ],
    [
      'a handoff that is declared twice',
      () => {
        const agent = new Agent({ name: 'A', handoffs: [other] })
        return new Agency({ entryPoint: agent, flows: [[agent, other, 'handoff']] })
      },
      'two tools are named "transfer_to_Dev_Worker"',
    ],
    [
      'a handoff to an agent with a name too long for a tool',
      () => new Agency({ entryPoint: new Agent({ name: 'A', handoffs: [new Agent({ name: 'x'.repeat(60) })] }) }),
      'has other than 1 to 64 of A-Z a-z 0-9 _ -',
    ],
  ])('stop the start when they collide: %s', (_, make, problem) => {
    expect(make).toThrow(problem)
  })

  test.each(['two\nlines', '', ' ', ' x', 'nul\0', 'line\u2028break', 'x'.repeat(129)])(
    'an agent cannot be named %j',
    (name) => {
      expect(() => new Agency({ entryPoint: new Agent({ name }) })).toThrow(/name/)
    },
  )
})

describe('a tool that fails', () => {
  const failing = tool({
    name: 'failing',
    description: 'Fails.',
    parameters: z.object({ at: z.string().optional() }),
    execute: () => {
      throw new Error('the database is gone', { cause: new Error('ECONNREFUSED') })
    },
  })
  const sdkFailing = sdkTool({
    name: 'sdk_failing',
    description: 'Fails.',
    parameters: z.object({}),
    execute: () => {
      throw new Error('the database is gone')
    },
  })

  async function warningsOf(tools: (typeof failing)[], calls: Turn): Promise<{ warnings: Json[]; stream: TestStream }> {
    const logsDir = await temporaryFolder()
    const server = await startTestServer({ agencies: soloAgency({ tools }), enableLogging: true, logsDir })
    server.provider.script([calls, text('Sorry.')])
    const headers = { 'x-agency-log-id': 'run' }
    const stream = await (await server.stream('/solo/get_response_stream', { message: 'go' }, { headers })).all()
    const { body } = await server.get('/get_logs?log_id=run')
    return { warnings: body.filter(({ details }: Json) => details.level === 'WARNING'), stream }
  }

  test('says why in the log, with its stack, and to no client', async () => {
    const { warnings, stream } = await warningsOf([failing], toolCall('failing'))

    expect(warnings).toMatchObject([
      { message: 'tool failed', details: { fields: { agent: 'Solo', tool: 'failing' } } },
    ])
    expect(JSON.stringify(warnings)).toMatch(/the database is gone.*tool-calls\.test\.ts/)
    expect(stream.text).not.toMatch(/tool-calls\.test\.ts|ECONNREFUSED/)
    expect(stream.result.new_messages.at(-1).content[0].text).toBe('Sorry.')
  })

  test('is logged too when the agents SDK keeps its error', async () => {
    const { warnings } = await warningsOf([sdkFailing], toolCall('sdk_failing'))

    expect(warnings).toMatchObject([{ message: 'tool failed', details: { fields: { tool: 'sdk_failing' } } }])
  })

  test('but what the model has got wrong is for the model', async () => {
    const { warnings } = await warningsOf([failing], toolCall('failing', { at: 5 }))

    expect(warnings).toEqual([])
  })
})

test('a call that takes longer than its tool may is given up: its signal aborts, and the run goes on', async () => {
  const aborted = Promise.withResolvers<void>()
  const slow = tool({
    name: 'slow',
    description: 'Never ends.',
    parameters: z.object({}),
    timeoutMs: 20,
    execute: (_input, { signal }) => {
      signal!.addEventListener('abort', () => aborted.resolve())
      return new Promise<never>(() => {})
    },
  })
  const server = await startTestServer({ agencies: soloAgency({ tools: [slow] }) })
  server.provider.script([toolCall('slow'), text('Too slow.')])

  const { body } = await server.post('/solo/get_response', { message: 'go' })

  expect(outputsOf(body.new_messages)).toEqual(["Tool 'slow' timed out after 20ms."])
  expect(body.response).toBe('Too slow.')
  await aborted.promise
})

describe('an output of more than 1 MiB is cut, and says so', () => {
  const MIB = 1_048_576
  const note = `[Cut: the output has ${2 * MIB} characters; these are the first ${MIB}.]`
  const options = { name: 'big', description: 'Big.', parameters: z.object({}), execute: () => 'x'.repeat(2 * MIB) }

  test.each([
    ['a function', tool(options)],
    ['a tool of the agents SDK', sdkTool(options) as never],
  ])('of %s: for the model, the client and the history', async (_, big) => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [big] }) })
    server.provider.script([toolCall('big'), text('Read.')])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'go' })).all()

    const [output] = outputsOf(stream.result.new_messages)
    expect([output!.length, output!.endsWith(note)]).toEqual([MIB + 1 + note.length, true])
    // Compared by hand: what a test runner says of two long texts takes minutes.
    expect(server.provider.requests[1]!.toolOutputs[0]!.output === output).toBe(true)
    expect(stream.events.find(({ name }) => name === 'tool_output').item.output === output).toBe(true)
  })

  test('of a tool that the provider runs', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([[mcpCall({ server: 's', name: 'big', output: 'x'.repeat(2 * MIB) }), text('Read.')]])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'go' })).all()

    const { output } = stream.result.new_messages.find(({ type }: Json) => type === 'mcp_call')
    expect([output.length, output.endsWith(note)]).toEqual([MIB + 1 + note.length, true])
    expect(Math.max(...stream.frames.map(({ data }) => data.length))).toBeLessThan(1.1 * MIB)
  })

  test('of a tool whose output is the answer', async () => {
    const agent = { tools: [tool(options)], toolUseBehavior: 'stop_on_first_tool' as const }
    const server = await startTestServer({ agencies: soloAgency(agent) })
    server.provider.script([toolCall('big')])

    const { body } = await server.post('/solo/get_response', { message: 'go' })

    expect(body.response.length).toBe(MIB + 1 + note.length)
  })
})

test.each(['responses', 'chat_completions'])(
  'a call that was cut at the token limit is not sent back, at %s',
  async (api) => {
    const asked: string[] = []
    const look = tool({
      name: 'look',
      description: 'Looks.',
      parameters: z.object({ at: z.string() }),
      execute: ({ at }) => `saw ${at} ${asked.push(at)}`,
    })
    const server = await startTestServer({ agencies: soloAgency({ tools: [look] }), env: { OPENAI_API: api } })
    server.provider.script([
      [
        toolCall('look', { at: 'the sea' }, { callId: 'whole' }),
        toolCall('look', '{"at":"the m', { callId: 'half' }),
        { part: 'ending', how: 'incomplete', reason: 'max_output_tokens' },
      ],
      text('done'),
    ])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'look' })).all()

    expect(server.provider.rejected).toEqual([])
    expect(asked).toEqual(['the sea'])
    expect(stream.outline.filter((name) => name === 'tool_called')).toHaveLength(1)
    expect(stream.result.new_messages.at(-1).content[0].text).toBe('done')
  },
)
