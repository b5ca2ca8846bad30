import { existsSync } from 'node:fs'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { closeAfterTest } from '../support/test-server.ts'
import { startOAuthSetUp } from './support/oauth-set-up.ts'

const CHROMIUM = '/usr/bin/chromium'
const installed = existsSync(CHROMIUM)
if (!installed) console.log(`The sign-in is not done in a browser: there is no ${CHROMIUM}.`)

/** A front end: begins a run on load, shows its frames, and opens the provider in a window of its own. */
const FRONT_END = `<!doctype html><meta charset="utf-8"><title>Chat</title>
<p><a id="sign-in" target="_blank" hidden>Sign in</a></p><pre id="log"></pre>
<script type="module">
const answer = await fetch(new URL(location.hash.slice(1)), {
  method: 'POST',
  headers: { 'content-type': 'application/json', 'x-test-user': 'User ada' },
  body: JSON.stringify({ message: 'read my notes' }),
})
const text = answer.body.pipeThrough(new TextDecoderStream())
let all = ''
for await (const part of text) {
  all += part
  document.querySelector('#log').textContent = all
  const redirect = /event: oauth_redirect\\ndata: (.*)\\n/.exec(all)
  const link = document.querySelector('#sign-in')
  if (redirect && link.hidden) {
    link.href = JSON.parse(redirect[1]).auth_url
    link.hidden = false
  }
}
</script>`

const ENDED = "document.querySelector('#log').textContent.includes('event: end')"

describe.skipIf(!installed && !process.env['CI'])('the sign-in in a real browser', () => {
  let browser: Browser

  beforeAll(async () => {
    const args = [
      '--no-sandbox',
      '--disable-gpu',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-sync',
    ]
    browser = await chromium.launch({ executablePath: CHROMIUM, args })
  }, 120_000)
  afterAll(() => browser?.close())

  /** The front end, on an origin of its own, beside a run that waits for a sign-in. */
  async function openChat(serverUrl: string): Promise<{ chat: Page; problems: string[] }> {
    const http = createServer((_request, response) => response.setHeader('content-type', 'text/html').end(FRONT_END))
    http.listen(0, '127.0.0.1')
    await once(http, 'listening')
    closeAfterTest(async () => {
      http.closeAllConnections()
      http.close()
    })
    const context = await browser.newContext()
    closeAfterTest(() => context.close())
    const problems: string[] = []
    context.on('weberror', (error) => problems.push(error.error().message))
    context.on('console', (line) => {
      if (line.text().includes('Content Security Policy')) problems.push(line.text())
    })
    const chat = await context.newPage()
    await chat.goto(`http://127.0.0.1:${(http.address() as AddressInfo).port}/#${serverUrl}/solo/get_response_stream`)
    return { chat, problems }
  }

  async function openProvider(chat: Page): Promise<Page> {
    const opened = chat.waitForEvent('popup')
    await chat.click('#sign-in')
    return opened
  }

  test('redirect, login, consent, callback page, and the stream that goes on', async () => {
    const { server } = await startOAuthSetUp()
    const { chat, problems } = await openChat(server.url)
    const provider = await openProvider(chat)
    await provider.fill('input[name=login]', 'ada@idp')
    await provider.fill('input[name=password]', 'x')
    await provider.click('button[type=submit]')
    await provider.waitForSelector('text=notes:read')
    await provider.click('button[type=submit]')

    await provider.waitForSelector('h1')
    expect(await provider.title()).toBe('Signed in')
    expect(await provider.textContent('p')).toBe(
      'You are signed in to notes. You can close this window and go back to your conversation.',
    )
    // The policy lets its own style through: an unstyled page would have no coloured mark.
    const colour = await provider.evaluate("getComputedStyle(document.querySelector('.mark')).backgroundColor")
    expect(colour).toBe('rgb(31, 136, 61)')

    await chat.waitForFunction(ENDED)
    const log = (await chat.textContent('#log'))!
    expect(log).toContain('"status":"authorized"')
    expect(log).toContain('Notes of ada@idp')
    expect(problems).toEqual([])
  })

  test('a refused sign-in is explained, and the stream goes on', async () => {
    const { server } = await startOAuthSetUp()
    const { chat } = await openChat(server.url)
    const provider = await openProvider(chat)
    await provider.click('text=Cancel')
    await provider.waitForSelector('h1')
    expect(await provider.textContent('h1')).toBe('Not signed in')
    expect(await provider.textContent('p')).toContain('access_denied: End-User aborted interaction')

    await chat.waitForFunction(ENDED)
    expect(await chat.textContent('#log')).toContain('the sign-in was refused (access_denied)')
  })
})
