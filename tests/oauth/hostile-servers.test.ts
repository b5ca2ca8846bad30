import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { MCPServerOAuth } from '@bureau/framework'
import { expect, test } from 'vitest'
import { text, toolCall } from '../support/fake-provider.ts'
import { type FileServer, startFileServer } from '../support/file-server.ts'
import { soloAgency, startTestServer, type TestServer, type TestStream } from '../support/test-server.ts'
import { asUser, newTokenFolder, testUser, toolOutputs, untilRedirect } from './support/oauth-set-up.ts'

type Answer = (response: ServerResponse, request: IncomingMessage) => void

/** Text without an end, which gzip makes a thousand times smaller. */
function endless(type: string, begin: string): Answer {
  return (response) => {
    response.writeHead(200, { 'content-type': type, 'content-encoding': 'gzip' })
    const chunks = function* (): Generator<string> {
      yield begin
      const chunk = 'x'.repeat(65_536)
      for (;;) yield chunk
    }
    pipeline(Readable.from(chunks()), createGzip(), response).catch(() => {})
  }
}

const json = (body: object, status = 200): Answer => {
  return (response) => void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

type HostileSite = { readonly site: FileServer; readonly server: TestServer; run(): Promise<TestStream> }

/**
 * A tool server that is its own provider, at one address; `answers` take the place of its own, and `issuer` is added to the
 * address in its metadata.
 */
async function startHostileSite(answers: Readonly<Record<string, Answer>>, { issuer = '' } = {}): Promise<HostileSite> {
  let base = ''
  const late = (body: () => object) => (response: ServerResponse, request: IncomingMessage) =>
    json(body())(response, request)
  const resource = late(() => ({ resource: `${base}/mcp`, authorization_servers: [base] }))
  const site = await startFileServer({
    '/mcp': (response, { headers }) => {
      if (headers.authorization === 'Bearer accepted') return json({})(response, {} as IncomingMessage)
      const metadata = `Bearer resource_metadata="${base}/.well-known/oauth-protected-resource/mcp"`
      response.writeHead(401, { 'www-authenticate': metadata }).end()
    },
    '/.well-known/oauth-protected-resource/mcp': resource,
    '/.well-known/oauth-protected-resource': resource,
    '/.well-known/oauth-authorization-server': late(() => ({
      issuer: base + issuer,
      authorization_endpoint: `${base}/authorize`,
      token_endpoint: `${base}/token`,
      registration_endpoint: `${base}/register`,
      response_types_supported: ['code'],
      code_challenge_methods_supported: ['S256'],
    })),
    '/register': json({ client_id: 'client-1', redirect_uris: ['http://localhost:8000/auth/callback'] }),
    '/token': json({ access_token: 'accepted', token_type: 'Bearer' }),
    ...answers,
  })
  base = site.url
  const notes = new MCPServerOAuth({ name: 'notes', url: `${base}/mcp` })
  const server = await startTestServer({
    agencies: soloAgency({ mcpServers: [notes] }),
    oauthUserId: testUser,
    oauthTokenPath: await newTokenFolder(),
  })
  server.provider.script([toolCall('authenticate_mcp_server', { server_name: 'notes' }), text('done')])
  const run = (): Promise<TestStream> =>
    server.stream('/solo/get_response_stream', { message: 'hi' }, { headers: asUser('ada') })
  return { site, server, run }
}

const UNREACHABLE = 'Failed to authenticate "notes": the server or its provider could not be reached.'

test.each(['/.well-known/oauth-protected-resource/mcp', '/.well-known/oauth-authorization-server', '/register'])(
  'an endless answer at %s is given up after a mebibyte, compressed or not',
  async (path) => {
    const { site, run } = await startHostileSite({ [path]: endless('application/json', '{"issuer":"') })
    const stream = await (await run()).all()
    await site.abandoned
    expect(toolOutputs(stream)).toEqual([UNREACHABLE])
    expect(stream.outline.slice(-2)).toEqual(['messages', 'end'])
  },
)

test('endless tokens fail the sign-in', async () => {
  const { site, server, run } = await startHostileSite({ '/token': endless('application/json', '{"access_token":"') })
  const stream = await run()
  const { state } = await untilRedirect(stream)
  expect((await server.get(`/auth/callback?state=${state}&code=c`)).status).toBe(400)
  await site.abandoned
  await stream.all()
  expect(toolOutputs(stream)).toEqual(['Failed to authenticate "notes": the provider did not accept the sign-in.'])
})

test('a provider that calls itself by its address with a slash behind it is told apart from one that is not there', async () => {
  const { run } = await startHostileSite({}, { issuer: '/' })
  const [output] = toolOutputs(await (await run()).all())
  expect(output).toMatch(/the provider names another issuer .* \(they differ only by a slash at the end; authServerUrl/)
})

test('an endless answer of a tool server is given up', async () => {
  const { site, run } = await startHostileSite({ '/mcp': endless('application/json', '{"jsonrpc":"2.0","result":"') })
  const stream = await (await run()).all()
  await site.abandoned
  expect(toolOutputs(stream)).toEqual([UNREACHABLE])
})
