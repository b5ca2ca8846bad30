import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import {
  Agency,
  Agent,
  type AnyTool,
  MCPServerStreamableHttp,
  type MCPServerStreamableHttpOptions,
  tool,
  Tool,
} from '@bureau/framework'
import { hostedMcpTool, tool as sdkTool } from '@openai/agents'
import { describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { Gate, hold, mcpApprovalRequest, mcpCall, text, toolCall, type Turn } from '../support/fake-provider.ts'
import { startHttpToolServer } from '../support/tool-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { closeAfterTest, type Json, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

const ROUTE = '/solo/get_response'
const SECRET = 'a secret of this test that is long enough'

/** Refunds of more than 100 need an approval. `calls` has those that were carried out. */
function refunds(options: { readonly edit?: boolean } = {}) {
  const calls: Json[] = []
  const when = ({ amount }: { amount: number }): boolean => amount > 100
  const refund = tool({
    name: 'refund',
    description: 'Pays an order back.',
    parameters: z.object({ order: z.number(), amount: z.number() }),
    needsApproval: options.edit ? { when, edit: true } : when,
    execute: (input, { userContext }) => {
      calls.push({ ...input, ...userContext })
      return `paid ${input.amount} back`
    },
  })
  return { refund, calls }
}

const call = (amount: number, callId = 'call_r'): Turn => toolCall('refund', { order: 7, amount }, { callId })

async function open(
  tools: readonly AnyTool[],
  script: readonly Turn[],
  env: Record<string, string> = {},
): Promise<TestServer> {
  const folder = await temporaryFolder()
  const server = await startTestServer({
    agencies: soloAgency({ tools }),
    env: { BUREAU_SECRET: SECRET, BUREAU_APPROVALS_PATH: folder, ...env },
  })
  server.provider.script(script)
  return server
}

/** Asks, and gives what came back and what the next request needs. */
async function ask(server: TestServer, message = 'Refund it.') {
  const { body } = await server.post(ROUTE, { message })
  return { body, chat_history: body.new_messages as Json[], approvals: body.approvals as Json[] }
}

const outputsOf = (items: readonly Json[]): string[] =>
  items.filter(({ type }) => type === 'function_call_output').map(({ output }) => output)

const decision = ({ call_id, token }: Json, more: object = { approve: true }): Json => ({ call_id, token, ...more })

describe('a call that needs an approval', () => {
  test('422 for tokens that unfold to more than one request may hold, however short they are', async () => {
    const parameters = z.object({ note: z.string() })
    const write = tool({ name: 'write', description: 'Writes.', parameters, needsApproval: true, execute: () => 'ok' })
    const server = await open([write], [toolCall('write', { note: 'a'.repeat(600_000) }, { callId: 'call_w' })])
    const { approvals, chat_history } = await ask(server)
    const asked: Json = approvals[0]
    const decisions = Array.from({ length: 128 }, () => decision(asked))

    const { status, body } = await server.post(ROUTE, { chat_history, approvals: decisions })

    expect(asked['token'].length).toBeLessThan(8_192)
    expect(status).toBe(422)
    expect(body.detail[0].msg).toContain('the tokens of a request hold more than')
  })

  test('is not carried out: the run ends as waiting, with the call as the model wrote it', async () => {
    const { refund, calls } = refunds()
    const server = await open([refund], [call(250)])
    const before = Date.now()

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'Refund it.' })).all()

    expect(stream.outline.slice(-3)).toEqual(['approval_requested', 'messages', 'end'])
    const asked = JSON.parse(stream.frames.find(({ event }) => event === 'approval_requested')!.data)
    expect(asked).toEqual({
      call_id: 'call_r',
      tool: 'refund',
      arguments: '{"order":7,"amount":250}',
      agent: 'Solo',
      agent_run_id: expect.stringMatching(/^agent_run_/),
      expires_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
      edit: false,
      token: expect.any(String),
    })
    expect(Date.parse(asked.expires_at) - before).toBeGreaterThan(604_799_000)
    expect(stream.result).toMatchObject({ status: 'waiting', approvals: [asked] })
    expect(stream.result.new_messages.map(({ type }: Json) => type)).toEqual(['message', 'function_call'])
    expect(calls).toEqual([])
  })

  test('is the same in a JSON answer', async () => {
    const { refund } = refunds()
    const server = await open([refund], [call(250)])

    const { status, body } = await server.post(ROUTE, { message: 'Refund it.' })

    expect([status, body.status, body.response]).toEqual([200, 'waiting', null])
    expect(body.approvals).toMatchObject([{ call_id: 'call_r', tool: 'refund' }])
    expect(body.usage.request_count).toBe(1)
  })

  test('approved: it is carried out, and the run goes on; what came before is not repeated', async () => {
    const { refund, calls } = refunds()
    const server = await open([refund], [call(250), text('Done.')])
    const { chat_history, approvals } = await ask(server)

    const { status, body } = await server.post(ROUTE, { chat_history, approvals: [decision(approvals[0])] })

    expect([status, body.response, body.status]).toEqual([200, 'Done.', undefined])
    expect(calls).toEqual([{ order: 7, amount: 250 }])
    expect(body.new_messages.map(({ type }: Json) => type)).toEqual(['function_call_output', 'message'])
    expect(outputsOf(body.new_messages)).toEqual(['paid 250 back'])
    expect(server.provider.modelRequests[1]!.items.map(({ type, role }: Json) => type ?? role)).toEqual([
      'message',
      'function_call',
      'function_call_output',
    ])
    expect(server.provider.rejected).toEqual([])
    expect(body.usage.request_count).toBe(1)
  })

  test('approved on the streaming route: the stream begins with meta, and shows the output', async () => {
    const { refund } = refunds()
    const server = await open([refund], [call(250), text('Done.')])
    const { chat_history, approvals } = await ask(server)

    const body = { chat_history, approvals: [decision(approvals[0])] }
    const stream = await (await server.stream('/solo/get_response_stream', body)).all()

    expect(stream.outline.slice(0, 3)).toEqual(['meta', 'agent:Solo', 'tool_output'])
    expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
    expect(stream.result.new_messages).toHaveLength(2)
  })

  test('rejected: it is not carried out, and the model reads why', async () => {
    const { refund, calls } = refunds()
    const server = await open([refund], [call(250), text('Sorry.')])
    const { chat_history, approvals } = await ask(server)
    const no = decision(approvals[0], { approve: false, reason: 'Too much.' })

    const { body } = await server.post(ROUTE, { chat_history, approvals: [no] })

    expect(body.response).toBe('Sorry.')
    expect(calls).toEqual([])
    expect(server.provider.modelRequests[1]!.toolOutputs[0]!.output).toBe(
      'Not carried out: a person rejected this call. Reason: Too much.',
    )
  })

  test('with a message as well: the model reads it after the output', async () => {
    const { refund } = refunds()
    const server = await open([refund], [call(250), text('Done.')])
    const { chat_history, approvals } = await ask(server)

    const { body } = await server.post(ROUTE, {
      message: 'Be quick.',
      chat_history,
      approvals: [decision(approvals[0])],
    })

    const { items } = server.provider.modelRequests[1]!
    expect(items.map(({ type, role }: Json) => role ?? type)).toEqual([
      'user',
      'function_call',
      'function_call_output',
      'user',
    ])
    expect(body.new_messages.map(({ type, role }: Json) => role ?? type)).toEqual([
      'function_call_output',
      'user',
      'assistant',
    ])
    expect(server.provider.rejected).toEqual([])
  })

  test('the user goes on without deciding: the call is rejected, and the model knows', async () => {
    const { refund, calls } = refunds()
    const server = await open([refund], [call(250), text('All right.'), text('Yes?')])
    const { chat_history } = await ask(server)

    const { body } = await server.post(ROUTE, { message: 'Never mind.', chat_history })
    const next = await server.post(ROUTE, { message: 'Hello?', chat_history: [...chat_history, ...body.new_messages] })

    expect([body.response, next.body.response]).toEqual(['All right.', 'Yes?'])
    expect(outputsOf(body.new_messages)).toEqual(['Not carried out: the user has sent another message instead.'])
    expect(server.provider.modelRequests[1]!.items.map(({ type, role }: Json) => role ?? type)).toEqual([
      'user',
      'function_call',
      'function_call_output',
      'user',
    ])
    expect(calls).toEqual([])
    expect(server.provider.rejected).toEqual([])
  })

  test('the tool knows the user context of the request that approves', async () => {
    const { refund, calls } = refunds()
    const server = await open([refund], [call(250), text('Done.')])
    const { chat_history, approvals } = await ask(server)

    await server.post(ROUTE, { chat_history, approvals: [decision(approvals[0])], user_context: { tenant: 'acme' } })

    expect(calls).toEqual([{ order: 7, amount: 250, tenant: 'acme' }])
  })

  test('other calls of the turn are carried out meanwhile', async () => {
    const { refund, calls } = refunds()
    const server = await open([refund], [[call(250, 'call_big'), call(5, 'call_small')], text('Done.')])
    const { chat_history, approvals } = await ask(server)
    expect(calls).toEqual([{ order: 7, amount: 5 }])
    expect(chat_history.map(({ type, call_id }) => call_id ?? type)).toEqual([
      'message',
      'call_big',
      'call_small',
      'call_small',
    ])

    const { body } = await server.post(ROUTE, { chat_history, approvals: [decision(approvals[0])] })

    expect(calls).toEqual([
      { order: 7, amount: 5 },
      { order: 7, amount: 250 },
    ])
    expect(body.new_messages.map(({ type }: Json) => type)).toEqual(['function_call_output', 'message'])
    expect(server.provider.rejected).toEqual([])
  })

  test('several wait together, and may be decided one after the other', async () => {
    const { refund, calls } = refunds()
    const server = await open([refund], [[call(250, 'call_1'), call(300, 'call_2')], text('Done.')])
    const first = await ask(server)
    expect(first.approvals.map(({ call_id }) => call_id)).toEqual(['call_1', 'call_2'])

    const second = await server.post(ROUTE, {
      chat_history: first.chat_history,
      approvals: [decision(first.approvals[1])],
    })
    expect(second.body).toMatchObject({ status: 'waiting', approvals: [{ call_id: 'call_1' }] })
    expect(calls).toEqual([{ order: 7, amount: 300 }])
    const third = await server.post(ROUTE, {
      chat_history: [...first.chat_history, ...second.body.new_messages],
      approvals: [decision(second.body.approvals[0], { approve: false })],
    })

    expect(third.body.response).toBe('Done.')
    expect(calls).toHaveLength(1)
    expect(server.provider.rejected).toEqual([])
  })

  test('one whose arguments do not fit is answered at once: nobody is asked about a call that fails', async () => {
    const { refund } = refunds()
    const server = await open(
      [refund],
      [toolCall('refund', { order: 7 }), toolCall('refund', '{"order"'), text('I cannot.')],
    )

    const { body } = await server.post(ROUTE, { message: 'Refund it.' })

    expect([body.response, body.status]).toEqual(['I cannot.', undefined])
  })

  test('a rule that throws fails the run, and nothing is carried out', async () => {
    const calls: string[] = []
    const broken = tool({
      name: 'broken',
      description: 'Breaks.',
      parameters: z.object({}),
      needsApproval: () => {
        throw new Error('secret of the rule')
      },
      execute: () => void calls.push('called'),
    })
    const server = await open([broken], [toolCall('broken')])

    const stream = await (await server.stream('/solo/get_response_stream', { message: 'go' })).all()

    expect(stream.events.at(-1)).toMatchObject({ type: 'error', code: 'run_failed' })
    expect([calls, stream.text.includes('secret of the rule')]).toEqual([[], false])
  })
})

