import { describe, expect, test } from 'vitest'
import { hold, text, textDeltas } from '../support/fake-provider.ts'
import { type Json, soloAgency, startTestServer, type TestServer, TestStream } from '../support/test-server.ts'

/*
 * The rules that the protocol's compatibility kit lists as MUST, by the kit's names, over both bindings. What concerns gRPC, TLS,
 * signed cards and clients is not here: docs/a2a.md says what there is not.
 */

const VERSION = { 'a2a-version': '1.0' }

const message = (more: Json = {}): Json => ({
  message: { messageId: 'm-1', role: 'ROLE_USER', parts: [{ text: 'hi' }], ...more },
})

type Answer = { readonly status: number; readonly result: Json; readonly error: Json }

const queryOf = (query: Json): string => new URLSearchParams(query).toString()

/** What both bindings can be asked, under the names that JSON-RPC has for it. */
const HTTP: Readonly<Record<string, (params: Json) => { method: string; path: string; body?: unknown }>> = {
  SendMessage: (body) => ({ method: 'POST', path: '/message:send', body }),
  GetTask: ({ id, ...query }) => ({ method: 'GET', path: `/tasks/${id}?${queryOf(query)}` }),
  ListTasks: (query) => ({ method: 'GET', path: `/tasks?${queryOf(query)}` }),
  CancelTask: ({ id }) => ({ method: 'POST', path: `/tasks/${id}:cancel`, body: {} }),
  SubscribeToTask: ({ id }) => ({ method: 'POST', path: `/tasks/${id}:subscribe`, body: {} }),
  CreateTaskPushNotificationConfig: (body) => ({ method: 'POST', path: `/tasks/t/pushNotificationConfigs`, body }),
  GetTaskPushNotificationConfig: () => ({ method: 'GET', path: `/tasks/t/pushNotificationConfigs/c` }),
  ListTaskPushNotificationConfigs: () => ({ method: 'GET', path: `/tasks/t/pushNotificationConfigs` }),
  DeleteTaskPushNotificationConfig: () => ({ method: 'DELETE', path: `/tasks/t/pushNotificationConfigs/c` }),
  GetExtendedAgentCard: () => ({ method: 'GET', path: '/extendedAgentCard' }),
}

type Ask = (server: TestServer, method: string, params?: Json, headers?: Record<string, string>) => Promise<Answer>

const askRpc: Ask = async (server, method, params = {}, headers = VERSION) => {
  const { status, body } = await server.post('/a2a/solo', { jsonrpc: '2.0', id: 7, method, params }, headers)
  return { status, result: body.result, error: body.error }
}

const askHttp: Ask = async (server, method, params = {}, headers = VERSION) => {
  const { path, body, ...init } = HTTP[method]!(params)
  const sent = body !== undefined && { body: JSON.stringify(body) }
  const json = body === undefined ? {} : { 'content-type': 'application/a2a+json' }
  const response = await fetch(`${server.url}/a2a/solo${path}`, { ...init, ...sent, headers: { ...json, ...headers } })
  const answer = (await response.json()) as Json
  return { status: response.status, result: answer, error: answer.error }
}

const BINDINGS: readonly [string, Ask][] = [
  ['JSON-RPC', askRpc],
  ['HTTP+JSON', askHttp],
]

/** The reason of a refusal, which is the same over both bindings. */
const reasonOf = ({ error }: Answer): string => (error.data ?? error.details)[0].reason

async function completed(server: TestServer, ask: Ask): Promise<Json> {
  server.provider.respond(() => text('Yes.'))
  return (await ask(server, 'SendMessage', message())).result.task
}

