import { expect, test } from 'vitest'
import { signInStatuses, untilRedirect } from '../oauth/support/oauth-set-up.ts'
import type { TestStream } from '../support/test-server.ts'
import { Browser } from '../oauth/support/browser.ts'
import { type SignInPlatform, startSignInPlatform } from './support/sign-in-platform.ts'
import type { Json } from './support/test-client.ts'

const REFUSED = { code: 'oauth_callback_rejected', error: 'OAuth callback failed: browser_mismatch' }

async function begin(
  options?: Parameters<typeof startSignInPlatform>[1],
): Promise<SignInPlatform & { readonly stream: TestStream; readonly redirect: Json }> {
  const started = await startSignInPlatform('pglite', options)
  const stream = await (await started.platform.client()).complete()
  return { ...started, stream, redirect: await untilRedirect(stream) }
}

test('a sign-in begins at a page that says who asks, and leads on with a click', async () => {
  const { address, idp, stream, redirect } = await begin()
  const browser = new Browser({ accept: 'text/html,application/xhtml+xml' })
  expect(redirect).toEqual({
    state: redirect.state,
    server: 'notes',
    auth_url: address.callbackUrl.replace('callback', `start/${redirect.state}`),
  })

  const page = await browser.get(redirect.auth_url)
  const html = await page.text()

  expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
  expect(html).toContain('<h1>Sign in to notes</h1>')
  expect(html).toContain(new URL(idp.issuer).host)
  expect(page.headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
  expect(page.headers.get('referrer-policy')).toBe('no-referrer')
  expect(page.headers.getSetCookie()).toEqual([])
  const done = await browser.signIn(redirect.auth_url, 'ada@idp')
  expect([done.status, done.headers.getSetCookie()]).toEqual([200, [expect.stringContaining('Max-Age=0')]])
  await stream.all()
  expect(signInStatuses(stream)).toEqual(['pending', 'authorized'])
})

test('the click sets the cookie; a page of somebody else cannot do it for the user', async () => {
  const { platform, stream, redirect } = await begin()
  const ask = (query: string, headers: Record<string, string>): Promise<Response> =>
    fetch(`${platform.url}/auth/start/${redirect.state}${query}`, { redirect: 'manual', headers })
  const html = { accept: 'text/html' }

  for (const headers of ['cross-site', 'same-site', 'none'].map((site) => ({ 'sec-fetch-site': site }))) {
    const brought = await ask('?continue', { accept: '*/*', ...headers })
    expect([brought.status, brought.headers.getSetCookie()]).toEqual([200, []])
  }
  for (const headers of [{ ...html, 'sec-fetch-site': 'same-origin' }, html]) {
    const clicked = await ask('?continue', headers)
    expect(clicked.status).toBe(302)
    expect(clicked.headers.getSetCookie()).toEqual([
      expect.stringMatching(/^bureau-sign-in-[\w-]{16}=[\w-]{43}; Max-Age=900; Path=\/; HttpOnly; SameSite=Lax$/),
    ])
  }
  expect((await ask('', { accept: '*/*' })).status).toBe(302)
  await new Browser().signIn(redirect.auth_url, 'ada')
  await stream.all()
})

test("who was sent the provider's address by somebody else signs in for nobody; the right browser still can", async () => {
  const { idp, stream, redirect } = await begin()
  const provider = await new Browser().toProvider(redirect.auth_url)

  const victim = new Browser()
  const refused = await victim.signIn(provider, 'victim@idp')
  expect(refused.status).toBe(400)
  expect(await refused.json()).toMatchObject(REFUSED)
  const page = await new Browser({ accept: 'text/html' }).signIn(provider, 'victim@idp')
  expect([page.status, await page.text()]).toEqual([400, expect.stringContaining('was not begun in this browser')])
  const denied = await new Browser().deny(provider)
  expect(await denied.json()).toMatchObject(REFUSED)
  expect(idp.tokenRequests).toEqual([])

  expect((await new Browser().signIn(redirect.auth_url, 'ada@idp')).status).toBe(200)
  await stream.all()
  expect(signInStatuses(stream)).toEqual(['pending', 'authorized'])
  expect(stream.text).toContain('Notes of ada@idp')
})

test('a browser that began one sign-in cannot end another', async () => {
  const { platform, redirect, stream } = await begin()
  const stranger = await platform.client()
  const other = await stranger.complete()
  const attacked = await untilRedirect(other)
  const browser = new Browser()
  await browser.get(redirect.auth_url)

  const provider = await new Browser().toProvider(attacked.auth_url)
  expect((await browser.signIn(provider, 'victim@idp')).status).toBe(400)

  expect((await browser.signIn(redirect.auth_url, 'ada@idp')).status).toBe(200)
  await stranger.post(`/v1/runs/${other.runId}/cancel`)
  await Promise.all([stream.all(), other.all()])
  expect(signInStatuses(other)).toEqual(['pending', 'error:cancelled'])
})

test('400 at the page of a sign-in that is not known or is over', async () => {
  const { platform, stream, redirect } = await begin()
  const browser = new Browser()
  await browser.signIn(redirect.auth_url, 'ada')
  await stream.all()

  const over = await browser.get(redirect.auth_url)
  const unknown = await fetch(`${platform.url}/auth/start/nobody`, { headers: { accept: 'text/html' } })

  expect(over.status).toBe(400)
  expect(await over.json()).toMatchObject({ code: 'oauth_callback_rejected' })
  expect([over.headers.getSetCookie(), unknown.headers.getSetCookie()]).toEqual([[], []])
  expect([unknown.status, await unknown.text()]).toEqual([400, expect.stringContaining('is not known, or too old')])
})

test('switched off, users are sent to the provider at once and any browser may come back', async () => {
  const { idp, stream, redirect } = await begin({ config: { signInPage: false } })
  expect(redirect.auth_url).toMatch(new RegExp(`^${idp.issuer}/`))

  const url = await new Browser().callbackUrl(redirect.auth_url, 'ada@idp')

  expect((await fetch(url)).status).toBe(200)
  await stream.all()
  expect(signInStatuses(stream)).toEqual(['pending', 'authorized'])
})
