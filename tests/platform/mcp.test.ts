import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { describe, expect, test } from 'vitest'
import { Agency, Agent } from '@bureau/framework'
import { z } from 'zod'
import { pay } from '../support/conversations.ts'
import { hold, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import { closeAfterTest } from '../support/test-server.ts'
import type { Json, TestClient } from './support/test-client.ts'
import { servePlatform } from './support/test-platform.ts'

const REVISIONS = [
  ['2026-07-28', { pin: '2026-07-28' }],
  ['2025-11-25', 'legacy'],
] as const

async function connect(owner: TestClient, mode: (typeof REVISIONS)[number][1], token = owner.token): Promise<Client> {
  const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } })
  const requestInit = { headers: { authorization: `Bearer ${token}` } }
  await client.connect(new StreamableHTTPClientTransport(new URL(`${owner.url}/mcp`), { requestInit }))
  closeAfterTest(() => client.close())
  return client
}

const call = (owner: TestClient, message: string, thread_id?: string) => ({
  name: `ask_${owner.integrationId.toLowerCase()}`,
  arguments: { message, ...(thread_id && { thread_id }) },
})

describe.each(REVISIONS)('a platform that is full, for an MCP client of revision %s', (_, mode) => {
  const platform = servePlatform('pglite', { config: { maxActiveRuns: 1 } })

  test('lets it connect, and says so in the result of a call', async () => {
    const owner = await platform.client()
    const gate = platform.provider.gate()
    platform.provider.script([textDeltas(['a', hold(gate), 'b'])])
    const active = await owner.complete()
    await active.untilText('"delta":"a"')

    const client = await connect(owner, mode)
    const { tools } = await client.listTools()
    const refused = await client.callTool(call(owner, 'hi'))
    gate.release()
    await active.all()

    expect(tools).toHaveLength(1)
    expect(refused).toMatchObject({ isError: true, _meta: { 'bureau/code': 'overloaded' } })
  })
})

describe.each(REVISIONS)('the platform for an MCP client of revision %s', (_, mode) => {
  const platform = servePlatform('pglite')

  test('offers the owner’s integrations as tools; their threads are chats', async () => {
    const owner = await platform.client()
    platform.provider.script([text('Paris.'), text('Two million.')])
    const client = await connect(owner, mode)

    const { tools } = await client.listTools()
    const first = (await client.callTool(call(owner, 'The capital of France?'))) as Json
    const { thread_id, run_id } = first.structuredContent
    const second = (await client.callTool(call(owner, 'How many people?', thread_id))) as Json

    expect(tools.map(({ name, title }) => [name, title])).toEqual([[call(owner, '').name, 'Shop']])
    expect([first, second].map(({ structuredContent }) => structuredContent.answer)).toEqual(['Paris.', 'Two million.'])
    expect(second.structuredContent.thread_id).toBe(thread_id)
    const messages = await owner.get(`/v1/chats/${thread_id}/messages`)
    expect(messages.body.data).toHaveLength(4)
    expect((await owner.get(`/v1/runs/${run_id}`)).body).toMatchObject({ status: 'completed', chatId: thread_id })
  })

  test('keeps owners and consumers apart', async () => {
    const [owner, stranger] = [await platform.client(), await platform.client()]
    platform.provider.respond(() => text('Hi.'))
    const { thread_id } = ((await (await connect(owner, mode)).callTool(call(owner, 'hi'))) as Json).structuredContent
    const { body } = await owner.post('/v1/consumer_tokens', {
      apiIntegrationId: owner.integrationId,
      consumerId: 'ada',
    })
    const ada = await connect(owner, mode, body.token)

    const foreign = await (await connect(stranger, mode)).callTool(call(stranger, 'hi', thread_id))
    const ofOwner = await ada.callTool(call(owner, 'hi', thread_id))
    const madeUp = await ada.callTool(call(owner, 'hi', 'none'))
    const own = (await ada.callTool(call(owner, 'hi'))) as Json

    for (const answer of [foreign, ofOwner, madeUp]) {
      expect(answer).toMatchObject({ isError: true, _meta: { 'bureau/code': 'thread_not_found' } })
    }
    const run = await owner.get(`/v1/runs/${own.structuredContent.run_id}`)
    expect(run.body.consumerId).toBe('ada')
  })

  test('a client that hangs up ends its run', async () => {
    const owner = await platform.client()
    const gate = platform.provider.gate()
    platform.provider.respond(() => textDeltas(['Hello ', hold(gate)]))
    const client = await connect(owner, mode)
    client.callTool(call(owner, 'hi')).catch(() => {}) // It is hung up on.
    await gate.reached()

    await client.close()

    await platform.provider.waitForAborts(1)
    await expect.poll(async () => (await owner.get('/v1/runs')).body.data[0].status).toBe('cancelled')
  })

  test('refuses who has no key, in the shape of the protocol', async () => {
    const owner = await platform.client()

    const answer = await owner.with({ token: 'wrong' }).fetch('POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'ping' })

    expect(answer.status).toBe(401)
    expect(await answer.json()).toMatchObject({ jsonrpc: '2.0', error: { data: { code: 'invalid_api_key' } } })
  })

  test.each([
    ['what is not JSON', '{', -32700],
    ['nothing', '', -32700],
    ['a batch', [], -32600],
    ['a number', '5', -32600],
    ['null', 'null', -32600],
  ])('refuses %s as JSON-RPC has it', async (_, body, code) => {
    const owner = await platform.client()
    const headers = { accept: 'application/json, text/event-stream' }

    const answers = [
      await owner.fetch('POST', '/mcp', body, { headers }),
      await owner.fetch('POST', `/a2a/${owner.integrationId}`, body, { headers: { 'a2a-version': '1.0' } }),
    ]

    for (const answer of answers) {
      expect(await answer.json()).toMatchObject({ jsonrpc: '2.0', id: null, error: { code } })
    }
  })

  test('a consumer’s token may chat here with its scope, and from its pages', async () => {
    const owner = await platform.client()
    platform.provider.respond(() => text('Hi.'))
    const ada = { apiIntegrationId: owner.integrationId, consumerId: 'ada' }
    const tokenFor = async (...scopes: string[]) =>
      owner.with({ token: (await owner.post('/v1/consumer_tokens', { ...ada, scopes })).body.token })
    const [chats, reads] = [await tokenFor('chat'), await tokenFor('read')]
    const headers = { origin: 'https://elsewhere.example.com' }
    const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }

    const answers = [
      await reads.fetch('POST', '/mcp', ping),
      await chats.fetch('POST', '/mcp', ping, { headers }),
      await owner.fetch('POST', '/mcp', ping, { headers }),
    ]

    expect(answers.map(({ status }) => status)).toEqual([403, 403, 403])
    expect((await owner.get('/v1/runs')).body.data).toEqual([])
  })
})

