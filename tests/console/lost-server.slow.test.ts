import { setTimeout } from 'node:timers/promises'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { startPlatform } from '../platform/support/test-platform.ts'
import { startCuttingProxy } from '../support/cutting-proxy.ts'
import { hold, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import { closeAfterTest, soloAgency, startTestServer } from '../support/test-server.ts'
import { canBrowse, consoleBrowser, say } from './support/console-page.ts'
import { refund } from './support/refund-tool.ts'

const banner = (page: Page) => page.getByRole('alert').filter({ hasText: 'It is asked again every two seconds' })

describe.skipIf(!canBrowse)('a server that cannot be reached', () => {
  const open = consoleBrowser()

  test('is shown at once; what was written stays, and the page that was asked for comes when it is back', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const network = await startCuttingProxy(server.url)
    const { page, barriers } = await open(network.url)
    const message = page.getByRole('textbox', { name: 'Message' })
    await message.fill('Are you there?')

    network.shut()
    await page.getByRole('link', { name: 'Runs' }).click()
    await banner(page).waitFor()
    expect(await barriers()).toEqual([])
    await page.getByRole('button', { name: 'Try again now' }).click()
    expect(await message.inputValue()).toBe('Are you there?')
    network.open()

    await page.getByRole('heading', { name: 'Runs' }).waitFor()
    await banner(page).waitFor({ state: 'detached' })
  })

  test('keeps a message that was sent meanwhile in the chat', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    server.provider.respond(() => text('Here again.'))
    const network = await startCuttingProxy(server.url)
    const { page } = await open(network.url)
    await page.getByRole('textbox', { name: 'Message' }).fill('Are you there?')

    network.shut()
    await page.keyboard.press('Enter')
    await banner(page).waitFor()
    network.open()
    await banner(page).waitFor({ state: 'detached' })
    await page.reload()

    const conversation = page.getByRole('log', { name: 'Conversation' })
    await conversation.getByText('Are you there?', { exact: true }).waitFor()
    expect(await conversation.getByText('Are you there?', { exact: true }).count()).toBe(1)
  })

  test('is shown when a stream is lost; the answer goes on where it was', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['So far', hold(gate), ' and on.'])])
    const network = await startCuttingProxy(server.url)
    const { page } = await open(network.url)
    await say(page, 'Tell me')
    await page.getByText('So far').waitFor()

    network.shut()
    await banner(page).waitFor()
    await page.getByText('Reconnecting …').waitFor()
    gate.release()
    network.open()

    await page.getByText('So far and on.', { exact: true }).waitFor()
    await banner(page).waitFor({ state: 'detached' })
    expect(server.provider.modelRequests).toHaveLength(1)
  })

  test('for longer than the client asks again loses no answer, and no call that waits', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [refund] }) })
    const gate = server.provider.gate()
    server.provider.script([toolCall('refund', { euros: 50 }), textDeltas(['So far', hold(gate), ' and on.'])])
    const network = await startCuttingProxy(server.url)
    const { page } = await open(network.url)
    await say(page, 'Refund')
    await page.getByRole('button', { name: 'Approve' }).waitFor()
    await page.getByRole('button', { name: 'Send again', exact: true }).waitFor()
    await page.getByRole('button', { name: 'New chat' }).click()
    await say(page, 'Tell me')
    await page.getByText('So far').waitFor()
    const chats = page.getByRole('navigation', { name: 'Chats' })
    await page.clock.install()
    await page.reload()
    await page.getByText('So far').waitFor()

    network.shut()
    await banner(page).waitFor()
    await chats.getByRole('button', { name: /^Refund/ }).click()
    // The client makes ten attempts, within two minutes.
    for (let attempt = 0; attempt < 15; attempt++) {
      await page.clock.fastForward(60_000)
      await setTimeout(100)
    }
    network.open()
    gate.release()
    await banner(page).waitFor({ state: 'detached' })

    await page.getByRole('button', { name: 'Approve' }).waitFor()
    await chats.getByRole('button', { name: /^Tell me/ }).click()
    await page.getByText('So far and on.', { exact: true }).waitFor()
    await page.reload()
    await page.getByText('So far and on.', { exact: true }).waitFor()

    expect(server.provider.modelRequests).toHaveLength(2)
  })

  test('and comes back without the run: the message can be sent again, and so can the one queued behind it', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const gate = server.provider.gate()
    server.provider.script([textDeltas(['So far', hold(gate), ' and on.']), text('Anew.')])
    const network = await startCuttingProxy(server.url)
    const { page } = await open(network.url)
    await say(page, 'Tell me')
    await page.getByText('So far').waitFor()
    await say(page, 'And then?')

    await page.route('**/runs/*/events?*', (route) =>
      route.fulfill({ status: 404, json: { error: 'There is no such run.', code: 'run_not_found' } }),
    )
    network.shut()
    network.open()
    await page.getByText('The server does not know this run any more').waitFor()
    await page.getByText('was not sent, because the run did not complete').waitFor()
    await page.getByRole('button', { name: 'Send now' }).click()
    await page.getByText('Anew.').waitFor()
    gate.release()

    expect(server.provider.modelRequests.at(-1)!.lastUserText).toBe('And then?')
  })

  test('or one that answers with what the page cannot show leaves the navigation, and the page can be tried again', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { page } = await open(server.url)
    await page.route('**/console/runs?*', (route) => route.fulfill({ json: { runs: 7 } }))
    await page.route('**/console/runs', (route) => route.fulfill({ json: { runs: 7 } }))

    await page.getByRole('link', { name: 'Runs' }).click()
    await page.getByRole('heading', { name: 'This page cannot be shown' }).waitFor()
    await page.unrouteAll()
    await page.getByRole('link', { name: 'Inbox' }).click()
    await page.getByRole('heading', { name: 'Inbox' }).waitFor()
    await page.getByRole('link', { name: 'Runs' }).click()
    await page.getByText('No runs').first().waitFor()

    expect(await page.getByRole('heading', { name: 'This page cannot be shown' }).count()).toBe(0)
  })

  test('a server that answers 503 is quoted, and "Try again" repeats what it refused', async () => {
    const server = await startTestServer({ agencies: soloAgency() })
    const { page } = await open(server.url, { at: '/settings' })
    await page.route('**/openapi.json', (route) =>
      route.fulfill({ status: 503, json: { error: 'The server is at its limit.', code: 'overloaded' } }),
    )
    await page.reload()
    await page.getByRole('link', { name: 'Runs' }).click()
    await page.getByText('The server is at its limit.').waitFor()
    await page.unrouteAll()
    await page.getByRole('button', { name: 'Try again' }).click()

    await page.getByRole('heading', { name: 'Runs', level: 1 }).waitFor()
    expect(await page.getByRole('alert').count()).toBe(0)
  })

  test('is shown on the pages of the platform too, which are read anew afterwards', async () => {
    const platform = await startPlatform('pglite')
    closeAfterTest(() => platform.close())
    const { token } = await platform.client()
    const network = await startCuttingProxy(platform.url)
    const { page } = await open(network.url, { signedIn: { platform: token }, at: '/platform/chats' })
    await page.getByText('No chats yet').waitFor()

    network.shut()
    await page.getByLabel('Consumer').fill('ada')
    await banner(page).waitFor()
    network.open()

    await banner(page).waitFor({ state: 'detached' })
    await expect.poll(() => page.getByRole('alert').count()).toBe(0)
  })
})
