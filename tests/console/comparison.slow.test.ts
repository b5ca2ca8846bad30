import { Agency, Agent } from '@bureau/framework'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { hold, text, textDeltas } from '../support/fake-provider.ts'
import { startTestServer, type TestServer } from '../support/test-server.ts'
import { canBrowse, consoleBrowser } from './support/console-page.ts'

const agency = (name: string, model: string): Agency =>
  new Agency({ name, entryPoint: new Agent({ name, instructions: 'Help.', model }) })

const startTwo = (): Promise<TestServer> =>
  startTestServer({ agencies: { brief: agency('Brief', 'gpt-brief'), wordy: agency('Wordy', 'gpt-wordy') } })

const pane = (page: Page, name: string) => page.getByRole('region', { name: `Chat with ${name}` })

/** Two chats beside each other, the second with the other agency. */
async function compare(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'More about this chat' }).click()
  await page.getByRole('menuitem', { name: 'Compare with another' }).click()
  await page.getByRole('region', { name: 'Chat with brief' }).nth(1).getByLabel('Agency').selectOption('wordy')
  await pane(page, 'wordy').waitFor()
}

async function sayToBoth(page: Page, words: string): Promise<void> {
  await page.getByRole('textbox', { name: 'Message to both' }).fill(words)
  await page.keyboard.press('Enter')
}

describe.skipIf(!canBrowse)('two agencies beside each other', () => {
  const open = consoleBrowser()

  test('are told the same, answer each for itself, and are there again at the same address', async () => {
    const server = await startTwo()
    server.provider.respond((request) => (request.body['model'] === 'gpt-brief' ? text('Hi.') : text('Good morning.')))
    const { page, barriers, complaints } = await open(server.url)

    await compare(page)
    await sayToBoth(page, 'Hello')
    await pane(page, 'brief').getByText('Hi.', { exact: true }).waitFor()
    await pane(page, 'wordy').getByText('Good morning.').waitFor()
    await pane(page, 'wordy').getByRole('button', { name: 'Send again', exact: true }).waitFor()
    expect(await barriers()).toEqual([])
    await page.reload()
    await pane(page, 'brief').getByText('Hi.', { exact: true }).waitFor()
    await pane(page, 'wordy').getByText('Good morning.').waitFor()

    expect(await pane(page, 'brief').getByText('Good morning.').count()).toBe(0)
    expect(complaints).toEqual([])
  })

  test('are stopped together, and either is gone on with alone', async () => {
    const server = await startTwo()
    const gate = server.provider.gate()
    server.provider.respond(() => textDeltas(['So far', hold(gate), ' and on']))
    const { page } = await open(server.url)

    await compare(page)
    await sayToBoth(page, 'Begin')
    await pane(page, 'brief').getByText('So far').waitFor()
    await pane(page, 'wordy').getByText('So far').waitFor()
    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    await server.provider.waitForAborts(2)
    await pane(page, 'brief').getByRole('button', { name: 'Close this chat' }).click()
    await page.getByRole('textbox', { name: 'Message', exact: true }).waitFor()

    expect(await pane(page, 'wordy').getByText('So far').count()).toBe(1)
    expect(await pane(page, 'brief').count()).toBe(0)
  })

  test('keep what waits behind a run each, and it is taken back into the field of both', async () => {
    const server = await startTwo()
    const gate = server.provider.gate()
    server.provider.respond(() => textDeltas(['So far', hold(gate), ' and on']))
    const { page } = await open(server.url)

    await compare(page)
    await sayToBoth(page, 'Begin')
    await pane(page, 'wordy').getByText('So far').waitFor()
    await sayToBoth(page, 'Go on')
    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    await pane(page, 'brief').getByRole('button', { name: 'Send now' }).waitFor()
    await pane(page, 'wordy').getByRole('button', { name: 'Take back' }).click()

    expect(await page.getByRole('textbox', { name: 'Message to both' }).inputValue()).toBe('Go on')
    expect(await pane(page, 'wordy').getByText('Go on').count()).toBe(0)
    expect(await pane(page, 'brief').getByText('Go on').count()).toBe(1)
  })

  test('fit on a phone, one below the other', async () => {
    const server = await startTwo()
    const { page, barriers } = await open(server.url, { viewport: { width: 360, height: 720 }, colorScheme: 'dark' })

    await compare(page)

    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)
    expect(await barriers()).toEqual([])
  })
})