describe.each(BINDINGS)('over %s', (binding, ask) => {
  const start = () => startTestServer({ agencies: soloAgency() })

  test.each([
    [
      'CORE-SEND-002: a message to a task that has ended',
      'UNSUPPORTED_OPERATION',
      ({ id }: Json) => message({ taskId: id }),
    ],
    [
      'CORE-MULTI-005: the context of a task is known',
      'UNSUPPORTED_OPERATION',
      ({ id }: Json) => message({ taskId: id }),
    ],
    ['CORE-MULTI-004: a message to a task that is not there', 'TASK_NOT_FOUND', () => message({ taskId: 'none' })],
    [
      'CORE-SEND-003: a media type that is not supported',
      'CONTENT_TYPE_NOT_SUPPORTED',
      () => message({ parts: [{ raw: 'dGNr', mediaType: 'application/x-unsupported' }] }),
    ],
  ])('%s is refused', async (_, reason, params) => {
    const server = await start()
    const task = await completed(server, ask)

    expect(reasonOf(await ask(server, 'SendMessage', params(task)))).toBe(reason)
  })

  test.each([
    ['CORE-MULTI-002a: a context that is not known', 'message.contextId', () => message({ contextId: 'mine' })],
    [
      'CORE-MULTI-006: a context that is not that of the task',
      'message.contextId',
      ({ id }: Json) => message({ taskId: id, contextId: 'other' }),
    ],
    ['CORE-ERR-002: no message', 'message', () => ({})],
    ['DM-SERIAL-004: no parts', 'message.parts', () => message({ parts: [] })],
    ['parts that hold nothing', 'message.parts', () => message({ parts: [{ text: '' }, { text: '' }] })],
    [
      'DM-PART-001: a part with two contents',
      'message.parts.0',
      () => message({ parts: [{ text: 'a', url: 'https://b.example' }] }),
    ],
    ['DM-MSG-001: no messageId', 'message.messageId', () => message({ messageId: '' })],
    ['DM-MSG-002: another role', 'message.role', () => message({ role: 'user' })],
    ['an address that is not https', 'message.parts.0.url', () => message({ parts: [{ url: 'http://127.0.0.1/x' }] })],
    ['what is not base64', 'message.parts.0.raw', () => message({ parts: [{ raw: '!', mediaType: 'image/png' }] })],
  ])('%s is refused with the name of the field', async (_, field, params) => {
    const server = await start()
    const task = await completed(server, ask)

    const { error } = await ask(server, 'SendMessage', params(task))

    expect(error.data ?? error.details).toMatchObject([
      {
        '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
        reason: 'INVALID_PARAMS',
        domain: 'a2a-protocol.org',
      },
      {
        '@type': 'type.googleapis.com/google.rpc.BadRequest',
        fieldViolations: [{ field, description: expect.any(String) }],
      },
    ])
  })

  test.each([
    ['CORE-GET-002', 'GetTask'],
    ['CORE-CANCEL-003', 'CancelTask'],
    ['STREAM-SUB-004', 'SubscribeToTask'],
  ])('%s: %s of a task that is not there', async (_, method) => {
    const answer = await ask(await start(), method, { id: 'none' })

    expect(reasonOf(answer)).toBe('TASK_NOT_FOUND')
    expect(answer.error.code).toBe(binding === 'JSON-RPC' ? -32001 : 404)
  })

  test.each([
    ['CORE-CANCEL-002', 'CancelTask', 'TASK_NOT_CANCELABLE', -32002],
    ['STREAM-SUB-003', 'SubscribeToTask', 'UNSUPPORTED_OPERATION', -32004],
  ])('%s: %s of a task that has ended', async (...[, method, reason, code]) => {
    const server = await start()
    const { id } = await completed(server, ask)

    const answer = await ask(server, method, { id })

    expect(reasonOf(answer)).toBe(reason)
    expect(answer.error.code).toBe(binding === 'JSON-RPC' ? code : 400)
  })

  test.each([
    'CreateTaskPushNotificationConfig',
    'GetTaskPushNotificationConfig',
    'ListTaskPushNotificationConfigs',
    'DeleteTaskPushNotificationConfig',
  ])('%s of a task that is not there', async (method) => {
    const params = { taskId: 't', id: 'c', url: 'https://hooks.example.com/' }

    expect(reasonOf(await ask(await start(), method, params))).toBe('TASK_NOT_FOUND')
  })

  test('CORE-CAP-003: the extended card', async () => {
    expect(reasonOf(await ask(await start(), 'GetExtendedAgentCard'))).toBe('UNSUPPORTED_OPERATION')
  })

  test.each([
    ['VER-SERVER-002: another version', '2.0'],
    ['VER-SERVER-003: none, which stands for 0.3', ''],
  ])('%s', async (_, version) => {
    const answer = await ask(await start(), 'GetTask', { id: 'x' }, version ? { 'a2a-version': version } : {})

    expect(reasonOf(answer)).toBe('VERSION_NOT_SUPPORTED')
    expect(answer.error.code).toBe(binding === 'JSON-RPC' ? -32009 : 400)
  })

  test('VER-CLIENT-002: patches of the version do not count', async () => {
    expect(reasonOf(await ask(await start(), 'GetTask', { id: 'x' }, { 'a2a-version': '1.0.3' }))).toBe(
      'TASK_NOT_FOUND',
    )
  })

  test('CORE-HIST-002, CORE-LIST-004, CORE-LIST-005, DM-SERIAL: what lists and tasks look like', async () => {
    const server = await start()
    const { id } = await completed(server, ask)

    const { result: list } = await ask(server, 'ListTasks', { pageSize: 100 })
    const { result: bare } = await ask(server, 'GetTask', { id, historyLength: 0 })

    expect(list).toMatchObject({ nextPageToken: '', totalSize: 1, pageSize: 100 })
    expect(list.tasks[0]).not.toHaveProperty('artifacts')
    expect(list.tasks[0].status.timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    expect(bare).not.toHaveProperty('history')
    expect(bare.artifacts[0]).toEqual({ artifactId: 'answer', parts: [{ text: 'Yes.' }] })
  })

  test.each([
    [{ pageSize: 0 }, 'must be from 1 to 100'],
    [{ pageSize: 101 }, 'must be from 1 to 100'],
    [{ pageSize: 1e300 }, 'must be a whole number'],
    [{ pageSize: 'many' }, 'must be a whole number'],
    [{ pageSize: true }, 'must be a whole number'],
    [{ pageToken: 'x' }, 'is not one of this list'],
    [{ status: 'done' }, expect.any(String)],
    [{ historyLength: -1 }, 'must not be negative'],
    [{ historyLength: 1.5 }, 'must be a whole number'],
  ])('CORE-ERR-002: a list of %j is refused', async (params, description) => {
    const { error } = await ask(await start(), 'ListTasks', params)

    const [field] = Object.keys(params)
    expect((error.data ?? error.details)[1].fieldViolations[0]).toEqual({ field, description })
  })

  test('JSONRPC-ERR, HTTP_JSON-ERR: a server that is full says so', async () => {
    const server = await startTestServer({ agencies: soloAgency(), maxConcurrentRuns: 1 })
    const gate = server.provider.gate()
    server.provider.script([[hold(gate), text('Later.')]])
    await ask(server, 'SendMessage', { ...message(), configuration: { returnImmediately: true } })
    await gate.reached()

    const answer = await ask(server, 'SendMessage', message())
    gate.release()

    expect(reasonOf(answer)).toBe('OVERLOADED')
    if (binding === 'HTTP+JSON') expect([answer.status, answer.error.status]).toEqual([503, 'UNAVAILABLE'])
  })
})

describe('JSON-RPC', () => {
  test.each([
    ['JSONRPC-FMT-001: text that is not JSON', '{', 400, -32700],
    ['JSONRPC-FMT-001: another version of JSON-RPC', { jsonrpc: '1.0', id: 1, method: 'GetTask' }, 200, -32600],
    ['JSONRPC-FMT-001: a batch', [], 200, -32600],
    ['JSONRPC-FMT-001: a number', 5, 200, -32600],
    ['JSONRPC-FMT-001: null', null, 200, -32600],
    ['a notification that is not one', { jsonrpc: '2.0', method: 1 }, 200, -32600],
    ['JSONRPC-SVC-001: a method of 0.3', { jsonrpc: '2.0', id: 1, method: 'tasks/get' }, 200, -32601],
    ['a method by the name of a member of objects', { jsonrpc: '2.0', id: 1, method: 'constructor' }, 200, -32601],
  ])('%s', async (...[, body, status, code]) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await server.post('/a2a/solo', body, VERSION)

    expect([answer.status, answer.body.error.code]).toEqual([status, code])
    expect(answer.body.error.data[0]['@type']).toBe('type.googleapis.com/google.rpc.ErrorInfo')
  })

  test.each([
    ['without a version', 'solo', 200, {}],
    ['for an agency that is not there', 'nobody', 404, VERSION],
  ])('JSONRPC-FMT-002: the refusal of a request %s has its id', async (...[, agency, status, headers]) => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await server.post(`/a2a/${agency}`, { jsonrpc: '2.0', id: 'seven', method: 'GetTask' }, headers)

    expect([answer.status, answer.body.id]).toEqual([status, 'seven'])
  })

  test.each([
    ['SendMessage', message()],
    ['SendStreamingMessage', message()],
    ['GetTask', { id: 'none' }],
    ['nothing', {}],
  ])('a notification, which has no id, gets no response: %s', async (method, params) => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => text('Yes.'))
    const init = { method: 'POST', headers: { 'content-type': 'application/json', ...VERSION } }

    const answer = await fetch(`${server.url}/a2a/solo`, {
      ...init,
      body: JSON.stringify({ jsonrpc: '2.0', method, params }),
    })

    expect([answer.status, await answer.text()]).toEqual([204, ''])
    const { result } = await askRpc(server, 'ListTasks')
    expect(result.totalSize).toBe(method.startsWith('Send') ? 1 : 0)
  })

  test('JSONRPC-SSE-001: each frame is a response to the request', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Yes.')])
    const request = { jsonrpc: '2.0', id: 'seven', method: 'SendStreamingMessage', params: message() }

    const stream = await (await server.stream('/a2a/solo', request, { headers: VERSION })).all()

    expect(stream.response.headers.get('content-type')).toMatch(/^text\/event-stream/)
    const frames = stream.frames.map(({ data }) => JSON.parse(data))
    expect(frames.every(({ jsonrpc, id }) => jsonrpc === '2.0' && id === 'seven')).toBe(true)
    expect(frames.at(-1).result.statusUpdate.status.state).toBe('TASK_STATE_COMPLETED')
  })
})

