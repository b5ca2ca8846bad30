import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { Agency, Agent, MCPServerOAuth, tool } from '@bureau/framework'
import { MemoryOAuthStateRegistry } from '@bureau/runtime'
import type { ServerOptions } from '@bureau/server'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { hold, status as failWith, text, textDeltas } from '../support/fake-provider.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { type Json, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

const TOKEN = { authorization: 'Bearer secret-token' }
const JSON_TYPE = { 'content-type': 'application/json' }
const BODY_LIMIT = 20_000

type Asking = { readonly server: TestServer; readonly send: Send }
type Send = (path: string, init?: RequestInit) => Promise<Pick<Response, 'status' | 'headers' | 'text'>>
type Provoke = (asking: Asking) => ReturnType<Send>
/** How each status of an operation (`POST /solo/get_response`) comes about. */
type Provoked = Readonly<Record<string, readonly (readonly [status: number, what: string, provoke: Provoke])[]>>

const post = (body: unknown, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  headers: { ...TOKEN, ...JSON_TYPE, ...headers },
  body: typeof body === 'string' ? body : JSON.stringify(body),
})
const get = (headers: Record<string, string> = TOKEN): RequestInit => ({ headers })

const withoutToken = (path: string, method = 'POST') =>
  [
    [401, 'no token', ({ send }) => send(path, { method })],
    [
      429,
      'one wrong token too many',
      async ({ send }) => {
        const guess = { method, headers: { authorization: 'Bearer guess' } }
        await send(path, guess)
        return send(path, guess)
      },
    ],
  ] as const satisfies Provoked[string]

const endlessBody = (): RequestInit => {
  const body = new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode('{')) })
  return { body, duplex: 'half' }
}

/** What becomes of a request when as much time has passed as the server waits for more of its body. */
async function stalled(send: () => ReturnType<Send>): ReturnType<Send> {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  try {
    const answer = send()
    while (vi.getTimerCount() === 0) await new Promise((resolve) => setImmediate(resolve))
    vi.advanceTimersByTime(15_000)
    return await answer
  } finally {
    vi.useRealTimers()
  }
}

/** What every route with a body refuses. */
const refusedBodies = (path: string) =>
  [
    [400, 'a body with an encoding', ({ send }) => send(path, post({}, { 'content-encoding': 'gzip' }))],
    ...withoutToken(path),
    [408, 'a body that does not go on', ({ send }) => stalled(() => send(path, { ...post(''), ...endlessBody() }))],
    [413, 'a body that is too large', ({ send }) => send(path, post('x'.repeat(BODY_LIMIT + 1)))],
    [422, 'a body that is not an object', ({ send }) => send(path, post('[]'))],
  ] as const satisfies Provoked[string]

const overloaded = (path: string, body: object) =>
  [
    503,
    'more runs than the server takes',
    async ({ server, send }) => {
      server.provider.script([textDeltas(['Half', hold(server.provider.gate())])])
      const running = await server.stream('/solo/get_response_stream', body, { headers: TOKEN })
      await running.untilText('Half')
      return send(path, post(body))
    },
  ] as const satisfies Provoked[string][number]

const MESSAGE = { message: 'hi' }
const AGUI_MESSAGE = { threadId: 't', runId: 'r', messages: [{ id: 'm', role: 'user', content: 'hi' }] }

const answered =
  (path: string, body: object): Provoke =>
  ({ server, send }) => {
    server.provider.script([text('Hello')])
    return send(path, post(body))
  }

/** The run of a request that comes again is over, and no longer kept. */
const ended = (path: string) =>
  [
    409,
    'a request whose run is over',
    async ({ server, send }) => {
      server.provider.script([text('Hello')])
      const request = { ...MESSAGE, on_disconnect: 'continue', request_id: 'request-1' }
      await (await send(path, post(request))).text()
      const lookUp = (): Promise<number> => send('/solo/runs?request_id=request-1', get()).then(({ status }) => status)
      await expect.poll(lookUp).toBe(404)
      return send(path, post(request))
    },
  ] as const satisfies Provoked[string][number]

async function logOf(send: Send): Promise<string> {
  await send('/solo/get_metadata', get({ ...TOKEN, 'x-agency-log-id': 'log-1' }))
  return 'log-1'
}