describe('approvals and objects through MCP', () => {
  const outputType = z.object({ paid: z.number() })
  const clerk = new Agent({ name: 'Clerk', instructions: 'Help.', model: 'gpt-test', tools: [pay], outputType })
  const platform = servePlatform('pglite', { agencies: { shop: new Agency({ name: 'Shop', entryPoint: clerk }) } })

  const script = (): void =>
    platform.provider.script([toolCall('pay', { euros: 5 }, { callId: 'call_p' }), text('{"paid":5}')])

  async function asking(owner: TestClient, answer: () => Promise<object>): Promise<Client> {
    const client = new Client(
      { name: 'test', version: '1.0.0' },
      { versionNegotiation: { mode: { pin: '2026-07-28' } }, capabilities: { elicitation: {} } },
    )
    client.setRequestHandler('elicitation/create', answer as never)
    const requestInit = { headers: { authorization: `Bearer ${owner.token}` } }
    await client.connect(new StreamableHTTPClientTransport(new URL(`${owner.url}/mcp`), { requestInit }))
    closeAfterTest(() => client.close())
    return client
  }

  const call = (owner: TestClient) => ({
    name: `ask_${owner.integrationId.toLowerCase()}`,
    arguments: { message: 'Pay.' },
  })

  const onlyRun = async (owner: TestClient): Promise<Json> => (await owner.get('/v1/runs')).body.data[0]

  test('a key that may decide is asked, and the same run answers, with an object', async () => {
    const owner = await platform.client()
    script()
    const client = await asking(owner, async () => {
      expect((await onlyRun(owner)).status).toBe('waiting')
      return { action: 'accept', content: { approve: true } }
    })

    const result = (await client.callTool(call(owner))) as Json

    expect(result.structuredContent).toMatchObject({ answer: { paid: 5 } })
    expect(await onlyRun(owner)).toMatchObject({ status: 'completed', runId: result.structuredContent.run_id })
  })

  test('whoever closes the form is told where the run waits', async () => {
    const owner = await platform.client()
    platform.provider.script([toolCall('pay', { euros: 5 }, { callId: 'call_p' })])
    const client = await asking(owner, async () => ({ action: 'cancel' }))

    const result = (await client.callTool(call(owner))) as Json

    const { runId, chatId, status } = await onlyRun(owner)
    expect(result).toMatchObject({ isError: true, _meta: { 'bureau/code': 'approval_required' } })
    expect(result.content[0].text).toMatch(/^Nobody has decided about the call, so it was not carried out\. /)
    for (const told of [runId, chatId, `${owner.url}/v1/runs/${runId}/approvals`]) {
      expect(result.content[0].text).toContain(told)
    }
    expect(status).toBe('waiting')
    await owner.post(`/v1/runs/${runId}/cancel`, {})
  })

  test.each([
    [
      'a key that may not decide',
      async (owner: TestClient) => {
        const { body } = await owner.post('/v1/api_keys', { name: 'weak', scopes: ['runs'] })
        return asking(owner.with({ token: body.token }), async () => ({ action: 'decline' }))
      },
    ],
    ['a client of 2025-11-25', (owner: TestClient) => connect(owner, 'legacy')],
  ])('%s gets the address where the decision is made, and the run waits there', async (_, open) => {
    const owner = await platform.client()
    script()

    const result = (await (await open(owner)).callTool(call(owner))) as Json

    const { runId, status } = await onlyRun(owner)
    expect(result).toMatchObject({ isError: true, _meta: { 'bureau/code': 'approval_required' } })
    expect(result.content[0].text).toContain(` ${owner.url}/v1/runs/${runId}/approvals`)
    expect(status).toBe('waiting')
    const decided = await owner.post(`/v1/runs/${runId}/approvals`, [{ callId: 'call_p', approve: true }])
    expect(decided.status).toBe(200)
    await expect.poll(async () => (await onlyRun(owner)).status).toBe('completed')
  })
})
