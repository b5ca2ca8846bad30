import { tool } from '@bureau/framework'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { canBrowse, launchChromium } from '../support/chromium.ts'
import { startPrefixProxy } from '../support/prefix-proxy.ts'
import { soloAgency, startTestServer } from '../support/test-server.ts'

const now = tool({
  name: 'now',
  description: 'Tells the time.',
  parameters: z.object({ zone: z.string() }),
  execute: ({ zone }) => `noon in ${zone}`,
})

let browser: Browser

/** What a page has asked of which hosts, and what it complained about. */
async function visit(url: string, ready: string): Promise<{ page: Page; hosts: Set<string>; complaints: string[] }> {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } })
  const hosts = new Set<string>()
  const complaints: string[] = []
  page.on('request', (request) => {
    if (/^https?:/.test(request.url())) hosts.add(new URL(request.url()).host)
  })
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(String(error)))
  page.on('requestfailed', (request) => complaints.push(`failed: ${request.url()}`))
  await page.goto(url)
  await page.getByText(ready).filter({ visible: true }).first().waitFor()
  await page.waitForLoadState('networkidle')
  return { page, hosts, complaints }
}

describe.skipIf(!canBrowse)('the documents in a browser', () => {
  beforeAll(async () => {
    browser = await launchChromium()
  })
  afterAll(() => browser.close())

  test.each([
    ['/docs', '/solo/get_response_stream'],
    ['/redoc', 'Solo Get Response Stream'],
  ])('%s shows the routes, asks no other host for anything, and complains of nothing', async (path, ready) => {
    const server = await startTestServer({ agencies: soloAgency(), tools: [now], enableLogging: false })
    const base = await startPrefixProxy(server.url, '/bureau')

    for (const url of [server.url, base]) {
      const { page, hosts, complaints } = await visit(url + path, ready)
      await page.screenshot({ path: `coverage/${path.slice(1)}.png` })

      expect([...hosts]).toEqual([new URL(url).host])
      expect(complaints).toEqual([])
      await page.close()
    }
  })

  test('/docs tries an operation out where the page was opened, not where the description says', async () => {
    const server = await startTestServer({ tools: [now], serverUrl: 'https://agents.example.com' })
    const base = await startPrefixProxy(server.url, '/bureau')
    const { page, hosts, complaints } = await visit(`${base}/docs`, '/tool/now')

    await page.locator('#operations-tools-now').getByRole('button').first().click()
    await page.getByRole('button', { name: 'Try it out' }).click()
    await page.getByRole('button', { name: 'Execute' }).click()
    await page.getByText('"noon in string"').first().waitFor()
    await page.screenshot({ path: 'coverage/docs-open.png', fullPage: true })

    expect([...hosts]).toEqual([new URL(base).host])
    expect(complaints).toEqual([])
    await page.close()
  })
})