const METADATA: Provoked[string] = [
  [200, 'a description of the agency', ({ send }) => send('/solo/get_metadata', get())],
  ...withoutToken('/solo/get_metadata', 'GET'),
]

const PLAIN: Provoked = {
  'POST /solo/get_response': [
    [200, 'an answer', answered('/solo/get_response', MESSAGE)],
    [
      200,
      'a file that cannot be used',
      ({ send }) => send('/solo/get_response', post({ ...MESSAGE, file_urls: { 'a.txt': 'ftp://example.com/a.txt' } })),
    ],
    ...refusedBodies('/solo/get_response'),
    [
      500,
      'a run that fails',
      ({ server, send }) => {
        server.provider.script([failWith(400)])
        return send('/solo/get_response', post(MESSAGE))
      },
    ],
    overloaded('/solo/get_response', MESSAGE),
    ended('/solo/get_response'),
  ],
  'POST /solo/get_response_stream': [
    [200, 'an answer', answered('/solo/get_response_stream', MESSAGE)],
    ...refusedBodies('/solo/get_response_stream'),
    overloaded('/solo/get_response_stream', MESSAGE),
    ended('/solo/get_response_stream'),
  ],
  'GET /solo/runs': [
    [
      200,
      'the run of a request',
      async ({ server, send }) => {
        const gate = server.provider.gate()
        server.provider.script([textDeltas(['Half', hold(gate)])])
        const request = { ...MESSAGE, on_disconnect: 'continue', request_id: 'request-1' }
        const running = await server.stream('/solo/get_response_stream', request, { headers: TOKEN })
        await running.untilText('Half')
        const answer = await send('/solo/runs?request_id=request-1', get())
        gate.release()
        return answer
      },
    ],
    ...withoutToken('/solo/runs?request_id=request-1', 'GET'),
    [404, 'a request that nobody has sent', ({ send }) => send('/solo/runs?request_id=none', get())],
    [422, 'no id', ({ send }) => send('/solo/runs', get())],
  ],
  'POST /solo/cancel_response_stream': [
    [
      200,
      'a run that is cancelled',
      async ({ server, send }) => {
        server.provider.script([textDeltas(['Half', hold(server.provider.gate())])])
        const running = await server.stream('/solo/get_response_stream', MESSAGE, { headers: TOKEN })
        await running.untilText('Half')
        return send('/solo/cancel_response_stream', post({ run_id: running.runId }))
      },
    ],
    ...refusedBodies('/solo/cancel_response_stream'),
    [404, 'a run that is not there', ({ send }) => send('/solo/cancel_response_stream', post({ run_id: 'gone' }))],
  ],
  'GET /solo/get_metadata': METADATA,
  'GET /solo/realtime': [
    [101, 'a handshake', ({ server }) => handshake(server, { 'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==' })],
    [400, 'a handshake without a key', ({ server }) => handshake(server)],
    ...withoutToken('/solo/realtime', 'GET'),
    [403, 'a page of another origin', ({ server }) => handshake(server, { origin: 'https://evil.test' })],
    [404, 'a request that is not a handshake', ({ send }) => send('/solo/realtime', get())],
  ],
  'POST /solo/realtime_ticket': [
    [200, 'a ticket', ({ send }) => send('/solo/realtime_ticket', { method: 'POST', headers: TOKEN })],
    ...withoutToken('/solo/realtime_ticket'),
  ],
  'POST /tool/half': [
    [200, 'a result', ({ send }) => send('/tool/half', post({ of: 4 }))],
    ...refusedBodies('/tool/half'),
    [500, 'a tool that fails', ({ send }) => send('/tool/half', post({ of: 3 }))],
  ],
  'GET /get_logs': [
    [200, 'a log', async ({ send }) => send(`/get_logs?log_id=${await logOf(send)}`, get())],
    [400, 'no id', ({ send }) => send('/get_logs', get())],
    ...withoutToken('/get_logs', 'GET'),
    [404, 'a log that is not there', ({ send }) => send('/get_logs?log_id=none', get())],
  ],
  'POST /get_logs': [
    [200, 'a log', async ({ send }) => send('/get_logs', post({ log_id: await logOf(send) }))],
    ...refusedBodies('/get_logs'),
    [404, 'a log that is not there', ({ send }) => send('/get_logs', post({ log_id: 'none' }))],
  ],
}