test('a run that is cancelled after its turn does not wait for a call', async () => {
  const { refund, calls } = refunds()
  const gate = Promise.withResolvers<string>()
  const began = Promise.withResolvers<void>()
  const look = tool({
    name: 'look',
    description: 'Looks.',
    parameters: z.object({}),
    execute: () => {
      began.resolve()
      return gate.promise
    },
  })
  const server = await open([refund, look], [[call(250), toolCall('look')], text('Never.')])
  const stream = await server.stream(`${ROUTE}_stream`, { message: 'go' })
  await stream.until(({ event }) => event === 'meta')
  await began.promise

  const accepted = server.handled('/solo/cancel_response_stream')
  const cancelling = server.post('/solo/cancel_response_stream', { run_id: stream.runId, cancel_mode: 'after_turn' })
  await accepted
  gate.resolve('seen')
  await stream.all()

  expect((await cancelling).body).toMatchObject({ cancelled: true })
  expect(stream.result).toMatchObject({ cancelled: true })
  expect(stream.result).not.toHaveProperty('approvals')
  expect([calls.length, server.provider.modelRequests.length]).toEqual([0, 1])
})

describe('which tools ask', () => {
  class Careful extends Tool {
    override readonly description = 'Asks.'
    override readonly parameters = z.object({})
    override readonly needsApproval = true
    override run(): string {
      return 'done'
    }
  }
  const always = tool({
    name: 'always',
    description: 'Asks.',
    parameters: z.object({}),
    needsApproval: true,
    execute: () => 'done',
  })
  const ofSdk = sdkTool({
    name: 'of_sdk',
    description: 'Asks.',
    parameters: z.object({}),
    needsApproval: true,
    execute: () => 'done',
  })

  test.each<[string, AnyTool]>([
    ['Careful', Careful],
    ['always', always],
    ['of_sdk', ofSdk],
  ])('%s', async (name, careful) => {
    const server = await open([careful], [toolCall(name), text('Done.')])
    const { chat_history, approvals } = await ask(server)
    expect(approvals).toMatchObject([{ tool: name, arguments: '{}' }])

    const { body } = await server.post(ROUTE, { chat_history, approvals: [decision(approvals[0])] })

    expect([body.response, outputsOf(body.new_messages)]).toEqual(['Done.', ['done']])
  })

  test.each([
    [{ needsApproval: 'yes' }, /tool "x": needsApproval: must be true, false, a function, or \{ when, edit: true \}/],
    [{ needsApproval: { edit: true } }, /needsApproval/],
  ])('%o is refused when the tool is made', (options, words) => {
    const make = (): unknown =>
      tool({ name: 'x', description: '', parameters: z.object({}), execute: () => '', ...options } as never)
    expect(make).toThrow(words)
  })
})

