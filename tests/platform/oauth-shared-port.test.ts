import type { AddressInfo } from 'node:net'
import { sharePort } from '@bureau/platform'
import { createApp, loadConfig } from '@bureau/server'
import { expect, test } from 'vitest'
import { Browser } from '../oauth/support/browser.ts'
import { startIdentityProvider } from '../oauth/support/identity-provider.ts'
import {
  asUser,
  newTokenFolder,
  notesTurn,
  testUser,
  signInStatuses,
  untilRedirect,
} from '../oauth/support/oauth-set-up.ts'
import { startProtectedToolServer } from '../oauth/support/protected-tool-server.ts'
import { startPublicAddress } from '../oauth/support/public-address.ts'
import { closeAfterTest, TestStream } from '../support/test-server.ts'
import { shopAgency, startPlatform } from './support/test-platform.ts'
import { TestClient } from './support/test-client.ts'
import { Agency, Agent, MCPServerOAuth } from '@bureau/framework'

/** Both on one port, with one agency; without `protectedHost` only the platform serves it. */
async function startBoth({ protectedHost }: { readonly protectedHost: boolean }) {
  const idp = await startIdentityProvider()
  const notes = await startProtectedToolServer(idp)
  const address = await startPublicAddress()
  const declared = new MCPServerOAuth({ name: 'notes', url: notes.url, redirectUri: address.callbackUrl })
  const agency = new Agency({ entryPoint: new Agent({ name: 'Solo', model: 'gpt-test', mcpServers: [declared] }) })
  const platform = await startPlatform(
    'pglite',
    { agencies: { solo: agency }, config: { allowedHosts: [idp.host] } },
    { listen: false },
  )
  const { provider } = platform
  provider.respond((request) => notesTurn(request))
  closeAfterTest(() => provider.close())
  const keys = { OPENAI_API_KEY: 'sk', OPENAI_BASE_URL: provider.baseUrl }
  const config = loadConfig({ ...keys, BUREAU_ALLOWED_HOSTS: idp.host })
  const own = { oauthUserId: testUser, oauthTokenPath: await newTokenFolder() }
  const host = protectedHost
    ? await createApp({ agencies: { solo: agency }, logLevel: 'silent', ...own }, config)
    : await createApp({ agencies: { shop: shopAgency() }, logLevel: 'silent' }, config)
  await sharePort(host, platform)
  await host.listen({ host: '127.0.0.1', port: 0 })
  closeAfterTest(async () => {
    host.server.closeAllConnections()
    await host.close()
    await platform.close()
  })
  const url = `http://127.0.0.1:${(host.server.address() as AddressInfo).port}`
  address.forwardTo(url)
  const { ownerId, key } = await platform.addTenant()
  const integrationId = await platform.addIntegration(ownerId)
  return { url, client: new TestClient({ url, token: key.token, ownerId, integrationId }) }
}

test('each gets the callbacks of its own sign-ins, and the self-hosted server those that nobody knows', async () => {
  const { url, client } = await startBoth({ protectedHost: true })
  const hosted = await client.complete()
  const selfHosted = new TestStream(
    await fetch(`${url}/solo/get_response_stream`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...asUser('ada') },
      body: JSON.stringify({ message: 'read my notes' }),
    }),
  )
  const first = await untilRedirect(hosted)
  const frame = await selfHosted.until(({ event }) => event === 'oauth_redirect')
  const second = JSON.parse(frame.data)

  expect((await new Browser().signIn(second.auth_url, 'ada')).status).toBe(200)
  expect((await new Browser().signIn(first.auth_url, 'eve')).status).toBe(200)
  await Promise.all([hosted.all(), selfHosted.all()])

  expect(signInStatuses(hosted)).toEqual(['pending', 'authorized'])
  expect(hosted.text).toContain('Notes of eve')
  expect(selfHosted.text).toContain('Notes of ada')
  const unknown = await fetch(`${url}/auth/callback?state=nobody&code=c`)
  expect([unknown.status, await unknown.json()]).toEqual([
    400,
    { code: 'oauth_callback_rejected', detail: expect.any(String), error: expect.any(String) },
  ])
  expect((await fetch(`${url}/auth/callback?code=c`)).status).toBe(422)
  expect((await fetch(`${url}/auth/status/nobody`, { headers: asUser('ada') })).status).toBe(404)
})

test("beside a self-hosted server without protected tool servers, the callback is the platform's", async () => {
  const { url, client } = await startBoth({ protectedHost: false })
  const stream = await client.complete()
  expect((await new Browser().signIn((await untilRedirect(stream)).auth_url, 'ada')).status).toBe(200)
  await stream.all()
  expect(stream.text).toContain('Notes of ada')
  const unknown = await fetch(`${url}/auth/callback?state=nobody&code=c`)
  expect(await unknown.json()).toMatchObject({ code: 'oauth_callback_rejected' })
})
