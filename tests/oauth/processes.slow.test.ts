import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { type FakeProvider, startFakeProvider } from '../support/fake-provider.ts'
import { closeAfterTest, type Json, TestStream } from '../support/test-server.ts'
import { Browser } from './support/browser.ts'
import { type IdentityProvider, startIdentityProvider } from './support/identity-provider.ts'
import { asUser, newTokenFolder, notesTurn, oauthFrames, toolOutputs, untilRedirect } from './support/oauth-set-up.ts'
import { type ProtectedToolServer, startProtectedToolServer } from './support/protected-tool-server.ts'
import { type PublicAddress, startPublicAddress } from './support/public-address.ts'
import { TEST_REDIS_URL, testRedisReachable } from '../support/test-redis.ts'

const SCRIPT = fileURLToPath(new URL('./support/server-process.ts', import.meta.url))
const reachable = await testRedisReachable()

type Process = {
  readonly url: string
  readonly child: ChildProcess
  run(user: string): Promise<TestStream>
  get(path: string, user: string): Promise<Json>
  cancel(runId: string, user: string): Promise<{ status: number; body: Json }>
}

type Cluster = {
  readonly idp: IdentityProvider
  readonly notes: ProtectedToolServer
  readonly provider: FakeProvider
  readonly address: PublicAddress
  start(): Promise<Process>
}

/** Everything that processes share: a provider, a tool server, a model, Redis and the token files. */
async function startCluster(): Promise<Cluster> {
  const idp = await startIdentityProvider()
  const notes = await startProtectedToolServer(idp)
  const address = await startPublicAddress()
  const provider = await startFakeProvider()
  closeAfterTest(() => provider.close())
  provider.respond((request) => notesTurn(request))
  const env = {
    PATH: process.env['PATH'],
    NOTES_URL: notes.url,
    TOKEN_FOLDER: await newTokenFolder(),
    OAUTH_CALLBACK_URL: address.callbackUrl,
    BUREAU_ALLOWED_HOSTS: idp.host,
    REDIS_URL: TEST_REDIS_URL,
    OPENAI_API_KEY: 'sk-server',
    OPENAI_BASE_URL: provider.baseUrl,
  }
  return { idp, notes, provider, address, start: () => startProcess(env) }
}

async function startProcess(env: NodeJS.ProcessEnv): Promise<Process> {
  const child = spawn(process.execPath, ['--conditions=@bureau/source', SCRIPT], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  closeAfterTest(async () => {
    child.kill('SIGKILL')
    await exited
  })
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  const url = line.toString().trim()
  const headers = (user: string): Record<string, string> => ({ 'content-type': 'application/json', ...asUser(user) })
  const post = (path: string, body: object, user: string): Promise<Response> =>
    fetch(url + path, { method: 'POST', headers: headers(user), body: JSON.stringify(body) })
  return {
    url,
    child,
    run: async (user) => new TestStream(await post('/solo/get_response_stream', { message: 'read my notes' }, user)),
    get: async (path, user) => (await fetch(url + path, { headers: headers(user) })).json(),
    cancel: async (runId, user) => {
      const response = await post('/solo/cancel_response_stream', { run_id: runId }, user)
      return { status: response.status, body: await response.json() }
    },
  }
}

describe.runIf(reachable)('two processes with Redis', () => {
  test('a sign-in begun on one process and called back on the other completes', async () => {
    const cluster = await startCluster()
    const [first, second] = await Promise.all([cluster.start(), cluster.start()])
    cluster.address.forwardTo(second.url)

    const stream = await first.run('ada')
    const { state, auth_url: authUrl } = await untilRedirect(stream)
    expect(await second.get(`/auth/status/${state}`, 'ada')).toMatchObject({ status: 'pending', server_name: 'notes' })
    expect(await second.get(`/auth/status/${state}`, 'eve')).toMatchObject({ detail: `Unknown OAuth state: ${state}` })

    const answer = await new Browser().signIn(authUrl, 'ada@idp')
    expect(await answer.json()).toEqual({ status: 'ok', state, server_name: 'notes' })
    await stream.all()
    expect(oauthFrames(stream).at(-1)).toMatchObject({ status: 'authorized' })
    expect(toolOutputs(stream).at(-1)).toContain('Notes of ada@idp')
    expect(await second.get(`/auth/status/${state}`, 'ada')).toMatchObject({ status: 'authorized' })

    const next = await (await second.run('ada')).all()
    expect(oauthFrames(next)).toEqual([])
    expect(toolOutputs(next).at(-1)).toContain('Notes of ada@idp')
  })

  test('a cancel sent to the other process reaches the run and answers with its messages', async () => {
    const cluster = await startCluster()
    const [first, second] = await Promise.all([cluster.start(), cluster.start()])
    const stream = await first.run('ada')
    await untilRedirect(stream)

    expect((await second.cancel(stream.runId, 'eve')).status).toBe(404)
    const { status, body } = await second.cancel(stream.runId, 'ada')
    await stream.all()
    expect(status).toBe(200)
    expect(body).toMatchObject({ ok: true, cancelled: true, timed_out: false })
    expect(body.new_messages).toEqual(stream.result.new_messages)
    expect(body.new_messages).toEqual([expect.objectContaining({ role: 'user', content: 'read my notes' })])
  })

  test('processes that refresh at once use the refresh token once', async () => {
    const cluster = await startCluster()
    const both = await Promise.all([cluster.start(), cluster.start()])
    cluster.address.forwardTo(both[0].url)
    const stream = await both[0].run('ada')
    await new Browser().signIn((await untilRedirect(stream)).auth_url, 'ada')
    await stream.all()
    cluster.notes.expireAccessTokens()

    const streams = await Promise.all([...both, ...both].map((process) => process.run('ada')))
    for (const each of streams) {
      await each.all()
      expect(oauthFrames(each)).toEqual([])
      expect(toolOutputs(each).at(-1)).toContain('Notes of ada')
    }
    expect(cluster.idp.tokenRequests.filter((request) => request.get('grant_type') === 'refresh_token')).toHaveLength(1)
  })

  test('when the waiting process is killed, its run and its sign-in disappear, and another process starts anew', async () => {
    const cluster = await startCluster()
    const [first, second] = await Promise.all([cluster.start(), cluster.start()])
    cluster.address.forwardTo(second.url)
    const stream = await first.run('ada')
    const { state, auth_url: authUrl } = await untilRedirect(stream)
    const callbackUrl = await new Browser().callbackUrl(authUrl, 'ada')
    first.child.kill('SIGKILL')
    await expect(stream.all()).rejects.toThrow('terminated')

    await expect
      .poll(async () => (await second.get(`/auth/status/${state}`, 'ada')).status, { interval: 500 })
      .toBe('error:abandoned')
    const answer = await fetch(callbackUrl)
    expect(answer.status).toBe(400)
    expect(await answer.json()).toMatchObject({ detail: `OAuth flow for state ${state} is not awaited any more` })
    expect((await second.cancel(stream.runId, 'ada')).status).toBe(404)
    expect(cluster.idp.tokenRequests).toEqual([])

    const anew = await second.run('ada')
    await new Browser().signIn((await untilRedirect(anew)).auth_url, 'ada')
    await anew.all()
    expect(toolOutputs(anew).at(-1)).toContain('Notes of ada')
  })
})