describe('changed arguments', () => {
  const changed = { approve: true, arguments: { order: 7, amount: 120 } }

  test('replace the whole: the tool gets them, the model reads of it, and its own call stays as it was', async () => {
    const { refund, calls } = refunds({ edit: true })
    const server = await open([refund], [call(250), text('Done.')])
    const { chat_history, approvals } = await ask(server)
    expect(approvals[0].edit).toBe(true)

    const { body } = await server.post(ROUTE, { chat_history, approvals: [decision(approvals[0], changed)] })

    expect(calls).toEqual([{ order: 7, amount: 120 }])
    expect(outputsOf(body.new_messages)).toEqual([
      'A person changed the arguments to {"order":7,"amount":120}.\npaid 120 back',
    ])
    const sent = server.provider.modelRequests[1]!.items.find(({ type }: Json) => type === 'function_call') as Json
    expect(sent.arguments).toBe('{"order":7,"amount":250}')
  })

  test('that are the ones of the call are no change', async () => {
    const { refund } = refunds({ edit: true })
    const server = await open([refund], [call(250), text('Done.')])
    const { chat_history, approvals } = await ask(server)
    const same = decision(approvals[0], { approve: true, arguments: { amount: 250, order: 7 } })

    const { body } = await server.post(ROUTE, { chat_history, approvals: [same] })

    expect(outputsOf(body.new_messages)).toEqual(['paid 250 back'])
  })

  test('may be JSON text', async () => {
    const { refund, calls } = refunds({ edit: true })
    const server = await open([refund], [call(250), text('Done.')])
    const { chat_history, approvals } = await ask(server)
    const answer = decision(approvals[0], { approve: true, arguments: '{"order":8,"amount":1}' })

    await server.post(ROUTE, { chat_history, approvals: [answer] })

    expect(calls).toEqual([{ order: 8, amount: 1 }])
  })

  test.each<[string, boolean, object, RegExp]>([
    [
      'of a tool that does not allow it',
      false,
      changed,
      /approvals\.0\.arguments: the arguments of this call cannot be changed/,
    ],
    [
      'that do not fit the tool',
      true,
      { approve: true, arguments: { order: 'x' } },
      /approvals\.0\.arguments: .*refund.*order/s,
    ],
    ['that are not JSON', true, { approve: true, arguments: '{' }, /approvals\.0\.arguments: must be an object/],
    [
      'that are nested too deep',
      true,
      { approve: true, arguments: `{"order":7,"amount":1,"x":${'['.repeat(100_000)}${']'.repeat(100_000)}}` },
      /approvals\.0\.arguments: must be an object/,
    ],
    [
      'of a call that is rejected',
      true,
      { ...changed, approve: false },
      /approvals\.0\.arguments: a call that is rejected/,
    ],
  ])('422 %s; the token is still good', async (_, edit, answer, words) => {
    const { refund, calls } = refunds({ edit })
    const server = await open([refund], [call(250), text('Done.')])
    const { chat_history, approvals } = await ask(server)

    const refused = await server.post(ROUTE, { chat_history, approvals: [decision(approvals[0], answer)] })
    const { status } = await server.post(ROUTE, { chat_history, approvals: [decision(approvals[0])] })

    expect([refused.status, status]).toEqual([422, 200])
    expect(refused.body.error).toMatch(words)
    expect(calls).toEqual([{ order: 7, amount: 250 }])
  })
})