describe('HTTP+JSON', () => {
  test.each(['GET', 'POST'])('HTTP_JSON-SSE-001, STREAM-ORDER: %s …:subscribe, by two at once', async (method) => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['Two ', hold(gate), 'million.'])])
    const begun = await askHttp(server, 'SendMessage', { ...message(), configuration: { returnImmediately: true } })
    await gate.reached()
    const { id } = begun.result.task
    const open = async () =>
      new TestStream(await fetch(`${server.url}/a2a/solo/tasks/${id}:subscribe`, { method, headers: VERSION }))
    const [first, second, leaving] = await Promise.all([open(), open(), open()])
    await Promise.all([first, second, leaving].map((stream) => stream.untilText('"task"')))

    await leaving.hangUp()
    gate.release()
    await Promise.all([first.all(), second.all()])

    const after = (stream: TestStream) => stream.frames.slice(1).map(({ data }) => JSON.parse(data).artifactUpdate)
    expect(after(first)).toEqual(after(second))
    expect(first.frames.at(-1)!.data).toContain('TASK_STATE_COMPLETED')
  })

  test('HTTP_JSON-ERR-001: a refusal is a google.rpc.Status', async () => {
    const server = await startTestServer({ agencies: soloAgency(), env: { APP_TOKEN: 'right' } })

    const response = await fetch(`${server.url}/a2a/solo/tasks`, { headers: VERSION })

    expect(response.status).toBe(401)
    expect(response.headers.get('www-authenticate')).toBe('Bearer')
    expect(await response.json()).toEqual({
      error: {
        code: 401,
        status: 'UNAUTHENTICATED',
        message: 'Send a token in the header Authorization: Bearer <token>.',
        details: [
          { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'NOT_AUTHENTICATED', domain: 'bureau' },
        ],
      },
    })
  })

  test('a page of another origin may not ask', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    const answer = await askHttp(server, 'ListTasks', {}, { ...VERSION, origin: 'https://evil.example' })

    expect(answer.status).toBe(403)
  })

  test('an agency that is not there is a 404', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    const response = await fetch(`${server.url}/a2a/nobody/tasks`, { headers: VERSION })

    expect(response.status).toBe(404)
    expect(await response.json()).toMatchObject({ error: { code: 404, status: 'NOT_FOUND' } })
  })

  test.each([
    ['an address that cannot be read', 'GET', '/tasks/%zz', 400, 'INVALID_ARGUMENT'],
    ['a body that is not JSON by its type', 'POST', '/message:send', 400, 'INVALID_ARGUMENT'],
  ])('%s is refused in the shape of the protocol', async (...[, method, path, code, status]) => {
    const server = await startTestServer({ agencies: soloAgency() })
    const body = method === 'POST' && { body: JSON.stringify(message()) }
    const headers = { ...VERSION, 'content-type': 'text/plain' }

    const response = await fetch(`${server.url}/a2a/solo${path}`, { method, headers, ...body })

    expect(await response.json()).toMatchObject({ error: { code, status } })
  })

  test('times may have an offset', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    const { status } = await askHttp(server, 'ListTasks', { statusTimestampAfter: '2020-01-01T00:00:00+02:00' })

    expect(status).toBe(200)
  })

  test('the version may be a parameter of the address', async () => {
    const server = await startTestServer({ agencies: soloAgency() })

    expect((await fetch(`${server.url}/a2a/solo/tasks?A2A-Version=1.0`)).status).toBe(200)
  })
})
