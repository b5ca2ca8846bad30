import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { soloAgency, startTestServer } from '../support/test-server.ts'
import { canBrowse, consoleBrowser } from './support/console-page.ts'
import { slownessFor } from './support/main-thread.ts'

/** Opens the console as somebody who has never been there, and says after how many milliseconds he can write a message. */
async function openAnew(page: Page, url: string): Promise<number> {
  await page.goto('about:blank')
  const startedAt = performance.now()
  await page.goto(`${url}/console/`, { waitUntil: 'commit' })
  await page.getByRole('textbox', { name: 'Message' }).fill('Hello')
  return performance.now() - startedAt
}

describe.skipIf(!canBrowse)('the first page', () => {
  const open = consoleBrowser()

  test('takes a message within a second', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { page } = await open(server.url)
    const devtools = await page.context().newCDPSession(page)
    await devtools.send('Network.enable')
    await devtools.send('Network.setCacheDisabled', { cacheDisabled: true })
    // The browser's own windows are still being made when the page is there.
    await page.waitForTimeout(3_000)

    const times = [await openAnew(page, server.url), await openAnew(page, server.url), await openAnew(page, server.url)]

    expect(Math.min(...times) / (await slownessFor(page))).toBeLessThan(1_000)
  })
})
