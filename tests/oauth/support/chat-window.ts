import type { Browser, Page } from 'playwright-core'
import { startHttpServer } from '../../support/http-server.ts'
import { closeAfterTest } from '../../support/test-server.ts'

/** Begins a run on load, shows its frames, and opens the provider in a window of its own. */
const FRONT_END = `<!doctype html><meta charset="utf-8"><title>Chat</title>
<style>pre { white-space: pre-wrap; overflow-wrap: anywhere }</style>
<p><a id="sign-in" target="_blank" hidden>Sign in</a></p><pre id="log"></pre>
<script type="module">
const { url, headers, body } = JSON.parse(decodeURIComponent(location.hash.slice(1)))
const answer = await fetch(url, {
  method: 'POST',
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify(body),
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

/** What the front end sends. */
export type ChatRequest = { readonly url: string; readonly headers: Record<string, string>; readonly body: object }

type ChatWindow = {
  readonly page: Page
  /** What the browser complained about. */
  readonly problems: readonly string[]
  /** Follows the link to the provider. */
  openProvider(): Promise<Page>
  /** All frames, once the stream has ended. */
  ended(): Promise<string>
}

type FrontEnd = { readonly origin: string; open(browser: Browser, request: ChatRequest): Promise<ChatWindow> }

/** A front end on an origin of its own, as an application beside the server is. */
export async function startFrontEnd(): Promise<FrontEnd> {
  const origin = await startHttpServer((_request, response) =>
    response.setHeader('content-type', 'text/html').end(FRONT_END),
  )
  return {
    origin,
    open: async (browser, request) => {
      const context = await browser.newContext()
      closeAfterTest(() => context.close())
      const problems: string[] = []
      context.on('weberror', (error) => problems.push(error.error().message))
      context.on('console', (line) => {
        if (line.text().includes('Content Security Policy')) problems.push(line.text())
      })
      const page = await context.newPage()
      await page.goto(`${origin}/#${encodeURIComponent(JSON.stringify(request))}`)
      return {
        page,
        problems,
        openProvider: async () => {
          const opened = page.waitForEvent('popup')
          await page.click('#sign-in')
          return opened
        },
        ended: async () => {
          await page.waitForFunction(ENDED)
          return (await page.textContent('#log')) ?? ''
        },
      }
    },
  }
}

/** Fills in the provider's pages and waits for the one that it leads back to. */
export async function signInAt(provider: Page, login: string): Promise<void> {
  await provider.fill('input[name=login]', login)
  await provider.fill('input[name=password]', 'x')
  await provider.click('button[type=submit]')
  await provider.waitForSelector('text=notes:read')
  await provider.click('button[type=submit]')
  await provider.waitForSelector('h1')
}