describe('a token', () => {
  test('is good once, also for two requests at once and after a restart', async () => {
    const { refund, calls } = refunds()
    const folder = await temporaryFolder()
    const env = { BUREAU_APPROVALS_PATH: folder }
    const server = await open([refund], [call(250)], env)
    server.provider.respond(() => text('Done.'))
    const { chat_history, approvals } = await ask(server)
    const body = { chat_history, approvals: [decision(approvals[0])] }

    const both = await Promise.all([server.post(ROUTE, body), server.post(ROUTE, body)])
    const later = await open([refund], [text('Done.')], env)
    const again = await later.post(ROUTE, body)

    expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 422])
    expect([again.status, again.body.error]).toEqual([422, expect.stringMatching(/approvals\.0\.token: .*good once/)])
    expect(again.body.detail[0]).toMatchObject({ type: 'approval_used', loc: ['body', 'approvals', 0, 'token'] })
    expect(calls).toHaveLength(1)
  })

  test('works after a restart, by the secret or by the key that was made', async () => {
    const { refund, calls } = refunds()
    const folder = await temporaryFolder()
    for (const secret of [SECRET, '']) {
      const env = { BUREAU_APPROVALS_PATH: folder, BUREAU_SECRET: secret }
      const server = await open([refund], [call(250)], env)
      const { chat_history, approvals } = await ask(server)
      const later = await open([refund], [text('Done.')], env)

      const { status } = await later.post(ROUTE, { chat_history, approvals: [decision(approvals[0])] })

      expect(status).toBe(200)
    }
    expect(calls).toHaveLength(2)
  })

  test('of an earlier secret works as long as the secret is named', async () => {
    const { refund } = refunds()
    const server = await open([refund], [call(250)])
    const { chat_history, approvals } = await ask(server)
    const body = { chat_history, approvals: [decision(approvals[0])] }
    const other = 'another secret that is long enough too'

    const without = await (await open([refund], [], { BUREAU_SECRET: other })).post(ROUTE, body)
    const rotated = await (
      await open([refund], [text('Done.')], { BUREAU_SECRET: `${other},${SECRET}` })
    ).post(ROUTE, body)

    expect([without.status, rotated.status]).toEqual([422, 200])
  })

  test('422 when it was made up, changed or cut', async () => {
    const { refund, calls } = refunds()
    const server = await open([refund], [call(250)])
    const { chat_history, approvals } = await ask(server)
    const { token } = approvals[0]
    const flipped = `${token.slice(0, 90)}${token[90] === 'A' ? 'B' : 'A'}${token.slice(91)}`

    for (const bad of ['', 'x', '{}', token.slice(0, -4), `${token}AAAA`, `${token}=`, flipped]) {
      const { status, body } = await server.post(ROUTE, {
        chat_history,
        approvals: [{ call_id: 'call_r', approve: true, token: bad }],
      })
      expect([status, body.detail[0].loc]).toEqual([422, ['body', 'approvals', 0, 'token']])
    }
    expect(calls).toEqual([])
  })

  test('422 when it belongs to another agency', async () => {
    const { refund } = refunds()
    const folder = await temporaryFolder()
    const { solo } = soloAgency({ tools: [refund] })
    const server = await startTestServer({
      agencies: { solo, other: solo },
      env: { BUREAU_SECRET: SECRET, BUREAU_APPROVALS_PATH: folder },
    })
    server.provider.script([call(250)])
    const { chat_history, approvals } = await ask(server)

    const { status } = await server.post('/other/get_response', { chat_history, approvals: [decision(approvals[0])] })

    expect(status).toBe(422)
  })

  test('422 once it has expired', async () => {
    const { refund } = refunds()
    const folder = await temporaryFolder()
    const server = await startTestServer({
      agencies: soloAgency({ tools: [refund] }),
      approvalMs: 1,
      env: { BUREAU_SECRET: SECRET, BUREAU_APPROVALS_PATH: folder },
    })
    server.provider.script([call(250)])
    const { chat_history, approvals } = await ask(server)
    await expect.poll(() => Date.now()).toBeGreaterThan(Date.parse(approvals[0].expires_at))

    const { status, body } = await server.post(ROUTE, { chat_history, approvals: [decision(approvals[0])] })

    expect([status, body.detail[0].type]).toEqual([422, 'approval_expired'])
  })

  test.each<[string, (history: Json[]) => Json[], RegExp]>([
    [
      'without the call',
      (history) => history.filter(({ type }) => type !== 'function_call'),
      /call_id: .*does not hold the call/,
    ],
    [
      'with other arguments',
      (history) =>
        history.map((item) =>
          item.type === 'function_call' ? { ...item, arguments: '{"order":7,"amount":9000}' } : item,
        ),
      /call_id: .*not the one that was asked about/,
    ],
    [
      'with another tool',
      (history) => history.map((item) => (item.type === 'function_call' ? { ...item, name: 'other' } : item)),
      /call_id: .*not the one/,
    ],
    [
      'that has the output already',
      (history) => [...history, { type: 'function_call_output', call_id: 'call_r', output: 'paid' }],
      /the call has its output/,
    ],
  ])('422 with a history %s', async (_, change, words) => {
    const { refund, calls } = refunds()
    const server = await open([refund], [call(250)])
    const { chat_history, approvals } = await ask(server)

    const { status, body } = await server.post(ROUTE, {
      chat_history: change(chat_history),
      approvals: [decision(approvals[0])],
    })

    expect([status, body.error]).toEqual([422, expect.stringMatching(words)])
    expect(calls).toEqual([])
  })

  test('422 for another call than its own, or for one call twice', async () => {
    const { refund, calls } = refunds()
    const server = await open([refund], [[call(250, 'call_1'), call(300, 'call_2')]])
    const { chat_history, approvals } = await ask(server)
    const swapped = { ...decision(approvals[0]), call_id: 'call_2' }

    const other = await server.post(ROUTE, { chat_history, approvals: [swapped] })
    const twice = await server.post(ROUTE, {
      chat_history,
      approvals: [decision(approvals[0]), decision(approvals[0])],
    })

    expect([other.status, twice.status]).toEqual([422, 422])
    expect(other.body.detail[0].loc).toEqual(['body', 'approvals', 0, 'call_id'])
    expect(twice.body.detail[0].loc).toEqual(['body', 'approvals', 1, 'token'])
    expect(calls).toEqual([])
  })

  test('422 for the calls of two runs in one request', async () => {
    const { refund, calls } = refunds()
    const server = await open([refund], [call(250, 'call_1'), call(300, 'call_2'), text('Done.')])
    const one = await ask(server)
    const other = await ask(server)
    const chat_history = [...one.chat_history, ...other.chat_history]

    const both = [...one.approvals, ...other.approvals].map((each) => decision(each))
    const { status, body } = await server.post(ROUTE, { chat_history, approvals: both })
    const alone = await server.post(ROUTE, { chat_history: one.chat_history, approvals: [both[0]] })

    expect([status, body.detail[0].loc]).toEqual([422, ['body', 'approvals', 1, 'token']])
    expect(body.detail[0].msg).toContain('another run')
    expect([alone.status, calls.length]).toEqual([200, 1])
  })

  test('is not used up by a request that the server has no room for', async () => {
    const { refund, calls } = refunds()
    const folder = await temporaryFolder()
    const gate = new Gate()
    const server = await startTestServer({
      agencies: soloAgency({ tools: [refund] }),
      maxConcurrentRuns: 1,
      env: { BUREAU_SECRET: SECRET, BUREAU_APPROVALS_PATH: folder },
    })
    server.provider.script([call(250), [hold(gate, { before: 'headers' }), text('Busy.')], text('Done.')])
    const { chat_history, approvals } = await ask(server)
    const busy = server.post(ROUTE, { message: 'hi' })
    await gate.reached()
    const body = { chat_history, approvals: [decision(approvals[0])] }

    const full = await server.post(ROUTE, body)
    gate.release()
    await busy
    const { status } = await server.post(ROUTE, body)

    expect([full.status, status]).toEqual([503, 200])
    expect(calls).toHaveLength(1)
  })

  test('is not used up by a request for which another one could not be claimed', async () => {
    const { refund, calls } = refunds()
    const server = await open([refund], [[call(250, 'call_1'), call(300, 'call_2')], text('Done.')])
    const { chat_history, approvals } = await ask(server)
    const body = { chat_history, approvals: approvals.map((each) => decision(each)) }
    const { link } = fs
    const full = Object.assign(new Error('the disk is full'), { code: 'ENOSPC' })
    vi.spyOn(fs, 'link').mockImplementationOnce(link).mockRejectedValueOnce(full)
    syncBuiltinESMExports()

    const failed = await server.post(ROUTE, body)
    vi.restoreAllMocks()
    syncBuiltinESMExports()
    const { status } = await server.post(ROUTE, body)

    expect([failed.status, status]).toEqual([500, 200])
    expect(calls).toHaveLength(2)
  })

  test('shows nothing of what it holds', async () => {
    const { refund } = refunds()
    const server = await open([refund], [call(250)])
    const { approvals } = await ask(server)

    expect(Buffer.from(approvals[0].token, 'base64url').toString('latin1')).not.toMatch(/refund|call_r|Solo/)
  })
})

