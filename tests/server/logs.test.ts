import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Agency, Agent, tool } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { status, text, toolCall } from '../support/fake-provider.ts'
import { closeAfterTest, type Json, soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'

async function startLoggingServer(options: Parameters<typeof startTestServer>[0] = {}) {
  const logsDir = path.join(await mkdtemp(path.join(tmpdir(), 'bureau-logs-')), 'activity')
  closeAfterTest(() => rm(path.dirname(logsDir), { recursive: true, force: true }))
  const server = await startTestServer({ agencies: soloAgency(), enableLogging: true, logsDir, ...options })
  return { server, logsDir }
}

const named = (id: string): Record<string, string> => ({ 'x-agency-log-id': id })

async function readLog(server: TestServer, id: string): Promise<Json[]> {
  const { status: code, body } = await server.get(`/get_logs?log_id=${id}`)
  expect(code).toBe(200)
  return body
}

const messagesOf = (records: Json[]): string[] => records.map((record) => record.message)

describe('x-agency-log-id', () => {
  test('collects what was logged while the request was served, in the order in which it was logged', async () => {
    const echo = tool({ name: 'echo', description: 'Echoes.', parameters: z.object({}), execute: () => 'x' })
    const { server } = await startLoggingServer({ agencies: soloAgency({ tools: [echo] }) })
    server.provider.script([toolCall('echo'), text('Done')])

    await server.post('/solo/get_response', { message: 'hi' }, named('run-1'))
    const records = await readLog(server, 'run-1')

    expect(messagesOf(records)).toEqual([
      'run started',
      'model answered',
      'tool returned',
      'model answered',
      'agent done',
      'run ended',
      'request',
    ])
    expect(records[1].details.fields).toMatchObject({ agent: 'Solo', model: 'gpt-test', usage: { input_tokens: 20 } })
    expect(records[2].details.fields).toMatchObject({ agent: 'Solo', tool: 'echo' })
    expect(records[5].details.fields).toMatchObject({ agency: 'solo', status: 'completed' })
    expect(records[6].details.fields).toEqual({
      requestId: expect.any(String),
      method: 'POST',
      route: '/solo/get_response',
      status: 200,
      durationMs: expect.any(Number),
    })
  })

  test('records have a message, a local time, a level and the place in the code', async () => {
    const { server } = await startLoggingServer()
    server.provider.script([text('Hello')])

    await server.post('/solo/get_response', { message: 'hi' }, named('shape'))

    for (const record of await readLog(server, 'shape')) {
      expect(Object.keys(record)).toEqual(['message', 'details'])
      expect(record.details.timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}$/)
      expect(record.details.level).toMatch(/^(DEBUG|INFO)$/)
      expect(record.details.location).toEqual({
        file: expect.stringMatching(/^[\w.-]+\.ts$/),
        function: expect.any(String),
        line: expect.any(Number),
      })
    }
  })

  test('collects streams, failures with their traceback, and nested agents', async () => {
    const worker = new Agent({ name: 'Worker', instructions: 'Work.', model: 'gpt-test' })
    const boss = new Agent({ name: 'Boss', instructions: 'Lead.', model: 'gpt-test' })
    const agencies = { two: new Agency({ entryPoint: boss, flows: [[boss, worker]] }) }
    const { server } = await startLoggingServer({ agencies })
    const message = { recipient_agent: 'Worker', message: 'Do it', additional_instructions: '' }
    server.provider.script([toolCall('send_message', message), text('worked'), status(401)])

    await (await server.stream('/two/get_response_stream', { message: 'go' }, { headers: named('nested') })).all()
    const records = await readLog(server, 'nested')

    expect(messagesOf(records)).toEqual([
      'run started',
      'model answered',
      'model answered',
      'agent done',
      'tool returned',
      'model request failed',
      'agent stopped',
      'run failed',
      'run ended',
      'request',
    ])
    expect(records[3].details.fields).toMatchObject({ agent: 'Worker', callerAgent: 'Boss' })
    const failure = records.find((record) => record.message === 'run failed')
    expect(failure.details.level).toBe('WARNING')
    expect(failure.details.exception).toMatchObject({
      type: 'ModelError',
      message: 'The model provider did not accept the API key (HTTP 401). (upstream_auth_failed)',
    })
    expect(failure.details.exception.traceback[0]).toMatch(/^at .*:\d+:\d+\)?$/)
    expect(JSON.stringify(records)).not.toContain(process.cwd())
  })

  test('keeps several requests with one id together and others apart', async () => {
    const { server } = await startLoggingServer()
    server.provider.respond(() => text('ok'))

    await Promise.all([
      server.post('/solo/get_response', { message: 'a' }, named('ours')),
      server.post('/solo/get_response', { message: 'b' }, named('theirs')),
      server.post('/solo/get_response', { message: 'c' }, named('ours')),
      server.post('/solo/get_response', { message: 'd' }),
    ])

    expect(messagesOf(await readLog(server, 'ours')).filter((message) => message === 'request')).toHaveLength(2)
    expect(messagesOf(await readLog(server, 'theirs')).filter((message) => message === 'request')).toHaveLength(1)
  })

  test('holds no keys, no messages and no user context, not even in the errors of tools', async () => {
    const secrets = [
      'sk-caller-0123456789',
      'th-key-0123456789',
      'the user said this',
      'ctx-value-123',
      'header-secret-1',
    ]
    const leaky = tool({
      name: 'leaky',
      description: 'Fails.',
      parameters: z.object({ note: z.string() }),
      execute: () => {
        throw new Error(`broken: ${secrets.join(' ')}`)
      },
    })
    const { server } = await startLoggingServer({
      agencies: soloAgency({ tools: [leaky], instructions: () => Promise.reject(new Error(secrets.join(' '))) }),
      tools: [leaky],
      env: { APP_TOKEN: 'server-token-1' },
    })
    const client_config = {
      api_key: secrets[0],
      thirdparty_keys: { anthropic: secrets[1] },
      default_headers: { 'x-gateway': secrets[4] },
    }
    const body = { message: secrets[2], user_context: { deep: { value: secrets[3] } }, client_config }
    const headers = { ...named('secret'), authorization: 'Bearer server-token-1' }

    const answer = await server.post('/solo/get_response?api_key=query-secret-1', body, headers)
    await server.post('/tool/leaky', { note: secrets.join(' ') }, headers)
    const { text: log } = await server.get('/get_logs?log_id=secret', { authorization: 'Bearer server-token-1' })

    expect(answer.status).toBe(500)
    expect(log).toContain('run failed')
    expect(log).toContain('[redacted]')
    for (const secret of [...secrets, 'query-secret-1', 'server-token-1']) expect(log).not.toContain(secret)
  })

  test('is not echoed, and does nothing when logging is off', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([text('Hello')])

    const answer = await server.post('/solo/get_response', { message: 'hi' }, named('quiet'))

    expect(answer.headers.get('x-agency-log-id')).toBeNull()
    expect((await server.get('/get_logs?log_id=quiet')).status).toBe(404)
    expect(existsSync('activity-logs')).toBe(false)
  })

  test.each(['../../escape', '..', '.', 'a/b', 'a\\b', 'x'.repeat(129), 'with space', 'nül', '%2e%2e%2fescape', ''])(
    'writes nothing under an id that could leave the directory: %j',
    async (id) => {
      const { server, logsDir } = await startLoggingServer()
      server.provider.script([text('Hello')])

      const { status: code } = await server.post('/solo/get_response', { message: 'hi' }, named(encodeURI(id)))

      expect(code).toBe(200)
      expect(await readdir(logsDir)).toEqual([])
      expect(await readdir(path.dirname(logsDir))).toEqual(['activity'])
    },
  )

  test('counts only after authentication, and on open routes not at all', async () => {
    const { server, logsDir } = await startLoggingServer({ env: { APP_TOKEN: 'secret-token' } })

    const refused = await server.post('/solo/get_response', { message: 'hi' }, named('intruder'))
    const wrong = await server.post('/nowhere', {}, { ...named('intruder'), authorization: 'Bearer wrong' })
    await server.get('/healthz', named('intruder'))
    const read = await server.get('/get_logs?log_id=intruder', { authorization: 'Bearer secret-token' })

    expect([refused.status, wrong.status, read.status]).toEqual([401, 401, 404])
    expect(await readdir(logsDir)).toEqual([])
  })

  test('follows no link that somebody has planted in the directory', async () => {
    const { server, logsDir } = await startLoggingServer()
    const target = path.join(path.dirname(logsDir), 'target.txt')
    await writeFile(target, 'untouched')
    await symlink(target, path.join(logsDir, 'planted.jsonl'))

    await server.get('/solo/get_metadata', named('planted'))
    const answer = await server.get('/get_logs?log_id=planted')

    expect(answer.status).toBe(500)
    expect(answer.text).not.toContain('untouched')
  })

  test('a file that is full takes no more records', async () => {
    const { server, logsDir } = await startLoggingServer()
    await writeFile(path.join(logsDir, 'full.jsonl'), `${'x'.repeat(10_485_000)}\n`)

    await Promise.all(Array.from({ length: 20 }, () => server.get('/solo/get_metadata', named('full'))))

    // What does not fit is dropped, and what does not parse is left out.
    expect((await readLog(server, 'full')).length).toBeLessThan(5)
  })
})

