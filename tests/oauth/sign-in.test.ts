import { expect, test } from 'vitest'
import { text, toolCall } from '../support/fake-provider.ts'
import { Browser } from './support/browser.ts'
import {
  asUser,
  oauthFrames,
  type OAuthSetUp,
  startAnotherServer,
  startOAuthSetUp,
  toolOutputs,
  untilRedirect,
} from './support/oauth-set-up.ts'

/** A whole run in which the user signs in. */
async function signedInRun(setUp: OAuthSetUp, user: string): Promise<void> {
  const stream = await setUp.run(user)
  const { auth_url } = await untilRedirect(stream)
  expect((await new Browser().signIn(auth_url, `${user}@idp`)).status).toBe(200)
  await stream.all()
  expect(toolOutputs(stream).at(-1)).toContain(`Notes of ${user}@idp`)
}

const refreshes = ({ idp }: OAuthSetUp): number =>
  idp.tokenRequests.filter((request) => request.get('grant_type') === 'refresh_token').length

test('the first run: nothing is contacted before the model asks; the user signs in; the tools work in the same run', async () => {
  const { idp, notes, server, run } = await startOAuthSetUp()
  expect(notes.requests).toBe(0)

  const stream = await run('ada')
  const { state, auth_url: authUrl } = await untilRedirect(stream)
  const callback = await new Browser().signIn(authUrl, 'ada@idp')
  expect(callback.status).toBe(200)
  expect(await callback.json()).toEqual({ status: 'ok', state, server_name: 'notes' })
  await stream.all()

  expect(oauthFrames(stream)).toEqual([
    { event: 'oauth_redirect', state, server: 'notes', auth_url: authUrl },
    { event: 'oauth_status', state, server: 'notes', status: 'pending' },
    { event: 'oauth_status', state, server: 'notes', status: 'authorized' },
  ])
  expect(toolOutputs(stream)).toEqual([
    'Authenticated with "notes". Its tools are available now.',
    expect.stringContaining('Notes of ada@idp'),
  ])
  expect(notes.calls).toEqual(['ada@idp: read_notes'])
  expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
  expect(server.provider.modelRequests.map((request) => request.toolNames)).toEqual([
    ['authenticate_mcp_server'],
    ['read_notes', 'write_note', 'authenticate_mcp_server'],
    ['read_notes', 'write_note', 'authenticate_mcp_server'],
  ])
  expect(idp.tokenRequests.map((request) => request.get('grant_type'))).toEqual(['authorization_code'])
})

test('a tool of a protected server that needs an approval waits for it, in the run in which its user signs in', async () => {
  const { notes, server, run } = await startOAuthSetUp({ oauth: { requireApproval: ['read_notes'] } })
  const stream = await run('ada')
  const { auth_url } = await untilRedirect(stream)
  await new Browser().signIn(auth_url, 'ada@idp')
  await stream.all()
  const { status, approvals, new_messages } = stream.result

  expect([status, notes.calls]).toEqual(['waiting', []])

  const decision = { call_id: approvals[0].call_id, token: approvals[0].token, approve: true }
  const asked = { chat_history: new_messages, approvals: [decision] }
  const goesOn = await server.stream('/solo/get_response_stream', asked, { headers: asUser('ada') })
  await goesOn.all()

  expect(toolOutputs(goesOn)).toEqual([expect.stringContaining('Notes of ada@idp')])
  expect(notes.calls).toEqual(['ada@idp: read_notes'])
})

test('the authorization URL has PKCE S256, a state of 32 bytes, the resource and the redirect URI', async () => {
  const { idp, notes, address, run } = await startOAuthSetUp()
  const stream = await run('ada')
  const { state, auth_url: authUrl } = await untilRedirect(stream)

  const { searchParams, origin } = new URL(authUrl)
  expect(origin).toBe(idp.issuer)
  expect(Object.fromEntries(searchParams)).toMatchObject({
    response_type: 'code',
    code_challenge_method: 'S256',
    code_challenge: expect.stringMatching(/^[\w-]{43}$/),
    redirect_uri: address.callbackUrl,
    resource: notes.url,
    state,
    scope: expect.stringContaining('notes:read'),
  })
  expect(state).toMatch(/^[\w-]{43}$/)
  expect(Buffer.from(state, 'base64url')).toHaveLength(32)
  expect(idp.registrations).toEqual([
    expect.objectContaining({
      client_name: 'Bureau (notes)',
      redirect_uris: [address.callbackUrl],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      scope: expect.stringContaining('notes:read'),
    }),
  ])
  await stream.hangUp()
})