describe('agents that ask each other', () => {
  function two() {
    const { refund, calls } = refunds()
    const worker = new Agent({ name: 'Worker', instructions: 'Work.', model: 'gpt-test', tools: [refund] })
    const boss = new Agent({ name: 'Boss', instructions: 'Delegate.', model: 'gpt-test' })
    return { solo: new Agency({ entryPoint: boss, flows: [[boss, worker]] }), calls }
  }
  const delegate = (callId = 'call_m'): Turn =>
    toolCall(
      'send_message',
      { recipient_agent: 'Worker', message: 'Refund it', additional_instructions: '' },
      { callId },
    )

  test('the run waits for a call of the one that was asked, and both go on', async () => {
    const { solo, calls } = two()
    const folder = await temporaryFolder()
    const server = await startTestServer({
      agencies: { solo },
      env: { BUREAU_SECRET: SECRET, BUREAU_APPROVALS_PATH: folder },
    })
    server.provider.script([delegate(), call(250), text('Worker is done.'), text('All is done.')])
    const { chat_history, approvals, body: waiting } = await ask(server)
    expect(waiting.status).toBe('waiting')
    expect(approvals).toMatchObject([{ agent: 'Worker', call_id: 'call_r' }])

    const { body } = await server.post(ROUTE, { chat_history, approvals: [decision(approvals[0])] })
    const next = { message: 'Thanks.', chat_history: [...chat_history, ...body.new_messages] }
    server.provider.script([text('You are welcome.')])
    const last = await server.post(ROUTE, next)

    expect(body.response).toBe('All is done.')
    expect(calls).toEqual([{ order: 7, amount: 250 }])
    expect(outputsOf(body.new_messages)).toEqual(['paid 250 back', 'Worker is done.'])
    expect(last.body.response).toBe('You are welcome.')
    expect(server.provider.rejected).toEqual([])
  })

  test.each<[string, number, (name: string) => string]>([
    ['calls of their own ids', 2, (name) => `call_${name}`],
    ['calls of one id', 2, () => 'call_0'],
    ['calls of one id, which are decided about one after the other', 1, () => 'call_0'],
  ])('two that work at the same time wait together, with %s', async (_which, atOnce, idOf) => {
    const first = refunds()
    const second = refunds()
    const ada = new Agent({ name: 'Ada', instructions: 'Work.', model: 'gpt-test', tools: [first.refund] })
    const bob = new Agent({ name: 'Bob', instructions: 'Work.', model: 'gpt-test', tools: [second.refund] })
    const boss = new Agent({ name: 'Boss', instructions: 'Delegate.', model: 'gpt-test' })
    const folder = await temporaryFolder()
    const server = await startTestServer({
      agencies: {
        solo: new Agency({
          entryPoint: boss,
          flows: [
            [boss, ada],
            [boss, bob],
          ],
        }),
      },
      env: { BUREAU_SECRET: SECRET, BUREAU_APPROVALS_PATH: folder },
    })
    const to = (name: string): Turn =>
      toolCall(
        'send_message',
        { recipient_agent: name, message: `Go ${name}`, additional_instructions: '' },
        { callId: `to_${name}` },
      )
    server.provider.respond(({ lastUserText, toolOutputs, items }) => {
      const isNested = lastUserText.startsWith('Go ')
      if (isNested && toolOutputs.length === 0)
        return call(lastUserText.endsWith('Ada') ? 250 : 300, idOf(lastUserText.slice(3)))
      if (isNested) return text(`${lastUserText.slice(3)}: ${toolOutputs[0]!.output}`)
      return items.length === 1 ? [to('Ada'), to('Bob')] : text(toolOutputs.map(({ output }) => output).join(' / '))
    })
    let { body, chat_history, approvals } = await ask(server)
    expect(new Set(approvals.map((each) => each.agent))).toEqual(new Set(['Ada', 'Bob']))

    while (approvals.length > 0) {
      const decided = approvals.slice(0, atOnce).map((each) => {
        return decision(each, { approve: each.agent === 'Ada', reason: 'no' })
      })
      ;({ body } = await server.post(ROUTE, { chat_history, approvals: decided }))
      chat_history = [...chat_history, ...body.new_messages]
      approvals = body.approvals ?? []
    }

    expect(body.response).toBe('Ada: paid 250 back / Bob: Not carried out: a person rejected this call. Reason: no')
    expect([first.calls.length, second.calls.length]).toEqual([1, 0])
    expect(server.provider.rejected).toEqual([])
  })

  test('a handoff beside a call that waits happens once the call is decided', async () => {
    const { refund } = refunds()
    const support = new Agent({ name: 'Support', instructions: 'Help.', model: 'gpt-test' })
    const desk = new Agent({
      name: 'Desk',
      instructions: 'Greet.',
      model: 'gpt-test',
      tools: [refund],
      handoffs: [support],
    })
    const folder = await temporaryFolder()
    const server = await startTestServer({
      agencies: { solo: new Agency({ entryPoint: desk, agents: [support] }) },
      env: { BUREAU_SECRET: SECRET, BUREAU_APPROVALS_PATH: folder },
    })
    server.provider.script([[call(250), toolCall('transfer_to_Support')], text('Hello from Support.')])
    const { chat_history, approvals } = await ask(server)
    expect(chat_history.map(({ type }) => type)).toEqual(['message', 'function_call', 'function_call'])

    const { body } = await server.post(ROUTE, { chat_history, approvals: [decision(approvals[0])] })

    expect(body.response).toBe('Hello from Support.')
    expect(body.new_messages.at(-1)).toMatchObject({ agent: 'Support' })
    expect(server.provider.rejected).toEqual([])
  })
})

