import { Agent as SdkAgent, OpenAIResponsesModel, run as runSdk } from '@openai/agents'
import { Agency, Agent, tool } from '@bureau/framework'
import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { editablePay } from '../support/conversations.ts'
import { text, toolCall, type Turn } from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

/** Approvals through `POST /openai/v1/responses` of a self-hosted server. */

const ROUTE = '/openai/v1/responses'

async function open(script: readonly Turn[], openai: object = {}) {
  const { pay, paid } = editablePay()
  const lookUp = tool({
    name: 'look_up',
    description: 'Looks up.',
    parameters: z.object({}),
    execute: () => 'a price of 5',
  })
  const clerk = new Agent({ name: 'Clerk', instructions: 'Help.', model: 'gpt-test', tools: [pay, lookUp] })
  const boss = new Agent({ name: 'Boss', instructions: 'Lead.', model: 'gpt-test' })
  const agencies = {
    solo: new Agency({ name: 'Solo', entryPoint: clerk }),
    shop: new Agency({ name: 'Shop', entryPoint: boss, flows: [[boss, clerk]] }),
  }
  const server = await startTestServer({ agencies, openai })
  server.provider.script(script)
  return { server, paid }
}

const user = (content: string): Json => ({ role: 'user', content })
const call = (euros = 5, callId = 'call_p'): Turn => toolCall('pay', { euros }, { callId })
const answer = (more: object = {}): Json => ({
  type: 'bureau:approval_response',
  call_id: 'call_p',
  approve: true,
  ...more,
})

const ask = async (server: TestServer, body: object): Promise<Json> => {
  const { status, body: response } = await server.post(ROUTE, { model: 'solo', ...body })
  expect(response.error ?? null).toBe(null)
  expect(status).toBe(200)
  return response
}

/** What the model was sent last. */
const sent = ({ provider }: TestServer): Json[] =>
  provider.modelRequests
    .at(-1)!
    .items.map(({ type, role, content, output, name }: Json) => [
      role ?? type,
      output ?? name ?? (typeof content === 'string' ? content : content[0].text),
    ])

