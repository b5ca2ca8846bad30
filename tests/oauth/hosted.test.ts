import { Agency, Agent, enableHostedMcpToolOAuth } from '@bureau/framework'
import { hostedMcpTool } from '@openai/agents-core'
import { expect, test } from 'vitest'
import { type RecordedRequest, text, toolCall } from '../support/fake-provider.ts'
import { startTestServer, type Json } from '../support/test-server.ts'
import { Browser } from './support/browser.ts'
import { startIdentityProvider } from './support/identity-provider.ts'
import { asUser, newTokenFolder, oauthFrames, testUser, toolOutputs, untilRedirect } from './support/oauth-set-up.ts'
import { startProtectedToolServer } from './support/protected-tool-server.ts'
import { startPublicAddress } from './support/public-address.ts'

/** An agent with a protected and a public hosted server; the model signs in first. */
async function startHosted({ open: lists = false } = {}) {
  const idp = await startIdentityProvider()
  const notes = await startProtectedToolServer(idp, { open: lists })
  const address = await startPublicAddress()
  const plain = hostedMcpTool({ serverLabel: 'notes', serverUrl: notes.url })
  const wrapped = enableHostedMcpToolOAuth(plain)
  const open = hostedMcpTool({ serverLabel: 'docs', serverUrl: 'https://docs.example/mcp' })
  const solo = new Agent({ name: 'Solo', model: 'gpt-test', tools: [wrapped, open] })
  const server = await startTestServer({
    agencies: { solo: new Agency({ entryPoint: solo }) },
    oauthUserId: testUser,
    oauthTokenPath: await newTokenFolder(),
    egress: { allow: [idp.host] },
    // Client credentials of the environment belong to servers that we connect to ourselves.
    env: { OAUTH_CALLBACK_URL: address.callbackUrl, NOTES_CLIENT_ID: 'known', NOTES_CLIENT_SECRET: 's' },
  })
  address.forwardTo(server.url)
  server.provider.respond((request) =>
    request.toolOutputs.length === 0 ? toolCall('authenticate_mcp_server', { server_name: 'notes' }) : text('done'),
  )
  const run = (user: string) => server.stream('/solo/get_response_stream', { message: 'hi' }, { headers: asUser(user) })
  return { idp, notes, server, run, plain, wrapped }
}

/** The hosted servers that a model request offers, with their tokens. */
function hostedIn(request: RecordedRequest | undefined): Record<string, string | undefined> {
  const tools = (request?.body['tools'] as Json[]) ?? []
  const hosted = tools.filter(({ type }) => type === 'mcp')
  return Object.fromEntries(hosted.map(({ server_label, authorization }) => [server_label, authorization]))
}

test('a wrapped hosted tool is withheld until its user has signed in, then a copy has the token', async () => {
  const { idp, notes, server, run, plain, wrapped } = await startHosted()
  expect(notes.requests).toBe(0)
  const stream = await run('ada')
  const { server: name, auth_url: authUrl } = await untilRedirect(stream)
  expect(name).toBe('notes')
  await new Browser().signIn(authUrl, 'ada')
  await stream.all()

  const [before, after] = server.provider.modelRequests
  expect(hostedIn(before)).toEqual({ docs: undefined })
  expect(before?.toolNames).toEqual(['authenticate_mcp_server'])
  const { notes: token, docs } = hostedIn(after)
  expect(idp.issuedTokens).toContain(token)
  expect(docs).toBeUndefined()
  expect(toolOutputs(stream)).toEqual(['Authenticated with "notes". Its tools are available now.'])
  for (const tool of [plain, wrapped]) expect(tool.providerData?.['authorization']).toBeUndefined()
  expect(idp.registrations).toHaveLength(1)
  expect(stream.text).not.toContain(token)
})

test('the next run of the user has it at once, with the stored token', async () => {
  const { server, run } = await startHosted()
  const first = await run('ada')
  await new Browser().signIn((await untilRedirect(first)).auth_url, 'ada')
  await first.all()

  const second = await (await run('ada')).all()
  expect(oauthFrames(second)).toEqual([])
  const [, signedIn, next] = server.provider.modelRequests
  expect(hostedIn(next).notes).toBe(hostedIn(signedIn).notes)
  expect(hostedIn(next).notes).toBeDefined()
})

test('two users at once get copies with their own tokens', async () => {
  const { server, run } = await startHosted()
  const streams = await Promise.all(['ada', 'eve'].map((user) => run(user)))
  for (const [index, stream] of streams.entries()) {
    await new Browser().signIn((await untilRedirect(stream)).auth_url, `user-${index}`)
  }
  await Promise.all(streams.map((stream) => stream.all()))
  const tokens = server.provider.modelRequests.flatMap((request) => hostedIn(request).notes ?? [])
  expect(new Set(tokens).size).toBe(2)
})

test('an expired token is refreshed before the provider gets it', async () => {
  const { notes, server, idp, run } = await startHosted()
  const first = await run('ada')
  await new Browser().signIn((await untilRedirect(first)).auth_url, 'ada')
  await first.all()
  notes.expireAccessTokens()

  const second = await (await run('ada')).all()
  expect(oauthFrames(second)).toEqual([])
  expect(hostedIn(server.provider.modelRequests.at(-1)).notes).toBe(idp.issuedTokens.at(-2))
  expect(idp.tokenRequests.at(-1)?.get('grant_type')).toBe('refresh_token')
})

test('denied: the tool stays withheld and the run goes on', async () => {
  const { server, run } = await startHosted()
  const stream = await run('ada')
  await new Browser().deny((await untilRedirect(stream)).auth_url)
  await stream.all()
  expect(hostedIn(server.provider.modelRequests.at(-1))).toEqual({ docs: undefined })
  expect(toolOutputs(stream)).toEqual(['Failed to authenticate "notes": the sign-in was refused (access_denied).'])
})

test('an agency whose only protected tools are hosted ones streams, and get_response is 400', async () => {
  const { server } = await startHosted()
  expect((await server.post('/solo/get_response', { message: 'hi' }, asUser('ada'))).status).toBe(400)
})

test('a server that lists its tools to everybody: the user is asked for a token all the same', async () => {
  const { server, idp, run } = await startHosted({ open: true })
  const stream = await run('ada')
  await new Browser().signIn((await untilRedirect(stream)).auth_url, 'ada')
  await stream.all()
  expect(idp.issuedTokens).toContain(hostedIn(server.provider.modelRequests.at(-1)).notes)
})
