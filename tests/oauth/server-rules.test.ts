import { MemoryOAuthStateRegistry } from '@bureau/runtime'
import { Agency, Agent, MCPServerOAuth, tool } from '@bureau/framework'
import { ConfigError } from '@bureau/protocol'
import { createApp, loadConfig, type ServerOptions } from '@bureau/server'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { text, toolCall } from '../support/fake-provider.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'
import { Browser } from './support/browser.ts'
import {
  asUser,
  newTokenFolder,
  oauthFrames,
  startAnotherServer,
  startOAuthSetUp,
  testUser,
  toolOutputs,
  untilRedirect,
} from './support/oauth-set-up.ts'

function protectedAgency(): Agency {
  const server = new MCPServerOAuth({ name: 'notes', url: 'https://notes.example/mcp' })
  return new Agency({ entryPoint: new Agent({ name: 'Solo', mcpServers: [server] }) })
}

function build(options: Partial<ServerOptions>, env: Record<string, string> = {}): Promise<unknown> {
  return createApp({ logLevel: 'silent', agencies: { solo: protectedAgency() }, ...options }, loadConfig(env))
}

test.each([
  { what: 'protected tool servers', options: {} },
  { what: 'a registry', options: { agencies: soloAgency(), oauthRegistry: new MemoryOAuthStateRegistry() } },
  { what: 'verified callbacks', options: { agencies: soloAgency(), verifyOauthCallbackUser: true } },
])('ConfigError: $what without oauthUserId', async ({ options }) => {
  await expect(build(options)).rejects.toThrow(ConfigError)
  await expect(build(options)).rejects.toThrow('oauthUserId is missing')
})

test.each([
  { what: 'a redirect URI', env: { NOTES_REDIRECT_URI: 'not a url' } },
  { what: 'a callback URL', env: { OAUTH_CALLBACK_URL: '/auth/callback' } },
  { what: 'a secret without an id', env: { NOTES_CLIENT_SECRET: 's' } },
])('ConfigError at the start: $what of the environment cannot be used', async ({ env }) => {
  await expect(build({ oauthUserId: testUser }, env)).rejects.toThrow(ConfigError)
})

test('a server without protected tool servers has no OAuth routes and asks nobody who they are', async () => {
  const server = await startTestServer({ agencies: soloAgency() })
  expect((await server.get('/auth/callback?state=x&code=c')).status).toBe(404)
  expect((await server.get('/auth/status/x')).status).toBe(404)
})

test('a server with a registry of its own has the routes', async () => {
  const oauthRegistry = new MemoryOAuthStateRegistry()
  const server = await startTestServer({ agencies: soloAgency(), oauthRegistry, oauthUserId: testUser })
  await oauthRegistry.open({ state: 's', authUrl: 'https://login.example/', server: 'notes', userId: 'ada' })
  expect((await server.get('/auth/status/s', asUser('ada'))).body.status).toBe('pending')
})

test('get_response: 422 for a broken body, then 401 without a user, then 400 with the way out', async () => {
  const { server, notes } = await startOAuthSetUp()
  const post = (body: object, user?: string): ReturnType<typeof server.post> =>
    server.post('/solo/get_response', body, user === undefined ? {} : asUser(user))
  expect((await post({})).status).toBe(422)
  expect((await post({ message: 'hi' })).status).toBe(401)
  const answer = await post({ message: 'hi' }, 'ada')
  expect(answer.status).toBe(400)
  expect(answer.body.detail).toContain('streaming route')
  expect(server.provider.requests).toEqual([])
  expect(notes.requests).toBe(0)
})

test.each(['', '   '])('401 before streaming when the user lookup answers %j', async (user) => {
  const { server } = await startOAuthSetUp({ oauthUserId: () => user })
  const answer = await server.post('/solo/get_response_stream', { message: 'hi' })
  expect(answer.status).toBe(401)
  expect(answer.headers.get('content-type')).toContain('json')
  expect(answer.body.detail).toBe('The user of this request could not be determined.')
})

test('500 without internals when the user lookup breaks', async () => {
  const { server } = await startOAuthSetUp({
    oauthUserId: async () => {
      throw new Error('password of the session database')
    },
  })
  const answer = await server.post('/solo/get_response_stream', { message: 'hi' })
  expect(answer.status).toBe(500)
  expect(answer.text).not.toContain('password')
})