const AGUI: Provoked = {
  'POST /solo/get_response_stream': [
    [200, 'an answer', answered('/solo/get_response_stream', AGUI_MESSAGE)],
    ...refusedBodies('/solo/get_response_stream'),
    overloaded('/solo/get_response_stream', AGUI_MESSAGE),
  ],
  'GET /solo/get_metadata': METADATA,
}

const user = (name: string): Record<string, string> => ({ 'x-user': name })

/** What routes that must know their users refuse besides. */
const refusedUsers = (send: (headers: Record<string, string>) => Provoke) =>
  [
    [401, 'no user', send(user(''))],
    [403, 'a user whom the check of the server refuses', send(user('banned'))],
  ] as const satisfies Provoked[string]

const asUser =
  (path: string, body: object) =>
  (headers: Record<string, string>): Provoke =>
  ({ send }) =>
    send(path, post(body, headers))

const callback =
  (query: string) =>
  (headers = user('ada')): Provoke =>
  ({ send }) =>
    send(`/auth/callback?${query}`, get(headers))

const signInOf =
  (state: string) =>
  (headers = user('ada')): Provoke =>
  ({ send }) =>
    send(`/auth/status/${state}`, get({ ...TOKEN, ...headers }))

const SIGN_INS: Provoked = {
  'POST /solo/get_response': [
    [400, 'an agency whose users sign in', asUser('/solo/get_response', MESSAGE)(user('ada'))],
    ...refusedUsers(asUser('/solo/get_response', MESSAGE)),
  ],
  'POST /solo/get_response_stream': [...refusedUsers(asUser('/solo/get_response_stream', MESSAGE))],
  'POST /solo/cancel_response_stream': [...refusedUsers(asUser('/solo/cancel_response_stream', { run_id: 'x' }))],
  'GET /auth/callback': [
    [200, 'a code', callback('state=pending&code=c')()],
    [400, 'a state that nobody waits for', callback('state=unknown&code=c')()],
    [422, 'no state', callback('code=c')()],
    ...refusedUsers(callback('state=pending&code=c')),
  ],
  'GET /auth/status/{state}': [
    [200, 'a sign-in', signInOf('pending')()],
    [404, 'a sign-in that is not there', signInOf('unknown')()],
    ...refusedUsers(signInOf('pending')),
    ...withoutToken('/auth/status/pending', 'GET'),
  ],
}

const half = tool({
  name: 'half',
  description: 'Halves even numbers.',
  parameters: z.object({ of: z.number() }),
  execute: ({ of }) => {
    if (of % 2 === 1) throw new Error('odd')
    return of / 2
  },
})

async function startSignIns(): Promise<Partial<ServerOptions>> {
  const oauthRegistry = new MemoryOAuthStateRegistry()
  await oauthRegistry.open({ state: 'pending', authUrl: 'https://login.example/', server: 'notes', userId: 'ada' })
  // Somebody waits for the code, and the sign-in ends well.
  void oauthRegistry
    .wait('pending', { timeoutMs: 60_000, signal: new AbortController().signal })
    .then(() => oauthRegistry.settle('pending', 'authorized'))
  const mcpServers = [new MCPServerOAuth({ name: 'notes', url: 'https://notes.example/mcp' })]
  return {
    agencies: { solo: new Agency({ entryPoint: new Agent({ name: 'Solo', mcpServers }) }) },
    oauthRegistry,
    oauthTokenPath: await temporaryFolder(),
    verifyOauthCallbackUser: true,
    oauthUserId: ({ headers }) => {
      if (headers['x-user'] === 'banned') throw Object.assign(new Error('banned'), { statusCode: 403 })
      return String(headers['x-user'] ?? '')
    },
  }
}

const KINDS: readonly [string, Provoked, () => Promise<Partial<ServerOptions>>][] = [
  [
    'plain',
    PLAIN,
    async () => ({
      agencies: soloAgency(),
      enableRealtime: true,
      enableLogging: true,
      tools: [half],
      corsOrigins: ['https://shop.test'],
    }),
  ],
  ['AG-UI', AGUI, async () => ({ agencies: soloAgency(), enableAgui: true })],
  ['sign-ins', SIGN_INS, startSignIns],
]