test('tool calls of an activated server name it as their origin', async () => {
  const setUp = await startOAuthSetUp()
  const stream = await setUp.run('ada')
  await new Browser().signIn((await untilRedirect(stream)).auth_url, 'ada')
  await stream.all()
  const called = stream.events.filter(({ name }) => name === 'tool_called').map(({ item }) => item.tool_origin)
  expect(called).toEqual([
    expect.objectContaining({ type: 'function', mcp_server_name: null }),
    expect.objectContaining({ type: 'mcp', mcp_server_name: 'notes' }),
  ])
})

test('a sign-in lasts: later runs of the user have the tools at once, also after a restart; other users do not', async () => {
  const setUp = await startOAuthSetUp()
  await signedInRun(setUp, 'ada')

  for (const { run, server } of [setUp, await startAnotherServer(setUp)]) {
    const stream = await (await run('ada')).all()
    expect(oauthFrames(stream)).toEqual([])
    expect(toolOutputs(stream)).toEqual([expect.stringContaining('Notes of ada@idp')])
    const [first] = server.provider.modelRequests.slice(-2)
    expect(first?.toolNames).toEqual(['read_notes', 'write_note', 'authenticate_mcp_server'])
  }
  expect(setUp.idp.tokenRequests).toHaveLength(1)

  const { requests } = setUp.notes
  const eve = await setUp.run('eve')
  await untilRedirect(eve)
  expect(setUp.server.provider.modelRequests.at(-1)?.toolNames).toEqual(['authenticate_mcp_server'])
  expect(setUp.notes.requests).toBeGreaterThan(requests)
  await eve.hangUp()
})

test('a server that has gone does not keep the runs of those who are signed in', async () => {
  const setUp = await startOAuthSetUp()
  await signedInRun(setUp, 'ada')
  await setUp.notes.close()
  const other = await startAnotherServer(setUp)

  const stream = await (await other.run('ada')).all()
  expect(other.server.provider.modelRequests[0]?.toolNames).toEqual(['authenticate_mcp_server'])
  expect(toolOutputs(stream)).toEqual([
    'Failed to authenticate "notes": the server or its provider could not be reached.',
  ])
})

test('an expired token is refreshed silently at the start of a run', async () => {
  const setUp = await startOAuthSetUp()
  await signedInRun(setUp, 'ada')
  setUp.notes.expireAccessTokens()

  const stream = await (await setUp.run('ada')).all()
  expect(oauthFrames(stream)).toEqual([])
  expect(toolOutputs(stream).at(-1)).toContain('Notes of ada@idp')
  expect(refreshes(setUp)).toBe(1)
  expect(setUp.idp.tokenRequests.at(-1)?.get('resource')).toBe(setUp.notes.url)
})

test('a token that expires within a run is refreshed silently', async () => {
  const setUp = await startOAuthSetUp()
  await signedInRun(setUp, 'ada')
  setUp.server.provider.respond((request) => {
    const { length } = request.toolOutputs
    if (length === 0) return toolCall('authenticate_mcp_server', { server_name: 'notes' })
    if (length === 1) setUp.notes.expireAccessTokens()
    return length === 1 ? toolCall('read_notes', {}) : text('done')
  })

  const stream = await (await setUp.run('ada')).all()
  expect(oauthFrames(stream)).toEqual([])
  expect(toolOutputs(stream).at(-1)).toContain('Notes of ada@idp')
  expect(refreshes(setUp)).toBe(1)
})

test('processes that share the token files do not use a refresh token twice', async () => {
  const setUp = await startOAuthSetUp()
  await signedInRun(setUp, 'ada')
  const other = await startAnotherServer(setUp)
  setUp.notes.expireAccessTokens()

  const streams = await Promise.all([setUp.run('ada'), other.run('ada'), setUp.run('ada'), other.run('ada')])
  for (const stream of streams) {
    await stream.all()
    expect(oauthFrames(stream)).toEqual([])
    expect(toolOutputs(stream).at(-1)).toContain('Notes of ada@idp')
  }
  expect(refreshes(setUp)).toBe(1)
})

test('when the refresh token is revoked the user is asked again', async () => {
  const setUp = await startOAuthSetUp()
  await signedInRun(setUp, 'ada')
  setUp.notes.expireAccessTokens()
  setUp.idp.revokeRefreshTokens()

  await signedInRun(setUp, 'ada')
  expect(setUp.idp.registrations).toHaveLength(1)
})

test('when the provider has forgotten the client, a new one is registered', async () => {
  const setUp = await startOAuthSetUp()
  await signedInRun(setUp, 'ada')
  setUp.notes.expireAccessTokens()
  setUp.idp.forgetClients()

  await signedInRun(setUp, 'ada')
  expect(setUp.idp.registrations).toHaveLength(2)
})