test('metadata and tools do not ask for a user', async () => {
  const { server } = await startOAuthSetUp({
    tools: [tool({ name: 'ping', description: 'p', parameters: z.object({}), execute: () => 'pong' })],
  })
  expect((await server.get('/solo/get_metadata')).status).toBe(200)
  expect((await server.post('/tool/ping', {})).body).toEqual({ response: 'pong' })
})

test('runs that need no protected tool do without a sign-in', async () => {
  const { server, notes, run } = await startOAuthSetUp()
  server.provider.respond(() => text('Good morning'))
  const stream = await (await run('ada', 'hi')).all()
  expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
  expect(notes.requests).toBe(0)
})

const cancelUrl = '/solo/cancel_response_stream'

test('cancel: only the user who began the run can; others learn nothing of it', async () => {
  const { server, run } = await startOAuthSetUp()
  const stream = await run('ada')
  await untilRedirect(stream)
  const cancel = (headers: Record<string, string>): ReturnType<typeof server.post> =>
    server.post(cancelUrl, { run_id: stream.runId }, headers)

  expect((await cancel({})).status).toBe(401)
  const foreign = await cancel(asUser('eve'))
  expect(foreign).toMatchObject({
    status: 404,
    body: { detail: `Run '${stream.runId}' not found or already completed` },
  })
  const own = await cancel(asUser('ada'))
  expect(own).toMatchObject({ status: 200, body: { ok: true, cancelled: true } })
  await stream.all()
  expect(stream.result.cancelled).toBe(true)
})

test.each(['immediate', 'after_turn'])(
  '%s cancel ends a pending sign-in; the late callback is refused',
  async (mode) => {
    const { server, run } = await startOAuthSetUp()
    const stream = await run('ada')
    const { state, auth_url: authUrl } = await untilRedirect(stream)
    const cancelling = await server.post(cancelUrl, { run_id: stream.runId, cancel_mode: mode }, asUser('ada'))
    expect(cancelling.body).toMatchObject({ ok: true, cancelled: true, cancel_mode: mode, timed_out: false })
    await stream.all()
    expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
    expect(stream.result.cancelled).toBe(true)

    const late = await new Browser().signIn(authUrl, 'ada')
    expect(late.status).toBe(400)
    expect((await server.get(`/auth/status/${state}`, asUser('ada'))).body.status).toBe('error:cancelled')
  },
)

test('a client that hangs up ends the pending sign-in', async () => {
  const { server, run } = await startOAuthSetUp()
  const stream = await run('ada')
  const { state } = await untilRedirect(stream)
  await stream.hangUp()
  await expect
    .poll(async () => (await server.get(`/auth/status/${state}`, asUser('ada'))).body.status)
    .toBe('error:cancelled')
})

test('AG-UI: the same OAuth frames stand between its events, and the run goes on after the sign-in', async () => {
  const { server } = await startOAuthSetUp({ enableAgui: true })
  const message = { id: 'm1', role: 'user', content: 'read my notes' }
  const body = {
    threadId: 't',
    runId: 'r',
    state: null,
    messages: [message],
    tools: [],
    context: [],
    forwardedProps: null,
  }
  expect((await server.post('/solo/get_response_stream', body)).status).toBe(401)

  const stream = await server.stream('/solo/get_response_stream', body, { headers: asUser('ada') })
  const { state, auth_url: authUrl } = await untilRedirect(stream)
  await new Browser().signIn(authUrl, 'ada')
  await stream.all()
  expect(oauthFrames(stream).map(({ event, status }) => status ?? event)).toEqual([
    'oauth_redirect',
    'pending',
    'authorized',
  ])
  expect(oauthFrames(stream).every((frame) => frame.state === state)).toBe(true)
  expect(stream.text).toContain('Notes of ada')
  expect(stream.text).toContain('RUN_FINISHED')
})

test('the sign-in is the user’s: other agents of the run that declare the server have its tools, the others do not', async () => {
  const { server, run } = await startWorkers()
  const stream = await run('ada')
  await new Browser().signIn((await untilRedirect(stream)).auth_url, 'ada')
  await stream.all()
  const workers = server.provider.modelRequests.filter(({ instructions }) => instructions.includes('worker'))
  expect(workers.map(({ toolNames }) => toolNames)).toEqual([
    ['read_notes', 'write_note', 'authenticate_mcp_server'],
    [],
  ])
})

