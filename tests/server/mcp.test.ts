import { Agency, Agent, tool } from '@bureau/framework'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { jwtAuthenticate } from '@bureau/server'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { editablePay } from '../support/conversations.ts'
import { hold, status, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import { closeAfterTest, type Json, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

const REVISIONS = [
  ['2026-07-28', { pin: '2026-07-28' }],
  ['2025-11-25', 'legacy'],
] as const

type Mode = (typeof REVISIONS)[number][1]

async function connect(server: TestServer, mode: Mode = { pin: '2026-07-28' }, headers: Record<string, string> = {}) {
  const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } })
  await client.connect(new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`), { requestInit: { headers } }))
  closeAfterTest(() => client.close())
  return client
}

const ask = (message: string, thread_id?: string, name = 'ask_solo') => ({
  name,
  arguments: { message, ...(thread_id !== undefined && { thread_id }) },
})

const double = tool({
  name: 'double',
  description: 'Doubles a number.',
  parameters: z.object({ number: z.number() }),
  execute: ({ number }) => {
    if (number > 1_000) throw new Error('secret of the tool')
    return { doubled: number * 2 }
  },
})

/** A request as a client writes it that knows the revision of 2026. */
const raw = (method: string, params: object = {}) => ({
  jsonrpc: '2.0',
  id: 1,
  method,
  params: {
    ...params,
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    },
  },
})

const rawHeaders = (method: string, name?: string) => ({
  accept: 'application/json, text/event-stream',
  'mcp-protocol-version': '2026-07-28',
  'mcp-method': method,
  ...(name !== undefined && { 'mcp-name': name }),
})

describe.each(REVISIONS)('a client of revision %s', (_, mode) => {
  test('finds each agency as a tool, and the tools of the server', async () => {
    const helper = new Agent({ name: 'Helper', description: 'Knows everything about orders.', model: 'gpt-test' })
    const { solo } = soloAgency()
    const agencies = { 'Big~Shop': new Agency({ name: 'Shop', entryPoint: helper }), solo }
    const client = await connect(await startTestServer({ agencies, tools: [double] }), mode)

    const { tools } = await client.listTools()

    expect(tools.map(({ name }) => name)).toEqual(['ask_big_shop', 'ask_solo', 'double'])
    expect(tools[0]).toMatchObject({
      title: 'Shop',
      description: 'Sends a message to "Shop" and returns its answer. Knows everything about orders.',
      inputSchema: { type: 'object', required: ['message'] },
      outputSchema: { type: 'object' },
    })
    expect(tools[2]).toMatchObject({ description: 'Doubles a number.', inputSchema: { required: ['number'] } })
    expect(JSON.stringify(tools)).not.toContain('secret instructions')
    expect(client.getServerVersion()).toMatchObject({ name: 'bureau' })
    expect(client.getInstructions()).toContain('thread_id')
  })

  test('asks an agency, and goes on in the thread of the answer', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Paris.'), text('Two million.')])
    const client = await connect(server, mode)

    const first = (await client.callTool(ask('The capital of France?'))) as Json
    const { thread_id } = first.structuredContent
    const second = (await client.callTool(ask('How many people?', thread_id))) as Json

    expect(first.content[0]).toEqual({ type: 'text', text: 'Paris.' })
    expect(first.content[1].text).toContain(thread_id)
    expect(first.structuredContent).toMatchObject({
      answer: 'Paris.',
      run_id: expect.any(String),
      usage: { request_count: 1, total_tokens: expect.any(Number) },
    })
    expect(second.structuredContent).toMatchObject({ answer: 'Two million.', thread_id })
    expect(JSON.stringify(server.provider.modelRequests[1]!.body)).toMatch(
      /The capital of France\?.*Paris\..*How many people\?/s,
    )
  })

  test('gets an object where the agency answers with one', async () => {
    const { solo } = soloAgency({ outputType: z.object({ capital: z.string() }) })
    const server = await startTestServer({ agencies: { solo } })
    server.provider.script([text('{"capital":"Paris"}')])

    const answer = (await (await connect(server, mode)).callTool(ask('France?'))) as Json

    expect(answer.structuredContent.answer).toEqual({ capital: 'Paris' })
    expect(answer.content[0].text).toBe('{"capital":"Paris"}')
  })

  test('sees what happens meanwhile, when it wants to', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [double] }) })
    server.provider.script([toolCall('double', { number: 2 }), text('Four.')])
    const client = await connect(server, mode)
    const steps: (string | undefined)[] = []

    await client.callTool(ask('Twice two?'), { onprogress: ({ message }) => void steps.push(message) })

    expect(steps).toContain('Solo works on it.')
  })

  test('sees the last of several steps that come at once, while it goes on', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [double] }) })
    const gate = server.provider.gate()
    server.provider.script([toolCall('double', { number: 2 }), textDeltas([hold(gate), 'Four.'])])
    const client = await connect(server, mode)
    const steps: (string | undefined)[] = []

    const call = client.callTool(ask('Twice two?'), { onprogress: ({ message }) => void steps.push(message) })

    await expect.poll(() => steps.at(-1)).toBe('Solo calls double.')
    gate.release()
    await call
  })

  test('hangs up: the run ends', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['Hello ', hold(gate), 'there.'])])
    const leaving = new AbortController()
    const transport = new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`))
    const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } })
    await client.connect(transport)
    const call = client.callTool(ask('hi'), { signal: leaving.signal })
    call.catch(() => {}) // It is hung up on.
    await gate.reached()

    await client.close()

    await server.provider.waitForAborts(1)
    await expect(call).rejects.toThrow(/closed/i)
  })

  test('cancels a call: its run ends, and no other', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gates = [server.provider.gate(), server.provider.gate()]
    const [client, other] = [await connect(server, mode), await connect(server, mode)]
    server.provider.script(gates.map((gate) => textDeltas(['Hello ', hold(gate), 'there.'])))
    const leaving = new AbortController()
    const call = client.callTool(ask('hi'), { signal: leaving.signal })
    await gates[0]!.reached()
    // Clients number their requests alike.
    const others = other.callTool(ask('hi'))
    await gates[1]!.reached()

    leaving.abort('enough')

    await expect(call).rejects.toThrow(/enough/)
    await server.provider.waitForAborts(1)
    gates[1]!.release()
    expect(((await others) as Json).content[0].text).toBe('Hello there.')
  })

  test('calls a tool of the server', async () => {
    const client = await connect(await startTestServer({ tools: [double] }), mode)

    expect(await client.callTool({ name: 'double', arguments: { number: 21 } })).toMatchObject({
      content: [{ type: 'text', text: '{"doubled":42}' }],
      structuredContent: { doubled: 42 },
    })
  })

  test.each([
    [
      'a message that is missing',
      { name: 'ask_solo', arguments: {} },
      'invalid_request',
      /^message: is missing; it must be a string$/,
    ],
    [
      'a message that is a number',
      { name: 'ask_solo', arguments: { message: 5 } },
      'invalid_request',
      /^message: must be a string$/,
    ],
    ['an empty message', ask(''), 'invalid_request', /^message: must not be empty$/],
    [
      'a member that does not exist',
      { name: 'ask_solo', arguments: { message: 'x', thread: 1 } },
      'invalid_request',
      /^thread: there is no such argument; there are message and thread_id$/,
    ],
    ['a thread that does not exist', ask('x', 't_unknown'), 'thread_not_found', /begin a new one/],
    ['input that does not fit', { name: 'double', arguments: { number: 'x' } }, 'invalid_request', /number/],
    [
      'a tool that throws',
      { name: 'double', arguments: { number: 2_000 } },
      'tool_failed',
      /^The tool "double" failed\.$/,
    ],
  ])('%s is a result that the model can read', async (_what, call, code, words) => {
    const server = await startTestServer({ agencies: soloAgency(), tools: [double] })
    const result = (await (await connect(server, mode)).callTool(call)) as Json

    expect(result).toMatchObject({ isError: true, _meta: { 'bureau/code': code } })
    expect(result.content[0].text).toMatch(words)
    expect(server.provider.modelRequests).toEqual([])
  })

  test('why a tool has failed is in the log, with the id of its request', async () => {
    const lines: string[] = []
    const server = await startTestServer({
      agencies: soloAgency(),
      tools: [double],
      logLevel: 'warn',
      logDestination: { write: (line: string) => void lines.push(line) },
    })
    const client = await connect(server, mode, { 'x-request-id': 'request-1' })

    await client.callTool({ name: 'double', arguments: { number: 2_000 } })

    const failure = lines.map((line) => JSON.parse(line)).find(({ msg }) => msg === 'tool failed')
    expect(failure).toMatchObject({ tool: 'double', requestId: 'request-1', err: { message: 'secret of the tool' } })
  })

  test('a run that fails is a result too, and leaves its thread as it was', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Paris.'), status(401), text('Rome.')])
    const client = await connect(server, mode)
    const { thread_id } = ((await client.callTool(ask('France?'))) as Json).structuredContent

    const failed = (await client.callTool(ask('Spain?', thread_id))) as Json
    await client.callTool(ask('Italy?', thread_id))

    expect(failed).toMatchObject({ isError: true, _meta: { 'bureau/code': expect.stringMatching(/^upstream_/) } })
    expect(JSON.stringify(server.provider.modelRequests.at(-1)!.body)).not.toContain('Spain?')
  })

  test('a tool that does not exist is an error of the protocol', async () => {
    const client = await connect(await startTestServer({ agencies: soloAgency() }), mode)

    await expect(client.callTool({ name: 'ask_nobody', arguments: {} })).rejects.toThrow(
      'There is no tool "ask_nobody"',
    )
  })
})

