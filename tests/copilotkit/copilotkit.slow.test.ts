import { rmSync } from 'node:fs'
import path from 'node:path'
import { Agency, Agent, tool } from '@bureau/framework'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { canBrowse, launchChromium } from '../support/chromium.ts'
import { text, toolCall, type Turn } from '../support/fake-provider.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { closeAfterTest, type Json, startTestServer, type TestServer } from '../support/test-server.ts'
import { buildPage, servePage } from './front-end.ts'

const addItem = tool({
  name: 'add_item',
  description: 'Adds something to the shopping list.',
  parameters: z.object({ item: z.string() }),
  execute: ({ item }, { run }) => {
    const { items } = z.object({ items: z.array(z.string()).default([]) }).parse(run!.sharedState.value)
    run!.sharedState.set({ items: [...items, item] })
    return `Now there are ${items.length + 1}.`
  },
})

const refunds: number[] = []

const refund = tool({
  name: 'refund',
  description: 'Pays an order back.',
  parameters: z.object({ amount: z.number() }),
  needsApproval: true,
  execute: ({ amount }) => {
    refunds.push(amount)
    return `Paid ${amount} back.`
  },
})

describe.skipIf(!canBrowse)('the CopilotKit page of the documents', () => {
  let browser: Browser
  let folder: string

  beforeAll(async () => {
    browser = await launchChromium()
    folder = await buildPage()
  }, 400_000)
  afterAll(async () => {
    await browser?.close()
    if (folder) rmSync(folder, { recursive: true })
  })

  type Opened = { readonly page: Page; readonly server: TestServer; readonly complaints: string[] }

  async function open(script: readonly Turn[]): Promise<Opened> {
    const desk = new Agent({ name: 'Desk', instructions: 'Help.', model: 'gpt-test', tools: [addItem, refund] })
    const env = {
      BUREAU_SECRET: 'a secret of this test that is long enough',
      BUREAU_APPROVALS_PATH: await temporaryFolder(),
    }
    const server = await startTestServer({ agencies: { desk: new Agency({ entryPoint: desk }) }, env })
    server.provider.script(script)
    const front = await servePage(folder)
    const page = await browser.newPage()
    closeAfterTest(() => page.close())
    const complaints: string[] = []
    page.on('pageerror', (error) => complaints.push(String(error)))
    page.on('console', (line) => {
      if (line.type() === 'error') complaints.push(line.text())
    })
    await page.goto(`${front}/?agency=${encodeURIComponent(`${server.url}/desk/agui`)}`)
    return { page, server, complaints }
  }

  async function say(page: Page, words: string): Promise<void> {
    const input = page.getByRole('textbox')
    await input.fill(words)
    await input.press('Enter')
  }

  const shown = (page: Page, words: string): Promise<void> => page.getByText(words).first().waitFor()

  async function picture(page: Page, name: string): Promise<void> {
    const target = process.env['SCREENSHOT_DIR']
    if (target) await page.screenshot({ path: path.join(target, `copilotkit-${name}.png`) })
  }

  const outputsOf = ({ provider }: TestServer): Json[] =>
    (provider.modelRequests.at(-1)!.body['input'] as Json[]).filter(({ type }) => type === 'function_call_output')

  test('useFrontendTool: the page is painted, and the agent goes on with its result', async () => {
    const { page, server, complaints } = await open([toolCall('paint', { color: 'lightblue' }), text('It is blue.')])

    await say(page, 'Paint the page blue.')
    await shown(page, 'It is blue.')

    expect(await page.locator('h1').getAttribute('style')).toContain('lightblue')
    expect(outputsOf(server)).toMatchObject([{ output: 'The page is lightblue now.' }])
    expect(server.provider.modelRequests[1]!.body['instructions']).toMatch(/color of the page","value":"lightblue"/)
    expect(server.provider.rejected).toEqual([])
    expect(complaints).toEqual([])
    await picture(page, 'tool')
  })

  test('useHumanInTheLoop: the run goes on with what the user has chosen', async () => {
    const { page, server } = await open([toolCall('choose_day', { days: ['Monday', 'Friday'] }), text('Friday it is.')])

    await say(page, 'When?')
    await page.getByRole('button', { name: 'Friday' }).click()
    await shown(page, 'Friday it is.')

    await shown(page, 'Chosen: Friday')
    expect(outputsOf(server)).toMatchObject([{ output: 'Friday' }])
    expect(server.provider.rejected).toEqual([])
    await picture(page, 'human')
  })

  test('useAgent: the agent changes the state, and sees how the page has changed it', async () => {
    const { page, server } = await open([
      [toolCall('add_item', { item: 'milk' }), toolCall('add_item', { item: 'tea' })],
      text('Both are on it.'),
      toolCall('add_item', { item: 'eggs' }),
      text('Eggs too.'),
    ])
    const items = page.locator('main li')

    await say(page, 'Milk and tea.')
    await shown(page, 'Both are on it.')
    expect(await items.allInnerTexts()).toEqual(['milk Remove', 'tea Remove'])
    await items.first().getByRole('button').click()
    await say(page, 'Eggs.')
    await shown(page, 'Eggs too.')

    expect(await items.allInnerTexts()).toEqual(['tea Remove', 'eggs Remove'])
    expect(outputsOf(server).at(-1)).toMatchObject({ output: 'Now there are 2.' })
    await picture(page, 'state')
  })

  test.each([
    ['Approve', [250], 'Paid 250 back.'],
    ['Reject', [], 'Not carried out: a person rejected this call.'],
  ])('useInterrupt, %s: the call is carried out, or not, and the agent goes on', async (button, paid, output) => {
    refunds.length = 0
    const { page, server } = await open([toolCall('refund', { amount: 250 }), text('That is settled.')])

    await say(page, 'Refund it.')
    await shown(page, 'Desk wants to use refund.')
    await picture(page, 'interrupt')
    await page.getByRole('button', { name: button }).click()
    await shown(page, 'That is settled.')

    expect(refunds).toEqual(paid)
    expect(outputsOf(server)).toMatchObject([{ output }])
    expect(server.provider.rejected).toEqual([])
  })
})