/** A boss who signs in and asks two workers, of whom one declares the server as well. */
async function startWorkers(): ReturnType<typeof startOAuthSetUp> {
  const setUp = await startOAuthSetUp({
    agentsOf: (notes) => {
      const worker = new Agent({ name: 'Worker', model: 'gpt-test', instructions: 'a worker', mcpServers: [notes] })
      const other = new Agent({ name: 'Other', model: 'gpt-test', instructions: 'another worker' })
      const boss = new Agent({ name: 'Boss', model: 'gpt-test', instructions: 'a boss', mcpServers: [notes] })
      return new Agency({
        entryPoint: boss,
        flows: [
          [boss, worker],
          [boss, other],
        ],
      })
    },
  })
  setUp.server.provider.respond((request) => {
    if (request.instructions.includes('worker')) return text('I have nothing')
    const { length } = request.toolOutputs
    if (length === 0) return toolCall('authenticate_mcp_server', { server_name: 'notes' })
    const name = ['Worker', 'Other'][length - 1]
    const message = { recipient_agent: name, message: 'read', additional_instructions: '' }
    return name ? toolCall('send_message', message) : text('done')
  })
  return setUp
}

test('two servers with tools of one name: the second one is refused, and the run goes on', async () => {
  const first = await startOAuthSetUp()
  const other = new MCPServerOAuth({ name: 'archive', url: first.notes.url, redirectUri: first.address.callbackUrl })
  const [declared] = [...first.agency.agents.get('Solo')!.protectedServers.values()]
  const solo = new Agent({ name: 'Solo', model: 'gpt-test', mcpServers: [declared!.server, other] })
  const server = await startTestServer({
    agencies: { solo: new Agency({ entryPoint: solo }) },
    oauthUserId: testUser,
    oauthTokenPath: first.tokenFolder,
    egress: { allow: [first.idp.host] },
  })
  first.address.forwardTo(server.url)
  server.provider.respond((request) => {
    const name = ['notes', 'archive'][request.toolOutputs.length]
    return name ? toolCall('authenticate_mcp_server', { server_name: name }) : text('done')
  })
  const stream = await server.stream('/solo/get_response_stream', { message: 'hi' }, { headers: asUser('ada') })
  const browser = new Browser()
  await browser.signIn((await untilRedirect(stream)).auth_url, 'ada')
  const second = await stream.until(({ event, data }) => event === 'oauth_redirect' && data.includes('"archive"'))
  await browser.signIn(JSON.parse(second.data).auth_url, 'ada')
  await stream.all()
  expect(toolOutputs(stream)).toEqual([
    'Authenticated with "notes". Its tools are available now. Not authenticated yet: "archive".',
    'Failed to authenticate "archive": its tools have names that other tools of the agent have.',
  ])
  expect(server.provider.modelRequests.at(-1)?.toolNames).toEqual([
    'read_notes',
    'write_note',
    'authenticate_mcp_server',
  ])
})

test('sign-ins that the model asks for at once follow each other', async () => {
  const { server, run } = await startOAuthSetUp()
  const both = [0, 1].map(() => toolCall('authenticate_mcp_server', { server_name: 'notes' }))
  server.provider.script([both, text('done')])
  const stream = await run('ada')
  await new Browser().signIn((await untilRedirect(stream)).auth_url, 'ada')
  await stream.all()
  expect(oauthFrames(stream).filter(({ event }) => event === 'oauth_redirect')).toHaveLength(1)
  expect(toolOutputs(stream)).toEqual([
    'Authenticated with "notes". Its tools are available now.',
    expect.stringContaining('was checked and renewed where needed'),
  ])
})

test('token files lie where the server says for the agency, else where the environment says', async () => {
  const setUp = await startOAuthSetUp()
  const stream = await setUp.run('ada')
  await new Browser().signIn((await untilRedirect(stream)).auth_url, 'ada')
  await stream.all()
  const options = {
    oauthTokenPath: { solo: setUp.tokenFolder },
    env: { BUREAU_OAUTH_TOKEN_PATH: await newTokenFolder() },
  }

  const known = await startAnotherServer(setUp, options)
  expect(oauthFrames(await (await known.run('ada')).all())).toEqual([])

  const unknown = await startAnotherServer(setUp, { ...options, oauthTokenPath: {} })
  const asked = await unknown.run('ada')
  await untilRedirect(asked)
  await asked.hangUp()
})
