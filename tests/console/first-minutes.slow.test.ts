import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { startBureau } from '../support/bureau-process.ts'
import { startFakeProvider, text, toolCall } from '../support/fake-provider.ts'
import { closeAfterTest } from '../support/test-server.ts'
import { canBrowse, consoleBrowser } from './support/console-page.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')

const agencySaying = (words: string): string => `
import { Agency, Agent, tool } from '@bureau/framework'
import { z } from 'zod'
const greet = tool({ name: 'greet', description: 'Greets.', parameters: z.object({}), execute: () => '${words}' })
export const door = new Agency({ name: 'Door', entryPoint: new Agent({ name: 'Porter', instructions: 'Greet.', model: 'gpt-test', tools: [greet] }) })
`

describe.skipIf(!canBrowse)('the first minutes', () => {
  const open = consoleBrowser()

  test('under `bureau dev`, a tool that is saved has its new result in the same chat, without loading the page again', async () => {
    const folder = mkdtempSync(path.join(ROOT, 'examples/.saved-'))
    closeAfterTest(async () => rmSync(folder, { recursive: true, force: true }))
    const file = path.join(folder, 'agency.ts')
    writeFileSync(file, agencySaying('Good morning.'))
    const provider = await startFakeProvider()
    closeAfterTest(() => provider.close())
    provider.respond(({ body }) => {
      const last = (body['input'] as readonly { type?: string; output?: unknown }[]).at(-1)
      return last?.type === 'function_call_output' ? text(`It said: ${String(last.output)}`) : toolCall('greet')
    })
    const env = { OPENAI_API_KEY: 'sk-test', OPENAI_BASE_URL: provider.baseUrl, PORT: String(await freePort()) }
    const bureau = await startBureau(['dev', file], env)
    const { page } = await open(bureau.url)
    let loads = 0
    page.on('load', () => void (loads += 1))

    await page.getByRole('textbox', { name: 'Message' }).fill('Hello')
    await page.keyboard.press('Enter')
    await page.getByText('It said: Good morning.').waitFor()
    writeFileSync(file, agencySaying('Good evening.'))
    await expect.poll(() => bureau.output().split('Bureau is ready').length).toBe(3)
    await page.getByRole('textbox', { name: 'Message' }).fill('Hello again')
    await page.keyboard.press('Enter')
    await page.getByText('It said: Good evening.').waitFor()

    expect(loads).toBe(0)
    expect(await page.getByText('It said: Good morning.').count()).toBe(1)
    expect(JSON.stringify(provider.modelRequests.at(-1)!.body)).toContain('It said: Good morning.')
  })

  test('from a start without any key, one click to a first answer, with the call of a tool in it', async () => {
    const bureau = await startBureau(['start', path.join(ROOT, 'examples/demo-agency.ts')])
    const { page, complaints } = await open(bureau.url)

    await page.getByRole('button', { name: 'How much is 20 US dollars in euros?' }).click()
    await page.getByText('18.40 euros').last().waitFor()
    const call = page.locator('details', { hasText: 'ConvertCurrency' }).first()
    await call.locator('summary').first().click()

    expect(await call.getByRole('group', { name: 'Result' }).innerText()).toContain('18.40 euros')
    expect(complaints).toEqual([])
  })
})