test('logs belong to the user of the process alone', async () => {
  const { server, logsDir } = await startLoggingServer()
  await server.get('/solo/get_metadata', named('private'))
  await server.get('/get_logs?log_id=other')

  const modes = await Promise.all([logsDir, path.join(logsDir, 'private.jsonl')].map((each) => stat(each)))

  expect(modes.map(({ mode }) => (mode & 0o777).toString(8))).toEqual(['700', '600'])
})

describe('GET and POST /get_logs', () => {
  test('200 hands the records out once and deletes the file', async () => {
    const { server, logsDir } = await startLoggingServer()
    await server.get('/solo/get_metadata', named('once'))

    const first = await server.post('/get_logs', { log_id: 'once' })
    const second = await server.post('/get_logs', { log_id: 'once' })

    expect(first.status).toBe(200)
    expect(first.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(messagesOf(first.body)).toEqual(['request'])
    expect(first.text).toBe(JSON.stringify(first.body, null, 2))
    expect(second.status).toBe(404)
    expect(second.body.error).toBe('Log file not found')
    expect(await readdir(logsDir)).toEqual([])
  })

  test('of several readers at once exactly one gets the records', async () => {
    const { server } = await startLoggingServer()
    await server.get('/solo/get_metadata', named('race'))

    const answers = await Promise.all([1, 2, 3, 4].map(() => server.get('/get_logs?log_id=race')))

    expect(answers.filter((answer) => answer.status === 200)).toHaveLength(1)
    expect(answers.filter((answer) => answer.status === 404)).toHaveLength(3)
  })

  test('does not record itself', async () => {
    const { server } = await startLoggingServer()
    await server.get('/solo/get_metadata', named('self'))

    expect((await server.get('/get_logs?log_id=self', named('self'))).status).toBe(200)
    expect((await server.get('/get_logs?log_id=self')).status).toBe(404)
  })

  test('leaves out lines that were cut off', async () => {
    const { server, logsDir } = await startLoggingServer()
    await writeFile(path.join(logsDir, 'torn.jsonl'), '{"message":"whole"}\n{"message":"to\n')

    expect(await readLog(server, 'torn')).toEqual([{ message: 'whole' }])
  })

  test.each([
    ['GET', '/get_logs', undefined, 400, 'Log ID is required'],
    ['GET', '/get_logs?log_id=', undefined, 400, 'Log ID is required'],
    ['POST', '/get_logs', { log_id: '' }, 400, 'Log ID is required'],
    ['GET', '/get_logs?log_id=never', undefined, 404, 'Log file not found'],
    ['POST', '/get_logs', { log_id: 'never' }, 404, 'Log file not found'],
    ['POST', '/get_logs', { log_id: '../../etc/passwd' }, 404, 'Log file not found'],
    ['GET', '/get_logs?log_id=..%2F..%2Fetc%2Fpasswd', undefined, 404, 'Log file not found'],
  ] as const)('%s %s %j is %i', async (...[method, route, body, code, error]) => {
    const { server } = await startLoggingServer()

    const answer = method === 'GET' ? await server.get(route) : await server.post(route, body)

    expect(answer.status).toBe(code)
    expect(answer.body.error).toBe(error)
  })

  test('422 without log_id in the body', async () => {
    const { server } = await startLoggingServer()

    const answer = await server.post('/get_logs', {})

    expect(answer.status).toBe(422)
    expect(answer.body.detail[0]).toMatchObject({ type: 'missing', loc: ['body', 'log_id'] })
  })

  test('500 when the log cannot be read, without a word about why', async () => {
    const { server, logsDir } = await startLoggingServer()
    await mkdir(path.join(logsDir, 'folder.jsonl'))

    const answer = await server.post('/get_logs', { log_id: 'folder' })

    expect(answer.status).toBe(500)
    expect(answer.body).toEqual({
      detail: 'Internal server error',
      error: 'Internal server error',
      code: 'internal_error',
    })
  })

  test('401 without the token', async () => {
    const { server } = await startLoggingServer({ env: { APP_TOKEN: 'secret-token' } })

    expect((await server.get('/get_logs?log_id=x')).status).toBe(401)
    expect((await server.post('/get_logs', { log_id: 'x' })).status).toBe(401)
  })
})