async function start(options: Partial<ServerOptions>): Promise<Asking & { readonly document: Json }> {
  const server = await startTestServer({
    bodyLimitBytes: BODY_LIMIT,
    maxConcurrentRuns: 1,
    resumeMs: 1,
    // Nobody is there: a handshake is all that is tried.
    realtimeOptions: { url: 'ws://127.0.0.1:9' },
    logsDir: await temporaryFolder(),
    env: { APP_TOKEN: 'secret-token', BUREAU_WRONG_KEYS_PER_MINUTE: '1' },
    ...options,
  })
  const { body: document } = await server.get('/openapi.json', TOKEN)
  return { server, send: (path, init) => fetch(server.url + path, init), document }
}

/** An upgrade to a WebSocket, with or without what it needs. */
async function handshake(server: TestServer, headers: Record<string, string> = {}): ReturnType<Send> {
  const upgrade = { connection: 'upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' }
  const asking = httpRequest(`${server.url}/solo/realtime`, { headers: { ...TOKEN, ...upgrade, ...headers } }).end()
  const [answer, socket] = await Promise.race([once(asking, 'upgrade'), once(asking, 'response')])
  asking.destroy()
  socket?.destroy()
  return { status: answer.statusCode, headers: new Headers(), text: async () => '' }
}

const responsesOf = (document: Json, operation: string): Json => {
  const [method, path] = operation.split(' ') as [string, string]
  return document.paths[path][method.toLowerCase()].responses
}

const ajv = new Ajv2020({ strict: false, validateFormats: false })

/** What is wrong with a body, by what the document says of this response. */
function problemsWith(document: Json, response: Json, body: Json): unknown {
  const { schema } = response.content['application/json']
  const check = ajv.compile({ ...schema, components: document.components })
  return check(body) ? [] : check.errors
}

describe.each(KINDS)('a server of the kind %s', (_, provoked, options) => {
  const cases = Object.entries(provoked).flatMap(([operation, answers]) =>
    answers.map(([status, what, provoke]) => ({ operation, status, what, provoke })),
  )

  test.each(cases)('$operation: $status for $what, as described', async ({ operation, status, provoke }) => {
    const { document, ...asking } = await start(await options())

    const answer = await provoke(asking)

    expect(answer.status).toBe(status)
    const responses = responsesOf(document, operation)
    const response = responses[status] ?? responses[`${Math.floor(status / 100)}XX`]
    expect(response).toBeDefined()
    if (!answer.headers.get('content-type')?.includes('application/json')) return
    expect(problemsWith(document, response, JSON.parse(await answer.text()))).toEqual([])
  })
})

test.each(KINDS)('of a server of the kind %s no more is described than can happen', async (_, provoked, options) => {
  const { document } = await start(await options())
  // A defect of the server and its end may meet any request.
  const anywhere = ['500', '503', '4XX']
  for (const [operation, answers] of Object.entries(provoked)) {
    const alsoPlain = provoked === SIGN_INS ? (PLAIN[operation] ?? []) : []
    const seen = new Set([...answers, ...alsoPlain].map(([status]) => String(status)))
    const unseen = Object.keys(responsesOf(document, operation)).filter(
      (status) => !anywhere.includes(status) && !seen.has(status),
    )
    expect([operation, unseen]).toEqual([operation, []])
  }
})

test('get_response says that its answer may be an error about files with status 200', async () => {
  const { document, send } = await start({ agencies: soloAgency() })

  const answer = await send('/solo/get_response', post({ ...MESSAGE, file_urls: ['s3://bucket/key.txt'] }))

  expect([answer.status, JSON.parse(await answer.text())]).toEqual([
    200,
    { error: expect.any(String), code: 'attachment_fetch_failed' },
  ])
  const { oneOf } = responsesOf(document, 'POST /solo/get_response')[200].content['application/json'].schema
  expect(oneOf).toEqual([{ $ref: '#/components/schemas/RunResponse' }, { $ref: '#/components/schemas/FileUrlsError' }])
})
