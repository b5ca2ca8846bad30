import { hostedMcpTool } from '@openai/agents-core'
import { enableHostedMcpToolOAuth } from '@bureau/framework'
import { describe, expect, test } from 'vitest'
import type { TestStream } from '../support/test-server.ts'
import { Browser } from '../oauth/support/browser.ts'
import { notesTurn, oauthFrames, signInStatuses, toolOutputs, untilRedirect } from '../oauth/support/oauth-set-up.ts'
import { text, toolCall } from '../support/fake-provider.ts'
import { startSignInPlatform } from './support/sign-in-platform.ts'
import type { Answer, Json, TestClient } from './support/test-client.ts'
import { ENGINES } from './support/test-platform.ts'

/** A run whose user signs in under this name. */
async function signedIn(client: TestClient, login: string, request = {}): Promise<TestStream> {
  const stream = await client.complete(request)
  const { auth_url: authUrl } = await untilRedirect(stream)
  expect((await new Browser().signIn(authUrl, login)).status).toBe(200)
  return stream.all()
}

describe.each(ENGINES)('protected tool servers on the platform on %s', (engine) => {
  test('the user is asked in the stream, signs in, and the run goes on; the next run finds the tokens', async () => {
    const { platform, idp } = await startSignInPlatform(engine)
    const client = await platform.client()

    const stream = await client.complete()
    const { state, server, auth_url: authUrl } = await untilRedirect(stream)
    expect([server, state]).toEqual(['notes', expect.stringMatching(/^[\w-]{43}$/)])
    const answer = await new Browser().signIn(authUrl, 'ada@idp')
    await stream.all()

    expect(await answer.json()).toEqual({ status: 'ok', state, server_name: 'notes' })
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect(oauthFrames(stream)).toEqual([
      { event: 'oauth_redirect', state, server: 'notes', auth_url: authUrl },
      { event: 'oauth_status', state, server: 'notes', status: 'pending' },
      { event: 'oauth_status', state, server: 'notes', status: 'authorized' },
    ])
    expect(toolOutputs(stream).at(-1)).toContain('Notes of ada@idp')
    expect(stream.result.status).toBe('completed')
    expect(stream.ids).toEqual(stream.ids.map((_, index) => index + 1))

    const next = await client.completeWhole()
    expect(oauthFrames(next.stream)).toEqual([])
    expect(toolOutputs(next.stream).at(-1)).toContain('Notes of ada@idp')
    expect(idp.registrations).toHaveLength(1)
    expect(await platform.violations()).toEqual([])
  })

  test('tokens stand nowhere in plain text, and neither the model nor the messages see them, state or code', async () => {
    const { platform, idp } = await startSignInPlatform(engine)
    const client = await platform.client()
    const stream = await client.complete()
    const { state, auth_url: authUrl } = await untilRedirect(stream)
    const browser = new Browser()
    const callbackUrl = await browser.callbackUrl(authUrl, 'ada')
    await browser.get(callbackUrl)
    await stream.all()

    const secrets = [...idp.issuedTokens, new URL(callbackUrl).searchParams.get('code')!]
    const tables = await platform.rows(`SELECT table_name AS name FROM information_schema.columns
      WHERE table_schema = current_schema() AND column_name = 'owner_id' AND table_name NOT LIKE 'v_%'`)
    for (const { name } of tables) {
      const rows = JSON.stringify(await platform.rows(`SELECT t::text FROM ${String(name)} t`))
      for (const secret of secrets) {
        expect(rows).not.toContain(secret)
        expect(rows).not.toContain(Buffer.from(secret).toString('hex'))
      }
    }
    const told = JSON.stringify([platform.provider.modelRequests.map(({ body }) => body), stream.result])
    for (const secret of [...secrets, state]) expect(told).not.toContain(secret)
  })

  test('consumers sign in for themselves, at once; requests without a consumer are the owner', async () => {
    const { platform } = await startSignInPlatform(engine)
    const client = await platform.client()
    const streams = [
      await client.complete({ consumerId: 'ada' }),
      await client.complete({ consumerId: 'eve' }),
      await client.complete(),
    ]
    const redirects = await Promise.all(streams.map((stream) => untilRedirect(stream)))
    await Promise.all(redirects.map(({ auth_url: url }, index) => new Browser().signIn(url, `login-${index}`)))
    for (const [index, stream] of streams.entries()) {
      await stream.all()
      expect(toolOutputs(stream).at(-1)).toContain(`Notes of login-${index}`)
    }

    const again = await client.completeWhole({ consumerId: 'eve' })
    expect(toolOutputs(again.stream).at(-1)).toContain('Notes of login-1')
  })

  test('neither another owner nor a consumer of the same name elsewhere has the tokens', async () => {
    const { platform } = await startSignInPlatform(engine)
    const client = await platform.client()
    await signedIn(client, 'ada', { consumerId: 'ada' })
    const elsewhere = client.with({ integrationId: await platform.addIntegration(client.ownerId) })
    for (const other of [elsewhere, await platform.client()]) {
      const stream = await other.complete({ consumerId: 'ada' })
      await untilRedirect(stream)
      await other.post(`/v1/runs/${stream.runId}/cancel`)
      await stream.all()
      expect(signInStatuses(stream)).toEqual(['pending', 'error:cancelled'])
    }
  })

  test('an access token that has ended is refreshed silently; a revoked refresh token asks the user again', async () => {
    const { platform, idp, notes } = await startSignInPlatform(engine)
    const client = await platform.client()
    await signedIn(client, 'ada')

    notes.expireAccessTokens()
    const runs = await Promise.all(Array.from({ length: 4 }, () => client.completeWhole()))
    for (const { stream } of runs) {
      expect(oauthFrames(stream)).toEqual([])
      expect(toolOutputs(stream).at(-1)).toContain('Notes of ada')
    }
    expect(idp.tokenRequests.filter((request) => request.get('grant_type') === 'refresh_token')).toHaveLength(1)

    notes.expireAccessTokens()
    idp.revokeRefreshTokens()
    const asked = await signedIn(client, 'ada')
    expect(signInStatuses(asked)).toEqual(['pending', 'authorized'])
    expect(toolOutputs(asked).at(-1)).toContain('Notes of ada')
  })

  test('denial: the browser is told, the run goes on without and completes', async () => {
    const { platform } = await startSignInPlatform(engine)
    const client = await platform.client()
    const stream = await client.complete()
    const answer = await new Browser().deny((await untilRedirect(stream)).auth_url)
    await stream.all()

    expect(answer.status).toBe(400)
    expect(await answer.json()).toEqual({
      error: 'OAuth error: access_denied: End-User aborted interaction',
      code: 'oauth_callback_rejected',
      requestId: expect.any(String),
    })
    expect(signInStatuses(stream)).toEqual(['pending', 'error:access_denied: End-User aborted interaction'])
    expect(toolOutputs(stream)).toEqual(['Failed to authenticate "notes": the sign-in was refused (access_denied).'])
    expect(stream.result.status).toBe('completed')
  })

  test('nobody signs in within the limit: the run goes on without and completes; who comes late is told', async () => {
    const { platform } = await startSignInPlatform(engine, { config: { signInTimeoutMs: 300 } })
    const client = await platform.client()
    const stream = await client.complete()
    const { state, auth_url: authUrl } = await untilRedirect(stream)
    await stream.all()
    expect(signInStatuses(stream)).toEqual(['pending', 'timeout'])
    expect(stream.result.status).toBe('completed')

    const late = await new Browser().get(authUrl)
    expect(late.status).toBe(400)
    expect(await late.json()).toMatchObject({
      error: `OAuth flow for state ${state} is not pending (status: timeout)`,
    })
  })

  test.each(['immediate', 'after_turn'])('a cancel (%s) ends the wait at once; the chat is free', async (mode) => {
    const { platform, idp } = await startSignInPlatform(engine)
    const client = await platform.client()
    const stream = await client.complete()
    const { auth_url: authUrl } = await untilRedirect(stream)
    const browser = new Browser()
    const callbackUrl = await browser.callbackUrl(authUrl, 'ada')

    const cancelled = await client.post(`/v1/runs/${stream.runId}/cancel`, { cancel_mode: mode })
    await stream.all()
    expect(cancelled.body).toMatchObject({ cancelled: true, cancel_mode: mode })
    expect(stream.result).toMatchObject({ status: 'cancelled', cancelled: true })
    expect(signInStatuses(stream)).toEqual(['pending', 'error:cancelled'])
    expect((await browser.get(callbackUrl)).status).toBe(400)
    expect(idp.tokenRequests).toEqual([])

    platform.provider.script([text('Here I am.')])
    const next = await client.completeWhole({ chatId: stream.chatId })
    expect(next.stream.spoken).toBe('Here I am.')
    expect(await platform.violations()).toEqual([])
  })

  test('the time limit of the run ends the wait too, with an end that says so', async () => {
    const { platform } = await startSignInPlatform(engine)
    const client = await platform.client({ runTimeoutSeconds: 1 })
    const { stream } = await client.completeWhole()
    expect(signInStatuses(stream)).toEqual(['pending', 'error:cancelled'])
    expect(stream.result).toMatchObject({ status: 'failed', error: { code: 'run_timeout' } })
    expect(await platform.violations()).toEqual([])
  })

  test('a client that was lost meanwhile finds the request and what came of it when it comes back', async () => {
    const { platform } = await startSignInPlatform(engine)
    const client = await platform.client()
    const stream = await client.complete()
    await untilRedirect(stream)
    await stream.hangUp()

    const back = await client.follow(stream.runId)
    const { auth_url: authUrl } = await untilRedirect(back)
    await new Browser().signIn(authUrl, 'ada')
    await back.all()
    expect(signInStatuses(back)).toEqual(['pending', 'authorized'])
    const replayed = await (await client.follow(stream.runId)).all()
    expect(replayed.frames.slice(1)).toEqual(back.frames.slice(1))
  })

  test('Text Only Mode: the link is a paragraph of the text, wherever the reading begins', async () => {
    const { platform } = await startSignInPlatform(engine)
    const client = await platform.client({ textOnlyMode: true })
    platform.provider.respond((request) =>
      request.toolOutputs.length === 0
        ? [text('One moment.'), toolCall('authenticate_mcp_server', { server_name: 'notes' })]
        : notesTurn(request),
    )
    const response = await client.fetch('POST', '/get_completion_v2', client.completion({}))
    let read = ''
    for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
      const before = read
      read += part
      const link = /^Sign in to notes to continue: (\S+)$/m
      if (link.test(read) && !link.test(before)) await new Browser().signIn(link.exec(read)![1]!, 'ada')
    }
    expect(read).toMatch(/^One moment\.\n\nSign in to notes to continue: http:\S+\n\nIt said: .*Notes of ada/)

    const runId = response.headers.get('x-agent-run-id')
    const offset = 'One moment.\n\nSign'.length
    const rest = await client.fetch('GET', `/v1/runs/${runId}/text?offset=${offset}`)
    expect(await rest.text()).toBe(read.slice(offset))
  })

  test('a provider-hosted tool is withheld until its user has signed in, then a copy has the token', async () => {
    const { platform, idp } = await startSignInPlatform(engine, {
      agentOf: ({ name, url }) => ({
        tools: [enableHostedMcpToolOAuth(hostedMcpTool({ serverLabel: name, serverUrl: url }))],
      }),
    })
    const client = await platform.client()
    platform.provider.respond((request) =>
      request.toolOutputs.length === 0 ? toolCall('authenticate_mcp_server', { server_name: 'notes' }) : text('done'),
    )
    const stream = await signedIn(client, 'ada')
    const hosted = platform.provider.modelRequests.map(({ body }) =>
      (body['tools'] as Json[]).find(({ type }) => type === 'mcp'),
    )
    expect(hosted).toEqual([undefined, expect.objectContaining({ authorization: idp.issuedTokens[0] })])
    expect(stream.text).not.toContain(idp.issuedTokens[0])
  })

  test('the sign-in of a consumer can be ended, registered or not, and that of completions without one', async () => {
    const { platform } = await startSignInPlatform(engine)
    const client = await platform.client()
    for (const consumerId of ['ada', 'ada2', 'é/ü', undefined]) await signedIn(client, 'login', { consumerId })
    const isAsked = async (consumerId: string | undefined): Promise<boolean> => {
      const stream = await client.complete({ consumerId })
      const { event } = await stream.until(({ event: name }) => name === 'oauth_redirect' || name === 'messages')
      if (event === 'messages') return false
      await client.post(`/v1/runs/${stream.runId}/cancel`)
      return true
    }
    const path = `/v1/integrations/${client.integrationId}/sign_ins`
    const end = (consumerId: string): Promise<Answer> =>
      client.call('DELETE', `${path}?consumerId=${encodeURIComponent(consumerId)}`)

    expect([(await end('ada')).status, (await end('ada')).status, (await end('nobody')).status]).toEqual([
      204, 204, 204,
    ])
    expect((await end('é/ü')).status).toBe(204)
    expect([await isAsked('ada'), await isAsked('é/ü'), await isAsked('ada2'), await isAsked(undefined)]).toEqual([
      true,
      true,
      false,
      false,
    ])
    expect((await client.call('DELETE', path)).status).toBe(400)

    expect((await client.call('DELETE', '/v1/owner/sign_ins')).status).toBe(204)
    expect([await isAsked('ada2'), await isAsked(undefined)]).toEqual([false, true])
  })

  test('a member that is deleted leaves no tokens behind, nor does an integration', async () => {
    const { platform } = await startSignInPlatform(engine)
    const client = await platform.client({ memberAllowancesEnabled: true })
    const members = `/v1/integrations/${client.integrationId}/members`
    for (const consumerId of ['ada', 'ada2', 'eve']) {
      await client.post(members, { consumerId })
      await signedIn(client, consumerId, { consumerId, usageRequestId: `u-${consumerId}` })
    }
    const kept = async (): Promise<unknown[]> =>
      (await platform.rows('SELECT name FROM secrets ORDER BY 1')).map(({ name }) => String(name).split(/%2F|\//)[1])
    expect(await kept()).toEqual(['ada', 'ada2', 'eve'])

    await client.call('DELETE', `${members}/ada`)
    expect(await kept()).toEqual(['ada2', 'eve'])
    await client.call('DELETE', `/v1/integrations/${client.integrationId}`)
    expect(await kept()).toEqual([])
  })
})

describe('the callback of the platform', () => {
  test('a browser gets a page, also when the sign-in is refused', async () => {
    const { platform } = await startSignInPlatform('pglite')
    const stream = await (await platform.client()).complete()
    const { auth_url: authUrl } = await untilRedirect(stream)
    const browser = new Browser({ accept: 'text/html' })
    const url = await browser.callbackUrl(authUrl, 'ada')
    const first = await browser.get(url)
    const second = await browser.get(url)
    await stream.all()

    expect([first.status, second.status]).toEqual([200, 400])
    expect(first.headers.get('content-security-policy')).toContain("default-src 'none'")
    expect(first.headers.get('referrer-policy')).toBe('no-referrer')
    expect(await first.text()).toContain('You are signed in to notes.')
    expect(await second.text()).toContain('This sign-in was already answered.')
    expect(signInStatuses(stream)).toEqual(['pending', 'authorized'])
  })

  test('of two callbacks at the same moment one is taken, and the code is exchanged once', async () => {
    const { platform, idp } = await startSignInPlatform('pglite')
    const stream = await (await platform.client()).complete()
    const browser = new Browser()
    const url = await browser.callbackUrl((await untilRedirect(stream)).auth_url, 'ada')
    const both = await Promise.all([browser.get(url), browser.get(url)])
    await stream.all()
    expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 400])
    expect(idp.tokenRequests).toHaveLength(1)
  })

  test.each([
    ['an unknown state', '?state=nobody&code=c', 'oauth_callback_rejected'],
    ['no state', '?code=c', 'invalid_request'],
    ['two states', '?state=a&state=b&code=c', 'invalid_request'],
    ['a state of any length', `?state=${'x'.repeat(600)}&code=c`, 'invalid_request'],
  ])('400 for %s, without a key', async (_what, query, code) => {
    const { platform } = await startSignInPlatform('pglite')
    const client = (await platform.client()).with({ token: '' })
    const answer = await client.get(`/auth/callback${query}`)
    expect([answer.status, answer.body.code]).toEqual([400, code])
  })

  test('where nothing names the callback, it is that of the public address', async () => {
    const { platform } = await startSignInPlatform('pglite', {
      config: { publicBaseUrl: 'https://api.example.com', read: () => undefined },
    })
    const client = await platform.client()
    const stream = await client.complete()
    const { state, auth_url: authUrl } = await untilRedirect(stream)
    expect(authUrl).toBe(`https://api.example.com/auth/start/${state}`)
    const begun = await fetch(`${platform.url}/auth/start/${state}`, { redirect: 'manual' })
    const provider = new URL(begun.headers.get('location')!)
    expect(provider.searchParams.get('redirect_uri')).toBe('https://api.example.com/auth/callback')
    expect(begun.headers.getSetCookie()).toEqual([
      expect.stringMatching(/^__Host-bureau-sign-in-.*; Path=\/; HttpOnly; SameSite=Lax; Secure$/),
    ])
    await client.post(`/v1/runs/${stream.runId}/cancel`)
    await stream.all()
  })
})