test('a sign-in that ends within a run: the call says so, the model asks again, and the retry works', async () => {
  const setUp = await startOAuthSetUp()
  await signedInRun(setUp, 'ada')
  setUp.server.provider.respond((request) => {
    const outputs = request.toolOutputs
    if (outputs.length === 1) {
      setUp.notes.expireAccessTokens()
      setUp.idp.revokeRefreshTokens()
    }
    if (outputs.length % 2 === 0 && outputs.length < 4)
      return toolCall('authenticate_mcp_server', { server_name: 'notes' })
    return outputs.length < 4 ? toolCall('read_notes', {}) : text('done')
  })

  const stream = await setUp.run('ada')
  await new Browser().signIn((await untilRedirect(stream)).auth_url, 'ada')
  await stream.all()
  expect(toolOutputs(stream)).toEqual([
    `The user's sign-in to "notes" was checked and renewed where needed. Retry the tool call.`,
    'Error: "notes" refused the call: the user must sign in again. Call authenticate_mcp_server, then retry.',
    `The user's sign-in to "notes" was checked and renewed where needed. Retry the tool call.`,
    expect.stringContaining('Notes of ada'),
  ])
})

/** The model writes, and once more after it has asked for what was missing. */
function useWriting({ server }: OAuthSetUp): void {
  server.provider.respond(({ toolOutputs: { length } }) => {
    if (length === 1) return toolCall('authenticate_mcp_server', { server_name: 'notes' })
    return length < 3 ? toolCall('write_note', {}) : text('done')
  })
}

test('a tool that needs more scopes: the user is asked for them, by the client that is registered, and the retry works', async () => {
  const setUp = await startOAuthSetUp({ anyScopes: true })
  await signedInRun(setUp, 'ada')
  useWriting(setUp)

  const stream = await setUp.run('ada')
  const { auth_url: authUrl } = await untilRedirect(stream)
  const scopes = new URL(authUrl).searchParams.get('scope')?.split(' ')
  expect(scopes).toEqual(expect.arrayContaining(['notes:read', 'notes:write']))
  await new Browser().signIn(authUrl, 'ada')
  await stream.all()
  expect(toolOutputs(stream).at(-1)).toContain('Written of ada')
  expect(setUp.idp.registrations).toHaveLength(1)
})

test('a provider that holds a client to its scopes: another one registers, and the user is asked again', async () => {
  const setUp = await startOAuthSetUp()
  await signedInRun(setUp, 'ada')
  useWriting(setUp)

  const stream = await setUp.run('ada')
  const first = await untilRedirect(stream)
  await new Browser().signIn(first.auth_url, 'ada')
  const second = await stream.until(({ event, data }) => event === 'oauth_redirect' && !data.includes(first.state))
  await new Browser().signIn(JSON.parse(second.data).auth_url, 'ada')
  await stream.all()
  expect(oauthFrames(stream).flatMap(({ status }) => status ?? [])).toEqual([
    'pending',
    expect.stringContaining('error:invalid_scope'),
    'pending',
    'authorized',
  ])
  expect(toolOutputs(stream).at(-1)).toContain('Written of ada')
  expect(setUp.idp.registrations.map(({ scope }) => String(scope).includes('notes:write'))).toEqual([false, true])
})

test('scopes that the declaration fixes are asked for exactly, and never widened', async () => {
  const setUp = await startOAuthSetUp({ oauth: { scopes: ['notes:read'] } })
  setUp.server.provider.respond((request) => {
    const { length } = request.toolOutputs
    if (length === 0) return toolCall('authenticate_mcp_server', { server_name: 'notes' })
    return length === 1 ? toolCall('write_note', {}) : text('done')
  })

  const stream = await setUp.run('ada')
  const { auth_url: authUrl } = await untilRedirect(stream)
  expect(new URL(authUrl).searchParams.get('scope')).toBe('notes:read')
  await new Browser().signIn(authUrl, 'ada')
  await stream.all()
  expect(toolOutputs(stream).at(-1)).toBe(`Error: the user's sign-in to "notes" does not permit this.`)
})

test('two users at once: each signs in for themselves and sees their own notes', async () => {
  const setUp = await startOAuthSetUp()
  const streams = { ada: await setUp.run('ada'), eve: await setUp.run('eve') }
  const redirects = { ada: await untilRedirect(streams.ada), eve: await untilRedirect(streams.eve) }
  expect(redirects.ada.state).not.toBe(redirects.eve.state)
  await Promise.all(
    (['eve', 'ada'] as const).map((user) => new Browser().signIn(redirects[user].auth_url, `${user}@idp`)),
  )

  for (const user of ['ada', 'eve'] as const) {
    await streams[user].all()
    expect(toolOutputs(streams[user]).at(-1)).toContain(`Notes of ${user}@idp`)
    expect(oauthFrames(streams[user]).map(({ state }) => state)).toEqual(Array(3).fill(redirects[user].state))
  }
})

