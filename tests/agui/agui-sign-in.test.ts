import { mkdtempSync, rmSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { MCPServerOAuth } from '@bureau/framework'
import { expect, test, vi } from 'vitest'
import { text, toolCall } from '../support/fake-provider.ts'
import { startFileServer } from '../support/file-server.ts'
import { closeAfterTest, soloAgency, type TestServer } from '../support/test-server.ts'
import { aguiAgent, aguiBody, startAguiServer } from './agui.test-client.ts'

/** An agency whose agent has a tool server that wants a sign-in. It has what leads to its sign-in page, and no more. */
async function startProtectedAgency(userId: string): Promise<TestServer> {
  let base = ''
  const json = (body: () => object) => (response: ServerResponse) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body()))
  }
  const resource = json(() => ({ resource: `${base}/mcp`, authorization_servers: [base] }))
  const site = await startFileServer({
    '/mcp': (response) => {
      const metadata = `Bearer resource_metadata="${base}/.well-known/oauth-protected-resource/mcp"`
      response.writeHead(401, { 'www-authenticate': metadata }).end()
    },
    '/.well-known/oauth-protected-resource/mcp': resource,
    '/.well-known/oauth-protected-resource': resource,
    '/.well-known/oauth-authorization-server': json(() => ({
      issuer: base,
      authorization_endpoint: `${base}/authorize`,
      token_endpoint: `${base}/token`,
      registration_endpoint: `${base}/register`,
      response_types_supported: ['code'],
      code_challenge_methods_supported: ['S256'],
    })),
    '/register': json(() => ({ client_id: 'client-1', redirect_uris: ['http://localhost:8000/auth/callback'] })),
  })
  base = site.url
  const folder = mkdtempSync(path.join(tmpdir(), 'agui-tokens-'))
  closeAfterTest(async () => rmSync(folder, { recursive: true }))
  const notes = new MCPServerOAuth({ name: 'notes', url: `${base}/mcp` })
  return startAguiServer({
    agencies: soloAgency({ mcpServers: [notes] }),
    oauthUserId: () => userId,
    oauthTokenPath: folder,
  })
}

test('a sign-in is told by events that the official client takes, while the run waits', async () => {
  const server = await startProtectedAgency('ada')
  server.provider.script([toolCall('authenticate_mcp_server', { server_name: 'notes' }), text('You said no.')])
  // The client says that it takes out the members that plain clients read.
  vi.spyOn(console, 'warn').mockImplementation(() => {})
  const agent = aguiAgent({ server, messages: [{ id: 'u1', role: 'user', content: 'read my notes' }] })
  const told: { name: string; value: Record<string, string> }[] = []

  await agent.runAgent(
    {},
    {
      onCustomEvent: async ({ event }) => {
        told.push(event)
        if (event.name !== 'oauth_redirect') return
        await fetch(`${server.url}/auth/callback?state=${event.value.state}&error=access_denied`)
      },
    },
  )

  expect(told.map(({ name, value }) => [name, value['server'], value['status']])).toEqual([
    ['oauth_redirect', 'notes', undefined],
    ['oauth_status', 'notes', 'pending'],
    ['oauth_status', 'notes', 'error:access_denied'],
  ])
  expect(told[0]!.value['auth_url']).toContain('/authorize?')
  expect(agent.messages.at(-1)).toMatchObject({ role: 'assistant', content: 'You said no.' })
})

test('401 without a user, before the stream begins', async () => {
  const server = await startProtectedAgency('')
  expect((await server.post('/solo/get_response_stream', aguiBody())).status).toBe(401)
})
