import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Agency, Agent, MCPServerOAuth, tool, type InputGuardrail } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { hold, status, text, textDeltas, toolCall, type Turn } from '../support/fake-provider.ts'
import { closeAfterTest, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

const BOTH = ['get_response', 'get_response_stream'] as const

const message = (recipient: string) => ({ recipient_agent: recipient, message: 'Do it', additional_instructions: '' })

const agui = (content: string) => ({ threadId: 't', runId: 'r', messages: [{ id: 'm', role: 'user', content }] })

/** A request whose client can hang up, and what became of it. */
function ask(
  server: TestServer,
  route: string,
  body: object = { message: 'go' },
): { readonly hangUp: () => Promise<void> } {
  const client = new AbortController()
  const answer = fetch(`${server.url}/firm/${route}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: client.signal,
  }).then((response) => response.text())
  answer.catch(() => {}) // It was hung up on.
  return {
    hangUp: async () => {
      client.abort()
      await expect(answer).rejects.toThrow(/abort/)
    },
  }
}

const agent = (name: string, handoffs: Agent[] = []): Agent =>
  new Agent({ name, instructions: name, model: 'gpt-test', handoffs })

/** `Boss` asks `Left` and `Right` and hands over to `Sales`, as its model says. */
function firm(): { firm: Agency } {
  const boss = agent('Boss', [agent('Sales')])
  const flows = [
    [boss, agent('Left')],
    [boss, agent('Right')],
  ] as const
  return { firm: new Agency({ entryPoint: boss, flows }) }
}

describe.each(BOTH)('a client that goes away: POST /<agency>/%s', (route) => {
  test.each<[string, number, (stop: Turn, agentName: string) => Turn]>([
    ['before the model answers', 1, (stop) => stop],
    [
      'while another agent works on its message',
      1,
      (stop, name) => (name === 'Boss' ? toolCall('send_message', message('Left')) : stop),
    ],
    [
      'while two agents work at the same time',
      2,
      (stop, name) =>
        name === 'Boss'
          ? [toolCall('send_message', message('Left')), toolCall('send_message', message('Right'))]
          : stop,
    ],
    ['after a handoff', 1, (stop, name) => (name === 'Boss' ? toolCall('transfer_to_Sales') : stop)],
  ])('%s: every model request ends, and no other begins', async (_, open, turn) => {
    const server = await startTestServer({ agencies: firm() })
    const gate = server.provider.gate()
    const stop = [hold(gate, { before: 'headers' }), text('never')]
    server.provider.respond(({ instructions, lastUserText }) => {
      return lastUserText === 'another' ? text('fine') : turn(stop, instructions)
    })
    const client = ask(server, route)
    await gate.reached(open)
    const begun = server.provider.modelRequests.length

    await client.hangUp()
    await server.provider.waitForAborts(open)

    expect((await server.post('/firm/get_response', { message: 'another' })).body.response).toBe('fine')
    expect(server.provider.modelRequests).toHaveLength(begun + 1)
  })

  test('between two attempts at a failing provider: there is no further attempt', async () => {
    const server = await startTestServer({ agencies: firm() })
    const gate = server.provider.gate()
    const retryLater = { 'retry-after': '9' }
    server.provider.script([[hold(gate), status(503, undefined, retryLater)], text('fine')])
    const client = ask(server, route)
    await gate.reached()
    gate.release()
    // Whoever waits for nine seconds answers no other request sooner than this one.
    expect((await server.post('/firm/get_response', { message: 'another' })).body.response).toBe('fine')

    await client.hangUp()

    server.provider.script([text('still fine')])
    expect((await server.post('/firm/get_response', { message: 'another' })).body.response).toBe('still fine')
    expect(server.provider.modelRequests).toHaveLength(3)
  })

  test('while a guardrail looks at the message: the model is not asked', async () => {
    const looking = Promise.withResolvers<void>()
    const seen = Promise.withResolvers<void>()
    const guardrail: InputGuardrail = {
      name: 'slow',
      execute: async ({ input }) => {
        if (JSON.stringify(input).includes('another')) return { tripwireTriggered: false, outputInfo: null }
        looking.resolve()
        await seen.promise
        return { tripwireTriggered: false, outputInfo: null }
      },
    }
    const { solo } = soloAgency({ inputGuardrails: [guardrail] })
    const server = await startTestServer({ agencies: { firm: solo } })
    server.provider.script([text('fine')])
    const client = ask(server, route)
    await looking.promise

    await client.hangUp()
    // The server has noticed once it answers somebody else.
    expect((await server.get('/firm/get_metadata')).status).toBe(200)
    seen.resolve()

    expect((await server.post('/firm/get_response', { message: 'another' })).body.response).toBe('fine')
    expect(server.provider.modelRequests).toHaveLength(1)
  })

  test.each(['needsApproval', 'a guardrail of the tool'])('while %s looks at a call: it is not made', async (which) => {
    const looking = Promise.withResolvers<void>()
    const seen = Promise.withResolvers<void>()
    const look = async (): Promise<void> => {
      looking.resolve()
      await seen.promise
    }
    let calls = 0
    const described = { name: 'pay', description: 'Pays.', parameters: z.object({}), execute: () => `paid ${++calls}` }
    const pay =
      which === 'needsApproval'
        ? tool({ ...described, needsApproval: () => look().then(() => false) })
        : { ...tool(described), inputGuardrails: [{ name: 'slow', run: () => look().then(() => ({})) }] }
    const { solo } = soloAgency({ tools: [pay] })
    const server = await startTestServer({ agencies: { firm: solo } })
    server.provider.script([toolCall('pay'), text('fine')])
    const client = ask(server, route)
    await looking.promise

    await client.hangUp()
    expect((await server.get('/firm/get_metadata')).status).toBe(200)
    seen.resolve()

    expect((await server.post('/firm/get_response', { message: 'another' })).body.response).toBe('fine')
    expect(calls).toBe(0)
  })

  test('while the tools of a turn run: their signals abort, also of those in nested agents', async () => {
    const aborted: string[] = []
    const all = Promise.withResolvers<void>()
    const started = Promise.withResolvers<void>()
    const work = tool({
      name: 'work',
      description: 'Works.',
      parameters: z.object({ who: z.string() }),
      execute: async ({ who }, { signal }) => {
        if (who === 'nested') started.resolve()
        await once(signal!, 'abort')
        if (aborted.push(who) === 3) all.resolve()
      },
    })
    const worker = new Agent({ name: 'Worker', instructions: 'Worker', model: 'gpt-test', tools: [work] })
    const boss = new Agent({ name: 'Boss', instructions: 'Boss', model: 'gpt-test', tools: [work] })
    const agency = new Agency({ entryPoint: boss, flows: [[boss, worker]] })
    const server = await startTestServer({ agencies: { firm: agency } })
    server.provider.respond(({ instructions }) =>
      instructions === 'Worker'
        ? toolCall('work', { who: 'nested' })
        : [toolCall('work', { who: 'a' }), toolCall('work', { who: 'b' }), toolCall('send_message', message('Worker'))],
    )
    const client = ask(server, route)
    await started.promise

    await client.hangUp()
    await all.promise

    expect(aborted.toSorted((a, b) => a.localeCompare(b))).toEqual(['a', 'b', 'nested'])
  })
})

test.each([false, true])(
  'a client that goes away before its run begins: the run does not begin; AG-UI: %s',
  async (enableAgui) => {
    const folder = await mkdtemp(path.join(tmpdir(), 'bureau-lost-'))
    closeAfterTest(() => rm(folder, { recursive: true, force: true }))
    const asked = Promise.withResolvers<void>()
    const gone = Promise.withResolvers<void>()
    const notes = new MCPServerOAuth({ name: 'notes', url: 'https://tools.example/mcp' })
    const locked = new Agent({ name: 'Locked', instructions: 'x', model: 'gpt-test', mcpServers: [notes] })
    const server = await startTestServer({
      agencies: { firm: new Agency({ entryPoint: locked }), open: soloAgency().solo },
      enableAgui,
      oauthTokenPath: folder,
      oauthUserId: async ({ raw }) => {
        asked.resolve()
        await once(raw.socket, 'close')
        gone.resolve()
        return 'ada'
      },
    })
    server.provider.respond(() => text('fine'))
    const client = ask(server, 'get_response_stream', enableAgui ? agui('go') : { message: 'go' })
    await asked.promise

    await client.hangUp()
    await gone.promise

    const another = enableAgui ? agui('another') : { message: 'another' }
    await (await server.stream('/open/get_response_stream', another)).all()
    expect(server.provider.modelRequests.map(({ lastUserText }) => lastUserText)).toEqual(['another'])
  },
)

test('two clients of one agency: the one who stays gets everything', async () => {
  const server = await startTestServer({ agencies: firm() })
  const gate = server.provider.gate()
  server.provider.respond(({ lastUserText }) => textDeltas(['Hello ', hold(gate), lastUserText]))
  const [leaving, staying] = await Promise.all(
    ['a', 'b'].map((text) => server.stream('/firm/get_response_stream', { message: text })),
  )
  await Promise.all([leaving!.untilText('Hello'), staying!.untilText('Hello')])

  await leaving!.hangUp()
  await server.provider.waitForAborts(1)
  gate.release()
  await staying!.all()

  expect(staying!.result.new_messages.at(-1).content[0].text).toBe('Hello b')
  expect(staying!.result).not.toHaveProperty('cancelled')
})
