import { execFile } from 'node:child_process'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { Agency, Agent, tool } from '@bureau/framework'
import type { Download, Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { text, toolCall } from '../support/fake-provider.ts'
import { closeAfterTest, startTestServer, type TestServer } from '../support/test-server.ts'
import { canBrowse, consoleBrowser } from './support/console-page.ts'

const pack = tool({
  name: 'pack',
  description: 'Packs a parcel.',
  parameters: z.object({
    what: z.string().describe('What goes into it.'),
    count: z.int(),
    size: z.enum(['small', 'large']),
    gift: z.boolean(),
    label: z.string().nullable(),
    extras: z.array(z.string()),
  }),
  execute: (input, { userContext }) => {
    if (input.count < 1) throw new Error('an empty parcel', { cause: new RangeError('count is below 1') })
    return { ...input, for: userContext['user'] ?? null }
  },
})

const GIVEN = { what: 'boots', count: 2, size: 'small', gift: true, label: null, extras: ['laces'] }

const start = (): Promise<TestServer> => {
  const agent = new Agent({ name: 'Clerk', instructions: 'Help.', model: 'gpt-test', tools: [pack] })
  return startTestServer({ agencies: { shop: new Agency({ name: 'Shop', entryPoint: agent }) } })
}

async function askToPack(page: Page, server: TestServer): Promise<void> {
  server.provider.script([toolCall('pack', GIVEN), text('It is packed.')])
  await page.getByRole('textbox', { name: 'Message' }).fill('Pack my boots')
  await page.keyboard.press('Enter')
  await page.getByText('It is packed.').waitFor()
  await page.getByRole('button', { name: 'Send again', exact: true }).waitFor()
}

const output = (page: Page): Promise<string> => page.getByRole('group', { name: 'Output' }).innerText()

describe.skipIf(!canBrowse)('a tool of an agent', () => {
  const open = consoleBrowser()

  test('is run alone from a form that its schema makes, with the context of the chat', async () => {
    const server = await start()
    const { page, barriers, complaints } = await open(server.url)

    await page.getByRole('button', { name: 'Options of this chat' }).click()
    await page.getByRole('textbox', { name: 'Context' }).fill('{ "user": "ada" }')
    await page.getByRole('button', { name: 'Use these' }).click()
    await page.getByRole('button', { name: 'Tools' }).click()
    await page.getByLabel('what *').fill('gloves')
    await page.getByLabel('count *').fill('3')
    await page.getByLabel('size *').selectOption('large')
    await page.getByLabel('gift').check()
    await page.getByLabel('extras *').fill('["ribbon"]')
    await page.getByRole('button', { name: 'Run it' }).click()
    await page.getByText('gloves').last().waitFor()

    expect(await output(page)).toContain('"ada"')
    expect(await output(page)).toContain('"ribbon"')
    expect(server.provider.modelRequests).toHaveLength(0)
    expect(await barriers()).toEqual([])
    expect(complaints).toEqual([])
  })

  test('says at its field which argument does not fit, and what it has thrown', async () => {
    const server = await start()
    const { page, barriers } = await open(server.url)

    await page.getByRole('button', { name: 'Tools' }).click()
    await page.getByLabel('count *').fill('1')
    await page.getByRole('button', { name: 'Run it' }).click()
    await page.locator('[aria-invalid]').first().waitFor()
    const refused = "[...document.querySelectorAll('[aria-invalid]')].map(({ name }) => name)"
    expect(await page.evaluate(refused)).toEqual(['what', 'size', 'extras'])
    expect(await page.evaluate('document.activeElement.name')).toBe('what')
    expect(await page.getByRole('alert').count()).toBe(3)
    expect(await barriers()).toEqual([])
    await page.getByLabel('what *').fill('air')
    await page.getByLabel('count *').fill('0')
    await page.getByLabel('size *').selectOption('small')
    await page.getByLabel('extras *').fill('[]')
    await page.getByRole('button', { name: 'Run it' }).click()
    await page.getByText('RangeError: count is below 1').waitFor()

    expect(await page.getByRole('group', { name: 'Failure' }).innerText()).toContain('an empty parcel')
  })

  test('is not run as long as what is written for an argument is not JSON', async () => {
    const server = await start()
    const { page } = await open(server.url)

    await page.getByRole('button', { name: 'Tools' }).click()
    await page.getByLabel('what *').fill('air')
    await page.getByLabel('count *').fill('1')
    await page.getByLabel('size *').selectOption('small')
    await page.getByLabel('extras *').fill('["ribbon"]')
    await page.getByLabel('extras *').fill('["ribbon"')
    await page.getByRole('button', { name: 'Run it' }).click()
    expect(await page.evaluate('document.activeElement.name')).toBe('extras')
    await page.getByLabel('extras *').fill('["bow"]')
    await page.getByRole('button', { name: 'Run it' }).click()
    await page.getByText('"bow"').last().waitFor()
  })

  test('that an agent has called is run again by hand, with its arguments or others', async () => {
    const server = await start()
    const { page } = await open(server.url)

    await askToPack(page, server)
    await page.getByRole('log').getByText('pack', { exact: true }).click()
    await page.getByRole('button', { name: 'Run by hand' }).click()
    expect(await page.getByLabel('what *').inputValue()).toBe('boots')
    await page.getByLabel('count *').fill('7')
    await page.getByRole('button', { name: 'Run it' }).click()
    await page.getByRole('group', { name: 'Output' }).waitFor()

    expect(await output(page)).toMatch(/count: 7\b/)
    expect(await output(page)).toContain('"laces"')
  })

  test('is not run on a server that keeps no runs, and the panel says so', async () => {
    const agent = new Agent({ name: 'Clerk', instructions: 'Help.', model: 'gpt-test', tools: [pack] })
    const server = await startTestServer({
      agencies: { shop: new Agency({ entryPoint: agent }) },
      keepRecentRuns: false,
    })
    const { page } = await open(server.url)

    await page.getByRole('button', { name: 'Tools' }).click()
    await page.getByText('This server carries out no single tools').waitFor()

    expect(await page.getByRole('button', { name: 'Run it' }).count()).toBe(0)
  })
})

const run = promisify(execFile)

/** Drops a file into a project, as developers do, and runs it there. Rejects when the test fails. */
async function runSaved(download: Download): Promise<string> {
  const folder = path.resolve(import.meta.dirname, `../../coverage/saved-${crypto.randomUUID()}`)
  await mkdir(folder, { recursive: true })
  closeAfterTest(() => rm(folder, { recursive: true }))
  const file = path.join(folder, download.suggestedFilename())
  await download.saveAs(file)
  await writeFile(path.join(folder, 'package.json'), '{"type":"module"}')
  const { NODE_OPTIONS: _, NODE_TEST_CONTEXT: __, ...env } = process.env
  return (await run(process.execPath, ['--conditions=@bureau/source', '--test', file], { env })).stdout
}

describe.skipIf(!canBrowse)('a chat that is saved as a test', () => {
  const open = consoleBrowser()

  async function save(page: Page): Promise<Download> {
    await page.getByRole('button', { name: 'More about this chat' }).click()
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('menuitem', { name: 'Save as a test' }).click(),
    ])
    return download
  }

  test('passes while the agents do the same, and says what they did when they do not', async () => {
    const server = await start()
    const { page } = await open(server.url)

    await askToPack(page, server)
    const download = await save(page)
    server.provider.script([toolCall('pack', GIVEN), text('Done, in other words.')])
    const same = await runSaved(download)
    server.provider.script([toolCall('pack', { ...GIVEN, count: 9 }), text('It is packed.')])
    const other = await runSaved(download).catch((error: { stdout: string }) => error.stdout)

    expect(download.suggestedFilename()).toBe('pack-my-boots.test.ts')
    expect(same).toMatch(/pass 1\b/)
    expect(other).toMatch(/fail 1\b/)
    expect(other).toMatch(/\+\s+count: 9/)
  })
})