describe('a call that a person must approve', () => {
  const open = async () => {
    const { pay, paid } = editablePay()
    const server = await startTestServer({ agencies: soloAgency({ tools: [pay] }) })
    server.provider.script([toolCall('pay', { euros: 5 }), text('Done.'), text('Anything else?')])
    return { server, paid }
  }

  /** A client whose user fills in the form. */
  async function asking(server: TestServer, answer: (form: Json) => object) {
    const forms: Json[] = []
    const client = new Client(
      { name: 'test', version: '1.0.0' },
      { versionNegotiation: { mode: { pin: '2026-07-28' } }, capabilities: { elicitation: {} } },
    )
    client.setRequestHandler('elicitation/create', async ({ params }) => {
      forms.push(params)
      return answer(params) as never
    })
    await client.connect(new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`)))
    closeAfterTest(() => client.close())
    return { client, forms }
  }

  const accept = (content: object) => () => ({ action: 'accept', content })
  const outputs = (server: TestServer): string[] =>
    server.provider.modelRequests.at(-1)!.toolOutputs.map(({ output }) => output)

  test('2026-07-28: the user is asked in a form, and the call goes on with the answer', async () => {
    const { server, paid } = await open()
    const { client, forms } = await asking(server, accept({ approve: true, arguments: '{"euros":3}' }))

    const first = (await client.callTool(ask('Pay.'))) as Json
    const second = (await client.callTool(ask('Thanks.', first.structuredContent.thread_id))) as Json

    expect(forms).toMatchObject([
      {
        message: 'Solo asks: A person must approve the call pay({"euros":5}) first.',
        requestedSchema: {
          properties: { approve: { type: 'boolean' }, reason: {}, arguments: { default: '{"euros":5}' } },
          required: ['approve'],
        },
      },
    ])
    expect([first, second].map(({ structuredContent }) => structuredContent.answer)).toEqual([
      'Done.',
      'Anything else?',
    ])
    expect(paid).toEqual([3])
    expect(server.provider.modelRequests.at(-1)!.items.map(({ type, role }: Json) => role ?? type)).toEqual([
      'user',
      'function_call',
      'function_call_output',
      'assistant',
      'user',
    ])
  })

  test.each([
    ['says no', accept({ approve: false, reason: 'Too much.' }), /rejected.*Too much\.$/],
    ['declines the form', () => ({ action: 'decline' }), /rejected/],
  ])('2026-07-28: the user %s', async (_, answer, words) => {
    const { server, paid } = await open()
    const { client } = await asking(server, answer)

    const result = (await client.callTool(ask('Pay.'))) as Json

    expect([result.structuredContent.answer, paid]).toEqual(['Done.', []])
    expect(outputs(server)[0]).toMatch(words)
  })

  test('2026-07-28: a form that is closed decides nothing', async () => {
    const { server, paid } = await open()
    const { client } = await asking(server, () => ({ action: 'cancel' }))

    const result = (await client.callTool(ask('Pay.'))) as Json

    expect(result).toMatchObject({ isError: true, _meta: { 'bureau/code': 'approval_required' } })
    expect(paid).toEqual([])
    expect(server.provider.modelRequests).toHaveLength(1)
  })

  test('2026-07-28: state that was changed carries nothing out', async () => {
    const { server, paid } = await open()
    const call = (more: object) => ({
      ...raw('tools/call', { ...ask('Pay.'), ...more }),
    })
    const post = async (body: Json): Promise<Json> => {
      body.params._meta['io.modelcontextprotocol/clientCapabilities'] = { elicitation: {} }
      const stream = await server.stream('/mcp', body, { headers: rawHeaders('tools/call', 'ask_solo') })
      return JSON.parse((await stream.all()).frames.at(-1)!.data)
    }
    const { result } = await post(call({}))
    const inputResponses = { approval_1: { action: 'accept', content: { approve: true } } }
    const state = JSON.parse(result.requestState)
    const forged = JSON.stringify({ ...state, calls: [{ ...state.calls[0], token: 'x' }] })
    const foreign = JSON.stringify({ ...state, thread: 't_other' })

    const answers = [
      await post(call({ inputResponses, requestState: forged })),
      await post(call({ inputResponses, requestState: foreign })),
      await post(call({ inputResponses, requestState: '{}' })),
    ]

    expect(result).toMatchObject({ resultType: 'input_required', inputRequests: { approval_1: expect.anything() } })
    expect(answers).toMatchObject([
      { result: { isError: true, _meta: { 'bureau/code': 'invalid_request' } } },
      { result: { isError: true, _meta: { 'bureau/code': 'thread_not_found' } } },
      { error: { code: -32602 } },
    ])
    expect(paid).toEqual([])
  })

  test.each(REVISIONS)('%s: a client that cannot ask is told so', async (_, mode) => {
    const { server, paid } = await open()

    const result = (await (await connect(server, mode)).callTool(ask('Pay.'))) as Json

    expect(result).toMatchObject({ isError: true, _meta: { 'bureau/code': 'approval_required' } })
    expect(result.content[0].text).toContain('elicitation')
    expect(paid).toEqual([])
  })

  test.each(REVISIONS)('%s: a tool of the server is not carried out on its own', async (_, mode) => {
    const paid: number[] = []
    const pay = tool({
      name: 'pay',
      description: 'Pays.',
      parameters: z.object({ euros: z.number() }),
      needsApproval: ({ euros }) => euros > 100,
      execute: ({ euros }) => paid.push(euros),
    })
    const client = await connect(await startTestServer({ agencies: soloAgency(), tools: [pay] }), mode)
    const call = async (euros: unknown) => (await client.callTool({ name: 'pay', arguments: { euros } })) as Json

    expect(await call(250)).toMatchObject({ isError: true, _meta: { 'bureau/code': 'approval_required' } })
    expect(await call('250')).toMatchObject({ isError: true, _meta: { 'bureau/code': 'approval_required' } })
    expect(paid).toEqual([])
    await call(5)
    expect(paid).toEqual([5])
  })
})

describe('threads', () => {
  test('one message after another: a second one meanwhile is refused', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([text('Yes.'), [hold(gate), text('Later.')]])
    const client = await connect(server)
    const { thread_id } = ((await client.callTool(ask('Hello?'))) as Json).structuredContent
    const slow = client.callTool(ask('Wait', thread_id))
    await gate.reached()

    const second = (await client.callTool(ask('Now', thread_id))) as Json
    gate.release()

    expect(second).toMatchObject({ isError: true, _meta: { 'bureau/code': 'run_active' } })
    expect(((await slow) as Json).structuredContent.answer).toBe('Later.')
  })

  test('belong to their agency', async () => {
    const server = await startTestServer({ agencies: { ...soloAgency(), other: soloAgency().solo } })
    server.provider.script([text('Paris.')])
    const client = await connect(server)
    const { thread_id } = ((await client.callTool(ask('France?'))) as Json).structuredContent

    const elsewhere = (await client.callTool(ask('France?', thread_id, 'ask_other'))) as Json

    expect(elsewhere).toMatchObject({ isError: true, _meta: { 'bureau/code': 'thread_not_found' } })
  })
})

describe('who may call', () => {
  test('with a server token: whoever has it', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })

    await expect(connect(server, 'legacy')).rejects.toThrow(/401|authenticated/i)
    const client = await connect(server, 'legacy', { authorization: 'Bearer right' })

    expect((await client.listTools()).tools).toHaveLength(1)
    expect((await server.post('/mcp', raw('tools/list'))).body).toMatchObject({
      jsonrpc: '2.0',
      error: { message: expect.stringContaining('Authorization: Bearer'), data: { code: 'not_authenticated' } },
    })
  })

  test.each([
    ['without a token: not pages of others', {}, {}],
    [
      'with a token and a list of origins: not other pages',
      { APP_TOKEN: 'right' },
      { corsOrigins: ['https://mine.example'] },
    ],
  ])('%s (403)', async (_, env, options) => {
    const server = await startTestServer({ agencies: soloAgency(), env, ...options })
    const headers = { authorization: 'Bearer right', origin: 'https://evil.example', ...rawHeaders('tools/list') }

    const refused = await server.post('/mcp', raw('tools/list'), headers)

    expect(refused.status).toBe(403)
    expect(refused.body.error.data.code).toBe('origin_not_allowed')
  })

  test('without a token: not under a name of somebody else (DNS rebinding)', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { port } = new URL(server.url)
    const { request } = await import('node:http')
    const status = await new Promise((resolve) => {
      const headers = { host: 'evil.example', 'content-type': 'application/json', ...rawHeaders('tools/list') }
      const asked = request({ port, method: 'POST', path: '/mcp', headers }, (answer) => resolve(answer.statusCode))
      asked.end(JSON.stringify(raw('tools/list')))
    })

    expect(status).toBe(403)
  })
})

describe('with users', () => {
  const authenticate = ({ headers }: { headers: Record<string, unknown> }) =>
    typeof headers['x-user'] === 'string' ? { id: headers['x-user'] } : null
  const whoAmI = tool({
    name: 'who_am_i',
    description: 'Says who asks.',
    parameters: z.object({}),
    execute: (_input, { userContext }) => ({ user: userContext['user_id'] }),
  })

  test('threads belong to their user, and tools know who asks', async () => {
    const server = await startTestServer({ agencies: soloAgency(), tools: [whoAmI], authenticate })
    server.provider.respond(() => text('Hi.'))
    const [ada, bob] = [
      await connect(server, 'legacy', { 'x-user': 'ada' }),
      await connect(server, 'legacy', { 'x-user': 'bob' }),
    ]
    const { thread_id } = ((await ada.callTool(ask('hi'))) as Json).structuredContent

    expect(await bob.callTool(ask('hi', thread_id))).toMatchObject({ _meta: { 'bureau/code': 'thread_not_found' } })
    expect(await ada.callTool(ask('hi', thread_id))).toMatchObject({ structuredContent: { thread_id } })
    expect(await bob.callTool({ name: 'who_am_i', arguments: {} })).toMatchObject({
      structuredContent: { user: 'bob' },
    })
  })

  test('of an issuer: a 401 names the metadata, which names the issuer (RFC 9728)', async () => {
    const issuer = 'https://login.example.com'
    const server = await startTestServer({
      agencies: soloAgency(),
      authenticate: jwtAuthenticate({ issuer, audience: 'bureau' }),
    })

    const refused = await server.post('/mcp', raw('tools/list'), rawHeaders('tools/list'))

    expect(refused.status).toBe(401)
    const address = `${server.url}/.well-known/oauth-protected-resource/mcp`
    expect(refused.headers.get('www-authenticate')).toBe(`Bearer resource_metadata="${address}"`)
    for (const url of [address, `${server.url}/.well-known/oauth-protected-resource`]) {
      expect(await (await fetch(url)).json()).toEqual({
        resource: `${server.url}/mcp`,
        authorization_servers: [issuer],
        bearer_methods_supported: ['header'],
      })
    }
  })

  test('without an issuer there is no such metadata', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })

    const refused = await server.post('/mcp', raw('tools/list'), rawHeaders('tools/list'))

    expect(refused.headers.get('www-authenticate')).toBe('Bearer')
    const headers = { authorization: 'Bearer right' }
    expect((await server.get('/.well-known/oauth-protected-resource/mcp', headers)).status).toBe(404)
  })
})

describe('on the wire', () => {
  test('the 2026 revision: discovery, results that say what they are, and lists that may be kept', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    const discovered = await server.post('/mcp', raw('server/discover'), rawHeaders('server/discover'))
    const listed = await server.post('/mcp', raw('tools/list'), rawHeaders('tools/list'))

    expect(discovered.body.result).toMatchObject({ supportedVersions: expect.arrayContaining(['2026-07-28']) })
    expect(listed.body.result).toMatchObject({ resultType: 'complete', ttlMs: 60_000, cacheScope: 'private' })
    expect(listed.headers.get('x-accel-buffering')).toBe('no')
  })

  test('the answer to a call begins at once, however long the agency takes', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([[hold(gate), text('Later.')]])

    const answer = await fetch(`${server.url}/mcp`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...rawHeaders('tools/call', 'ask_solo') },
      body: JSON.stringify(raw('tools/call', ask('Wait'))),
      signal: AbortSignal.timeout(10_000), // the comments of the protocol's package come every 15 seconds
    })
    gate.release()

    expect(answer.headers.get('content-type')).toContain('text/event-stream')
    expect(await answer.text()).toContain('Later.')
  })

  test.each([
    ['text that is not JSON', '{', {}, 400, -32700],
    ['another content type', JSON.stringify(raw('tools/list')), { 'content-type': 'text/plain' }, 400, -32600],
    ['a method that does not exist', raw('nothing/known'), rawHeaders('nothing/known'), 404, -32601],
    ['a header that says something else', raw('tools/list'), rawHeaders('tools/call', 'x'), 400, -32020],
    [
      'a subscription: the tools never change',
      raw('subscriptions/listen'),
      rawHeaders('subscriptions/listen'),
      404,
      -32601,
    ],
  ])('%s', async (...[, body, headers, status, code]) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await server.post('/mcp', body, headers)

    expect([answer.status, answer.body.error.code]).toEqual([status, code])
  })

  test.each([
    ['initialize', {}, 'params.protocolVersion'],
    ['initialize', undefined, 'params'],
    ['tools/list', { cursor: 7 }, 'params.cursor'],
  ])('%s with the params %j is refused, and named is %s', async (method, params, named) => {
    const server = await startTestServer({ agencies: soloAgency() })
    const headers = { accept: 'application/json, text/event-stream' }

    const answer = await server.post('/mcp', { jsonrpc: '2.0', id: 'a', method, params }, headers)

    expect(answer.body).toMatchObject({ jsonrpc: '2.0', id: 'a', error: { code: -32602 } })
    expect(answer.body.error.message).toMatch(`${named}: `)
  })

  test.each(['GET', 'DELETE'])('%s is 405: a session has no end, and no stream of its own', async (method) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await fetch(`${server.url}/mcp`, { method })

    expect(answer.status).toBe(405)
    expect(await answer.json()).toMatchObject({ jsonrpc: '2.0', id: null, error: { code: -32600 } })
  })

  test.each(['5', 'null', '"x"'])('%s is JSON, and not a request', async (body) => {
    const server = await startTestServer({ agencies: soloAgency() })
    const headers = { 'content-type': 'application/json', ...rawHeaders('ping') }

    const answer = await fetch(`${server.url}/mcp`, { method: 'POST', headers, body })

    expect([answer.status, await answer.json()]).toMatchObject([
      400,
      { jsonrpc: '2.0', id: null, error: { code: -32600 } },
    ])
  })

  test('2025-11-25: a call ends when its client cancels it; others who send its id cancel nothing', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([
      textDeltas(['Hello ', hold(gate), 'there.']),
      textDeltas(['Once ', hold(server.provider.gate()), 'more.']),
    ])
    const send = async (body: object, session?: string): Promise<Response> => {
      const headers = new Headers({
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      })
      if (session !== undefined) headers.set('mcp-session-id', session)
      return fetch(`${server.url}/mcp`, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', ...body }) })
    }
    const begin = async (): Promise<string> => {
      const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } }
      return (await send({ id: 0, method: 'initialize', params })).headers.get('mcp-session-id')!
    }
    const call = (session: string) => send({ id: 1, method: 'tools/call', params: ask('hi') }, session)
    const cancel = (session?: string) => send({ method: 'notifications/cancelled', params: { requestId: 1 } }, session)
    const [own, foreign] = [await begin(), await begin()]

    const first = await call(own)
    await gate.reached()
    const statuses = [await cancel(foreign), await cancel()].map(({ status: each }) => each)
    gate.release()
    const answered = await first.text()
    const second = await call(own)
    await cancel(own)

    expect(statuses).toEqual([202, 202])
    expect(answered).toContain('Hello there.')
    expect(await second.text()).not.toContain('more.')
  })

  test('a page of another origin may send its session, and sees it', async () => {
    const server = await startTestServer({ agencies: soloAgency(), corsOrigins: ['https://app.example'] })
    const origin = 'https://app.example'
    const sent = 'authorization, content-type, last-event-id, mcp-protocol-version, mcp-session-id'
    const asked = { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': sent }

    const preflight = await fetch(`${server.url}/mcp`, { method: 'OPTIONS', headers: asked })
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'page', version: '1' } }
    const begun = await fetch(`${server.url}/mcp`, {
      method: 'POST',
      headers: { origin, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params }),
    })

    expect(preflight.headers.get('access-control-allow-headers')).toBe(sent)
    expect(begun.headers.get('mcp-session-id')).not.toBeNull()
    expect(begun.headers.get('access-control-expose-headers')!.split(', ')).toEqual(
      expect.arrayContaining(['Mcp-Session-Id', 'Retry-After', 'WWW-Authenticate']),
    )
  })

  test('a body of more than 4 MiB is refused', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await server.post(
      '/mcp',
      raw('tools/call', { name: 'x'.repeat(5_000_000) }),
      rawHeaders('tools/call'),
    )

    expect(answer.status).toBe(413)
    expect(answer.body.error.data.code).toBe('body_too_large')
  })

  test('a server that is full says so in the result', async () => {
    const server = await startTestServer({ agencies: soloAgency(), maxConcurrentRuns: 1 })
    const gate = server.provider.gate()
    server.provider.script([[hold(gate), text('Later.')]])
    const client = await connect(server)
    const slow = client.callTool(ask('Wait'))
    await gate.reached()

    const refused = (await client.callTool(ask('Now'))) as Json
    gate.release()
    await slow

    expect(refused).toMatchObject({ isError: true, _meta: { 'bureau/code': 'overloaded' } })
  })
})