describe('a call that waits for a person', () => {
  test('is the last item of a response that is completed, with all that the decision needs', async () => {
    const { server, paid } = await open([call()])

    const { status, output } = await ask(server, { input: 'Pay.' })

    expect(status).toBe('completed')
    expect(output).toEqual([
      // For clients that know no items of ours.
      expect.objectContaining({
        type: 'message',
        content: [expect.objectContaining({ text: 'A person must approve the call pay({"euros":5}) first.' })],
      }),
      {
        type: 'bureau:approval_request',
        id: expect.any(String),
        status: 'completed',
        call_id: 'call_p',
        name: 'pay',
        arguments: '{"euros":5}',
        agent: 'Clerk',
        edit: true,
        expires_at: expect.any(String),
        approvals_url: null,
        token: expect.any(String),
      },
    ])
    expect(paid).toEqual([])
  })

  test('is a message to clients that know no such item, which end there', async () => {
    const { server, paid } = await open([call(), call(), call()])
    const client = new OpenAI({ apiKey: 'any', baseURL: `${server.url}/openai/v1` })

    const result = await runSdk(new SdkAgent({ name: 'Mine', model: new OpenAIResponsesModel(client, 'solo') }), 'Pay.')

    expect(result.finalOutput).toBe('A person must approve the call pay({"euros":5}) first.')
    expect([server.provider.modelRequests.length, paid]).toEqual([1, []])
  })

  test.each([
    ['approved', {}, 'paid 5', [5]],
    ['approved with other arguments', { arguments: { euros: 3 } }, /^A person changed.*\npaid 3$/, [3]],
    ['approved with other arguments as text', { arguments: '{"euros":3}' }, /paid 3$/, [3]],
    ['refused', { approve: false, reason: 'Too much.' }, /rejected.*Too much\.$/, []],
  ])('%s: the conversation that is sent back goes on', async (_, decision, output, done) => {
    const { server, paid } = await open([[toolCall('look_up', {}), call()], text('Done.')])
    const first = await ask(server, { input: 'Pay.' })

    const second = await ask(server, { input: [user('Pay.'), ...first.output, answer(decision)] })

    expect(second.output.map(({ content }: Json) => content[0].text)).toEqual(['Done.'])
    expect(paid).toEqual(done)
    const requests = sent(server)
    expect(requests.map(([kind]) => kind)).toEqual([
      'user',
      'function_call',
      'function_call',
      'function_call_output',
      'function_call_output',
    ])
    expect(requests.map(([, what]) => what)).toContain('a price of 5')
    expect(requests.at(-1)![1]).toMatch(output)
    expect(server.provider.rejected).toEqual([])
  })

  test('goes on by previous_response_id, without its item or token', async () => {
    const { server, paid } = await open([call(), text('Done.')], { keepResponsesMs: 60_000 })
    const first = await ask(server, { input: 'Pay.' })

    const second = await ask(server, { input: [answer()], previous_response_id: first.id })

    expect(second.id).not.toBe(first.id)
    expect(second.output).toMatchObject([{ content: [{ text: 'Done.' }] }])
    expect(paid).toEqual([5])
    expect(sent(server).map(([kind]) => kind)).toEqual(['user', 'function_call', 'function_call_output'])
  })

  test('of an agent that another one has asked goes on as well', async () => {
    const { server, paid } = await open([
      toolCall('send_message', { recipient_agent: 'Clerk', message: 'Pay 5.' }),
      call(),
      text('I have paid.'),
      text('It is paid.'),
    ])
    const first = await ask(server, { model: 'shop', input: 'Pay.' })

    const second = await ask(server, { model: 'shop', input: [user('Pay.'), ...first.output, answer()] })

    expect(second.output).toMatchObject([{ content: [{ text: 'It is paid.' }] }])
    expect(paid).toEqual([5])
    expect(sent(server)).toEqual([
      ['user', 'Pay.'],
      ['function_call', 'send_message'],
      ['function_call_output', 'I have paid.'],
    ])
    expect(server.provider.rejected).toEqual([])
  })

  test('is left behind by a message without a decision', async () => {
    const { server, paid } = await open([call(), text('All right.')])
    const first = await ask(server, { input: 'Pay.' })

    await ask(server, { input: [user('Pay.'), ...first.output, user('Never mind.')] })

    expect(paid).toEqual([])
    expect(server.provider.rejected).toEqual([])
  })

  test('streams what follows on the decision', async () => {
    const { server } = await open([call(), text('Done.')])
    const first = await ask(server, { input: 'Pay.' })

    const body = { model: 'solo', input: [user('Pay.'), ...first.output, answer()], stream: true }
    const stream = await (await server.stream(ROUTE, body)).all()

    const last = JSON.parse(stream.frames.at(-2)!.data)
    expect([last.type, last.response.output[0].content[0].text]).toEqual(['response.completed', 'Done.'])
  })

  test.each([
    ['a token that was made up', { token: 'x' }, 400, 'invalid_request'],
    ['arguments that do not fit', { arguments: { euros: 'x' } }, 400, 'invalid_request'],
    ['arguments that are not JSON', { arguments: '{' }, 400, 'invalid_request'],
    ['no decision', { approve: undefined }, 400, 'missing'],
  ])('%s is refused, and carries nothing out', async (_, decision, status, code) => {
    const { server, paid } = await open([call()])
    const first = await ask(server, { input: 'Pay.' })

    const refused = await server.post(ROUTE, {
      model: 'solo',
      input: [user('Pay.'), ...first.output, answer(decision)],
    })

    expect([refused.status, refused.body.error.code]).toEqual([status, code])
    expect(paid).toEqual([])
  })

  test('arguments that are nested too deep to be written are refused', async () => {
    const file = tool({
      name: 'file',
      description: 'Files.',
      parameters: z.object({ note: z.any() }),
      needsApproval: { when: true, edit: true },
      execute: () => 'filed',
    })
    const server = await startTestServer({ agencies: soloAgency({ tools: [file] }) })
    server.provider.script([toolCall('file', { note: 1 }, { callId: 'call_p' })])
    const first = await ask(server, { input: 'File it.' })
    const given = `{"note":${'['.repeat(100_000)}${']'.repeat(100_000)}}`

    const input = [user('File it.'), ...first.output, answer({ arguments: given })]
    const { status, body } = await server.post(ROUTE, { model: 'solo', input })

    expect([status, body.error.code]).toEqual([400, 'invalid_request'])
  })

  test('a decision without the request that it belongs to says what to send', async () => {
    const { server } = await open([call()])
    await ask(server, { input: 'Pay.' })

    const refused = await server.post(ROUTE, { model: 'solo', input: [user('Pay.'), answer()] })

    expect(refused.status).toBe(400)
    expect(refused.body.error.message).toContain('did not come along')
  })

  test('is decided about once', async () => {
    const { server, paid } = await open([call(), text('Done.')])
    const first = await ask(server, { input: 'Pay.' })
    const input = [user('Pay.'), ...first.output, answer()]
    await ask(server, { input })

    const again = await server.post(ROUTE, { model: 'solo', input })

    expect([again.status, again.body.error.code]).toEqual([409, 'approval_decided'])
    expect(paid).toEqual([5])
  })

  test('fails the run through Chat Completions, which has no way to ask', async () => {
    const { server } = await open([call()])

    const { status, body } = await server.post('/openai/v1/chat/completions', {
      model: 'solo',
      messages: [user('Pay.')],
    })

    expect([status, body.error.type, body.error.code]).toEqual([400, 'invalid_request_error', 'approval_required'])
    expect(body.error.message).toContain('Responses')
  })
})