test('two runs of one user at once: both are asked, and both go on', async () => {
  const setUp = await startOAuthSetUp()
  const streams = [await setUp.run('ada'), await setUp.run('ada')]
  const redirects = await Promise.all(streams.map((stream) => untilRedirect(stream)))
  const browser = new Browser()
  for (const { auth_url } of redirects) expect((await browser.signIn(auth_url, 'ada')).status).toBe(200)

  for (const stream of streams) {
    await stream.all()
    expect(toolOutputs(stream).at(-1)).toContain('Notes of ada')
  }
  // One client for the user, whichever run came first.
  expect(setUp.idp.registrations).toHaveLength(1)
})

test('a configured client is used as it is, with basic authentication at the token endpoint', async () => {
  const env = { NOTES_CLIENT_ID: 'known', NOTES_CLIENT_SECRET: 'its-secret' }
  const setUp = await startOAuthSetUp({ env, knownClient: true })
  await signedInRun(setUp, 'ada')
  setUp.notes.expireAccessTokens()
  await (await setUp.run('ada')).all()

  expect(setUp.idp.registrations).toEqual([])
  expect(setUp.idp.tokenAuthorizations).toEqual([
    `Basic ${btoa('known:its-secret')}`,
    `Basic ${btoa('known:its-secret')}`,
  ])
})

test('the user id of the request is forced to the authenticated one', async () => {
  const setUp = await startOAuthSetUp({
    agent: { instructions: (context) => `I serve ${String(context.context.userContext['user_id'])}` },
  })
  const body = { message: 'hi', user_context: { user_id: 'eve', plan: 'pro' } }
  setUp.server.provider.script([text('hello')])
  await (await setUp.server.stream('/solo/get_response_stream', body, { headers: asUser('ada') })).all()
  expect(setUp.server.provider.modelRequests[0]?.instructions).toBe('I serve ada')
})

test('neither tokens, nor the state, nor the code reach the model, the messages or the data frames', async () => {
  const setUp = await startOAuthSetUp()
  const stream = await setUp.run('ada')
  const { state, auth_url: authUrl } = await untilRedirect(stream)
  const callbackUrl = await new Browser().callbackUrl(authUrl, 'ada')
  await fetch(callbackUrl)
  await stream.all()

  const { provider } = setUp.idp
  const code = new URL(callbackUrl).searchParams.get('code')!
  const secrets = [state, code, ...setUp.idp.issuedTokens]
  expect(setUp.idp.issuedTokens.length).toBeGreaterThanOrEqual(2)
  expect(await provider.AccessToken.find(setUp.idp.issuedTokens[0]!)).toBeDefined()
  const shown = stream.frames.filter(({ event }) => !event?.startsWith('oauth_')).map(({ data }) => data)
  const sent = setUp.server.provider.modelRequests.map((request) => JSON.stringify(request.body))
  for (const secret of secrets) {
    expect(shown.join('\n')).not.toContain(secret)
    expect(sent.join('\n')).not.toContain(secret)
  }
})

test('a server that cannot be reached is a sentence to the model, without OAuth events', async () => {
  const setUp = await startOAuthSetUp({ oauth: { url: 'http://127.0.0.1:1/mcp' } })
  const stream = await (await setUp.run('ada')).all()
  expect(oauthFrames(stream)).toEqual([])
  expect(toolOutputs(stream)).toEqual([
    'Failed to authenticate "notes": the server or its provider could not be reached.',
  ])
  expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
})

test("a server name that is not one of the agent's is refused with the names that are", async () => {
  const setUp = await startOAuthSetUp()
  setUp.server.provider.script([toolCall('authenticate_mcp_server', { server_name: 'bank' }), text('sorry')])
  const stream = await (await setUp.run('ada')).all()
  expect(toolOutputs(stream)).toEqual(['Error: there is no server "bank". Available: "notes".'])
})

test('a tool server must not send us to addresses that are not its own', async () => {
  const setUp = await startOAuthSetUp({ metadataHost: 'localhost' })
  const stream = await (await setUp.run('ada')).all()
  expect(toolOutputs(stream)).toEqual([
    'Failed to authenticate "notes": the server or its provider could not be reached.',
  ])
  expect(setUp.idp.registrations).toEqual([])
})