describe('tool servers', () => {
  const listing = async (
    requireApproval: 'always' | 'never' | string[],
    script: readonly Turn[],
    more: Pick<MCPServerStreamableHttpOptions, 'toolFilter'> & { readonly lines?: string[] } = {},
  ) => {
    const { lines = [], ...options } = more
    const tools = await startHttpToolServer()
    closeAfterTest(() => tools.close())
    const server = await startTestServer({
      agencies: soloAgency({
        mcpServers: [new MCPServerStreamableHttp({ url: tools.url, name: 'tools', requireApproval, ...options })],
      }),
      env: { BUREAU_SECRET: SECRET, BUREAU_APPROVALS_PATH: await temporaryFolder() },
      logLevel: 'warn',
      logDestination: { write: (line: string) => void lines.push(line) },
    })
    server.provider.script(script)
    return server
  }

  test('names that the server does not have are warned of once, for they protect nothing', async () => {
    const lines: string[] = []
    const toolFilter = { blockedToolNames: ['delete'] }
    const server = await listing(['greet', 'greeet'], [text('One.'), text('Two.')], { lines, toolFilter })

    await ask(server, 'Hi.')
    await ask(server, 'Hi.')
    await server.get('/solo/get_metadata')

    expect(lines.map((line) => JSON.parse(line).msg).filter((message) => message.includes('tool server'))).toEqual([
      'tool server "tools": requireApproval names "greeet", which protects nothing: the tools there are "greet"',
      'tool server "tools": toolFilter.blockedToolNames names "delete", which protects nothing: the tools there are "greet"',
    ])
  })

  test.each<['always' | 'never' | string[], string | undefined]>([
    ['always', 'waiting'],
    ['never', undefined],
    [['greet'], 'waiting'],
    [['another'], undefined],
  ])('requireApproval %o', async (requireApproval, status) => {
    const server = await listing(requireApproval, [toolCall('greet', { name: 'Ada' }), text('Done.')])

    const { body, chat_history, approvals } = await ask(server)

    expect(body.status).toBe(status)
    if (status === undefined) return
    expect(approvals).toMatchObject([{ tool: 'greet', edit: false }])
    const { body: done } = await server.post(ROUTE, { chat_history, approvals: [decision(approvals[0])] })
    expect(done.response).toBe('Done.')
    expect(JSON.stringify(outputsOf(done.new_messages))).toContain('Hello Ada, from the tool server')
  })

  test('of the provider: its request is answered with the next one, and everything stays in the history', async () => {
    const docs = hostedMcpTool({
      serverLabel: 'docs',
      serverUrl: 'https://docs.example/mcp',
      requireApproval: 'always',
    })
    const server = await open(
      [docs],
      [
        mcpApprovalRequest('docs', 'delete', { id: 7 }),
        [mcpCall({ server: 'docs', name: 'delete', output: 'gone' }), text('Deleted.')],
        text('Yes.'),
      ],
    )
    const stream = await (await server.stream('/solo/get_response_stream', { message: 'Delete it.' })).all()
    expect(stream.outline.slice(-3)).toEqual(['approval_requested', 'messages', 'end'])
    const { new_messages: chat_history, approvals } = stream.result
    expect(approvals).toMatchObject([{ tool: 'delete', arguments: '{"id":7}', edit: false }])

    const { body } = await server.post(ROUTE, { chat_history, approvals: [decision(approvals[0])] })
    const whole = [...chat_history, ...body.new_messages]
    const next = await server.post(ROUTE, { message: 'Sure?', chat_history: whole })

    expect(body.response).toBe('Deleted.')
    const given = server.provider.modelRequests[1]!.items.at(-1)
    expect(given).toMatchObject({
      type: 'mcp_approval_response',
      approve: true,
      approval_request_id: approvals[0].call_id,
    })
    expect(whole.map(({ type, role }) => role ?? type)).toEqual([
      'user',
      'mcp_approval_request',
      'mcp_approval_response',
      'mcp_call',
      'assistant',
    ])
    expect(next.body.response).toBe('Yes.')
    expect(server.provider.rejected).toEqual([])
  })

  test('of the provider, rejected or left: the provider reads it', async () => {
    const docs = hostedMcpTool({
      serverLabel: 'docs',
      serverUrl: 'https://docs.example/mcp',
      requireApproval: 'always',
    })
    const server = await open(
      [docs],
      [
        mcpApprovalRequest('docs', 'delete'),
        text('As you like.'),
        mcpApprovalRequest('docs', 'delete'),
        text('All right.'),
      ],
    )
    const first = await ask(server)
    const no = decision(first.approvals[0], { approve: false, reason: 'Keep it.' })
    const rejected = await server.post(ROUTE, { chat_history: first.chat_history, approvals: [no] })
    const second = await ask(server)
    const left = await server.post(ROUTE, { message: 'Never mind.', chat_history: second.chat_history })

    expect([rejected.body.response, left.body.response]).toEqual(['As you like.', 'All right.'])
    const answers = [1, 3].map((at) =>
      server.provider.modelRequests[at]!.items.find(({ type }: Json) => type === 'mcp_approval_response'),
    )
    expect(answers).toMatchObject([{ approve: false, reason: 'Keep it.' }, { approve: false }])
    expect(server.provider.rejected).toEqual([])
  })
})

