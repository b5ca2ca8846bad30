import { mkdtempSync, rmSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { tool } from '@bureau/framework'
import type { Browser, Page } from 'playwright-core'
import { build } from 'vite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { canBrowse, launchChromium } from '../support/chromium.ts'
import { startHttpServer } from '../support/http-server.ts'
import { failed, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import { closeAfterTest, soloAgency, startTestServer } from '../support/test-server.ts'

const PAGE = path.resolve(import.meta.dirname, '../../examples/agui-page')

const add = tool({
  name: 'add',
  description: 'Adds two numbers.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => String(a + b),
})

describe.skipIf(!canBrowse)('the example page in a real browser', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'agui-page-'))
  let browser: Browser

  beforeAll(async () => {
    await build({ root: PAGE, logLevel: 'silent', build: { outDir: folder, emptyOutDir: true } })
    browser = await launchChromium()
  })

  afterAll(async () => {
    await browser?.close()
    rmSync(folder, { recursive: true })
  })

  /** The page, from another origin than the agency's. Problems it has collect in the list. */
  async function openPage(agency: string): Promise<{ page: Page; problems: string[] }> {
    const url = await startHttpServer((request, response) => {
      const name = new URL(request.url ?? '/', 'http://page').pathname.slice(1) || 'index.html'
      const types: Record<string, string> = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' }
      response.setHeader('content-type', types[path.extname(name)] ?? 'application/octet-stream')
      readFile(path.join(folder, name)).then(
        (bytes) => response.end(bytes),
        () => response.writeHead(404).end(),
      )
    })
    const page = await browser.newPage()
    closeAfterTest(() => page.close())
    const problems: string[] = []
    page.on('console', (line) => {
      if (line.type() === 'error' || line.type() === 'warning') problems.push(line.text())
    })
    page.on('pageerror', (error) => problems.push(error.message))
    await page.goto(`${url}/?agency=${encodeURIComponent(agency)}`)
    return { page, problems }
  }

  async function say(page: Page, words: string): Promise<void> {
    await page.fill('#message', words)
    await page.click('#send')
  }

  const lines = (page: Page): Promise<string[]> => page.locator('#conversation li').allInnerTexts()

  test('streams an answer with a tool call, and a second turn', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [add] }) })
    const gate = server.provider.gate()
    server.provider.script([
      toolCall('add', { a: 19, b: 23 }, { callId: 'call_1' }),
      textDeltas(['The sum ', { part: 'hold', gate, before: null }, 'is 42.']),
      text('You are welcome.'),
    ])
    const { page, problems } = await openPage(`${server.url}/solo`)

    await say(page, 'What is 19 + 23?')
    await page.locator('li[data-role=assistant]', { hasText: 'The sum' }).waitFor()

    expect(await page.locator('#status').innerText()).toBe('Answering')
    expect(await page.locator('li[data-role=assistant]').innerText()).not.toContain('42')
    gate.release()
    await page.locator('#status', { hasText: 'Ready' }).waitFor()
    expect(await lines(page)).toEqual([
      'You\nWhat is 19 + 23?',
      'Tool\nadd({"a":19,"b":23})',
      'Result\n42',
      'Agent\nThe sum is 42.',
    ])
    await say(page, 'Thanks!')
    await page.locator('li', { hasText: 'You are welcome.' }).waitFor()
    await page.locator('#status', { hasText: 'Ready' }).waitFor()
    if (process.env['SCREENSHOT_DIR']) {
      await page.screenshot({ path: path.join(process.env['SCREENSHOT_DIR'], 'agui-page.png') })
    }
    expect(server.provider.rejected).toEqual([])
    expect(problems).toEqual([])
  })

  test('the stop button ends the run on the server and shows no error', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['Once upon', { part: 'hold', gate, before: null }, ' a time'])])
    const { page } = await openPage(`${server.url}/solo`)

    await say(page, 'Tell me a story')
    await page.locator('li', { hasText: 'Once upon' }).waitFor()
    await page.click('#stop')

    await server.provider.waitForAborts(1)
    await page.locator('#status', { hasText: 'Ready' }).waitFor()
    expect(await page.locator('#stop').isDisabled()).toBe(true)
    expect(await lines(page)).toEqual(['You\nTell me a story', 'Agent\nOnce upon'])
  })

  test('a failing model is told as an error', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.script([[text('Half'), failed('server_error', 'secret')]])
    const { page } = await openPage(`${server.url}/solo`)

    await say(page, 'Hello')
    await page.locator('li[data-role=error]').first().waitFor()

    expect((await lines(page)).join('\n')).not.toContain('secret')
  })
})