test('toolUseBehavior: what the approved call returns is the answer, where the agent stops at its tools', async () => {
  const { refund } = refunds()
  const server = await startTestServer({
    agencies: soloAgency({ tools: [refund], toolUseBehavior: 'stop_on_first_tool' }),
    env: { BUREAU_SECRET: SECRET, BUREAU_APPROVALS_PATH: await temporaryFolder() },
  })
  server.provider.script([call(250), call(250), text('Sorry.')])
  const first = await ask(server)
  const done = await server.post(ROUTE, { chat_history: first.chat_history, approvals: [decision(first.approvals[0])] })
  const second = await ask(server)
  const no = decision(second.approvals[0], { approve: false })
  const rejected = await server.post(ROUTE, { chat_history: second.chat_history, approvals: [no] })

  expect([done.body.response, rejected.body.response]).toEqual(['paid 250 back', 'Sorry.'])
})

test('a run that outlives its client shows the request to whoever comes back', async () => {
  const { refund } = refunds()
  const server = await open([refund], [call(250), text('Done.')])
  const body = { message: 'Refund it.', on_disconnect: 'continue' }
  const stream = await (await server.stream('/solo/get_response_stream', body)).all()

  const again = await server.get(`/solo/runs/${stream.runId}/events?starting_after=0`)

  expect(again.text).toContain('event: approval_requested')
  expect(stream.result).toMatchObject({ status: 'waiting' })
  const { new_messages: chat_history, approvals } = stream.result
  const done = await server.post(ROUTE, { chat_history, approvals: [decision(approvals[0])] })
  expect(done.body.response).toBe('Done.')
})

test('input guardrails check a message that comes with a decision', async () => {
  const { refund, calls } = refunds()
  const seen: string[] = []
  const server = await startTestServer({
    agencies: soloAgency({
      tools: [refund],
      inputGuardrails: [
        {
          name: 'no secrets',
          execute: async ({ input }) => {
            const last = JSON.stringify(input.at(-1))
            seen.push(last)
            return { tripwireTriggered: last.includes('password'), outputInfo: 'Never send passwords.' }
          },
        },
      ],
    }),
    env: { BUREAU_SECRET: SECRET, BUREAU_APPROVALS_PATH: await temporaryFolder() },
  })
  server.provider.script([call(250)])
  const { chat_history, approvals } = await ask(server)

  const { body } = await server.post(ROUTE, {
    message: 'My password is 1234.',
    chat_history,
    approvals: [decision(approvals[0])],
  })

  expect([body.response, calls.length]).toEqual(['Never send passwords.', 1])
  expect(seen).toHaveLength(2)
})
