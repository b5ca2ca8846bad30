import { setTimeout } from 'node:timers/promises'
import { tool } from '@bureau/framework'
import type { ServerOptions } from '@bureau/server'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { hold, text, textDeltas, toolCall } from '../support/fake-provider.ts'
import { soloAgency, startTestServer, type TestServer } from '../support/test-server.ts'
import { canBrowse, consoleBrowser, focused } from './support/console-page.ts'
import { refund } from './support/refund-tool.ts'

async function startWithRefund(options: Partial<ServerOptions> = {}): Promise<TestServer> {
  const server = await startTestServer({ agencies: soloAgency({ tools: [refund] }), ...options })
  server.provider.script([toolCall('refund', { euros: 50 }), text('All is settled.')])
  return server
}

async function askForRefund(page: Page): Promise<void> {
  await page.getByRole('textbox', { name: 'Message' }).fill('I want my money back')
  await page.keyboard.press('Enter')
  await page.getByRole('region', { name: 'Approval of refund' }).first().waitFor()
}

const outputs = ({ provider }: TestServer): unknown[] =>
  provider.modelRequests.at(-1)!.toolOutputs.map(({ output }) => output)

describe.skipIf(!canBrowse)('a call that waits for an approval', () => {
  const open = consoleBrowser()

  test('is made when it is approved', async () => {
    const server = await startWithRefund()
    const { page, barriers, complaints } = await open(server.url)

    await askForRefund(page)
    expect(await barriers()).toEqual([])
    await page.getByRole('button', { name: 'Approve' }).press('Enter')
    await page.getByText('All is settled.').waitFor()
    await page.getByRole('status').getByText('Approved').waitFor()
    await expect.poll(() => focused(page)).toBe('textarea Message')

    expect(outputs(server)).toEqual(['50 euros are paid back.'])
    expect(await page.getByRole('region', { name: 'Approval of refund' }).count()).toBe(0)
    expect(complaints).toEqual([])
  })

  test('waits quietly in two tabs, and is decided on in either', async () => {
    const server = await startWithRefund()
    const { page } = await open(server.url)
    await askForRefund(page)
    const second = await page.context().newPage()
    await second.goto(page.url())
    await second.getByRole('region', { name: 'Approval of refund' }).waitFor()

    let asked = 0
    page.context().on('request', () => asked++)
    await setTimeout(3000)
    expect(asked).toBeLessThan(20)
    await second.getByRole('button', { name: 'Approve' }).click()
    await second.getByText('All is settled.').waitFor()
    await page.getByText('All is settled.').waitFor()

    expect(outputs(server)).toEqual(['50 euros are paid back.'])
  })

  test('of one chat in two tabs are decided on in either, and both show at once that the run goes on', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [refund] }) })
    const gate = server.provider.gate()
    server.provider.script([
      toolCall('refund', { euros: 50 }),
      [textDeltas(['One moment', hold(gate), '.']), toolCall('refund', { euros: 60 })],
      text('All is settled.'),
    ])
    const { page } = await open(server.url)
    await askForRefund(page)
    const second = await page.context().newPage()
    await second.goto(page.url())
    await second.getByRole('region', { name: /Approval of refund.*50/ }).waitFor()

    await page.getByRole('button', { name: 'Approve' }).click()
    await second.getByText('One moment', { exact: true }).waitFor()
    expect(await second.getByRole('region', { name: 'Approval of refund' }).count()).toBe(0)
    gate.release()
    for (const tab of [page, second]) {
      await tab.getByRole('region', { name: /Approval of refund.*60/ }).waitFor()
      await tab.getByRole('button', { name: 'Send again', exact: true }).waitFor()
    }
    await second.getByRole('button', { name: 'Approve' }).click()

    for (const tab of [page, second]) {
      await tab.getByText('All is settled.').waitFor()
      expect(await tab.getByText('One moment.', { exact: true }).count()).toBe(1)
      expect(await tab.getByText('refund', { exact: true }).count()).toBe(2)
    }
    expect(outputs(server)).toEqual(['50 euros are paid back.', '60 euros are paid back.'])
  })

  test('stays, with what was said, when a server that has forgotten the run refuses the decision', async () => {
    const server = await startWithRefund({ resumeMs: 1 })
    const { page } = await open(server.url)
    await askForRefund(page)
    await page.getByRole('button', { name: 'Send again', exact: true }).waitFor()
    await page.reload()
    await page.getByRole('button', { name: 'Approve' }).waitFor()
    await page.route('**/get_response_stream', (route) =>
      route.fulfill({ status: 422, json: { error: 'The token has expired.', code: 'validation_error' } }),
    )

    await page.getByRole('button', { name: 'Approve' }).click()
    await page.getByRole('status').getByText('The token has expired.').waitFor()
    await page.unrouteAll()
    await page.getByRole('button', { name: 'Approve' }).click()

    await page.getByText('All is settled.').waitFor()
    expect(outputs(server)).toEqual(['50 euros are paid back.'])
  })

  test('and another one are both asked for again when the server refuses what was decided on the last of them', async () => {
    const editable = tool({
      name: 'refund',
      description: 'Pays money back.',
      parameters: z.object({ euros: z.number() }),
      needsApproval: { when: () => true, edit: true },
      execute: ({ euros }) => `${euros} euros are paid back.`,
    })
    const server = await startTestServer({ agencies: soloAgency({ tools: [editable] }) })
    server.provider.script([
      [toolCall('refund', { euros: 50 }), toolCall('refund', { euros: 60 })],
      text('All is settled.'),
    ])
    const { page } = await open(server.url)
    await askForRefund(page)
    const card = (euros: number) => page.getByRole('region', { name: `"euros":${euros}` })

    await card(50).getByRole('button', { name: 'Approve' }).click()
    await card(50).waitFor({ state: 'detached' })
    await card(60).getByRole('button', { name: 'Edit' }).click()
    await card(60).getByLabel('Other arguments').fill('{"euros": "all"}')
    await card(60).getByRole('button', { name: 'Approve these' }).click()
    await page.getByRole('status').getByText('The request is not valid.').waitFor()
    await card(50).getByRole('button', { name: 'Approve' }).click()
    await card(60).getByLabel('Other arguments').fill('{"euros": 7}')
    await card(60).getByRole('button', { name: 'Approve these' }).click()
    await page.getByText('All is settled.').waitFor()

    const [first, second] = outputs(server)
    expect(first).toBe('50 euros are paid back.')
    expect(second).toContain('7 euros are paid back.')
  })

  test('what was said before it is there when the page is loaded again, while its run goes on or the next call waits', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [refund] }) })
    const gate = server.provider.gate()
    server.provider.script([
      [text('I look.'), toolCall('refund', { euros: 50 })],
      toolCall('refund', { euros: 60 }),
      textDeltas(['All is', hold(gate), ' settled.']),
      text('You are welcome.'),
    ])
    const { page } = await open(server.url)

    await askForRefund(page)
    await page.getByRole('button', { name: 'Approve' }).click()
    await page.getByRole('region', { name: /Approval of refund.*60/ }).waitFor()
    await page.getByRole('button', { name: 'Send again', exact: true }).waitFor()
    await page.reload()
    await page.getByRole('button', { name: 'Approve' }).click()
    await page.getByText('All is', { exact: true }).waitFor()
    await page.reload()
    await page.getByText('All is', { exact: true }).waitFor()
    gate.release()
    await page.getByText('All is settled.').waitFor()
    await page.getByRole('button', { name: 'Send again', exact: true }).waitFor()
    await page.reload()
    await page.getByText('All is settled.').waitFor()
    expect(await page.getByText('I look.').count()).toBe(1)
    expect(await page.getByText('refund', { exact: true }).count()).toBe(2)
    await page.getByRole('textbox', { name: 'Message' }).fill('Thanks')
    await page.keyboard.press('Enter')
    await page.getByText('You are welcome.').waitFor()

    const input = JSON.stringify(server.provider.modelRequests.at(-1)!.body)
    for (const said of ['I want my money back', 'I look.', '50 euros are paid back.', '60 euros are paid back.'])
      expect(input.split(said).length).toBe(2)
  })

  test('is not made when it is rejected, and the model reads why', async () => {
    const server = await startWithRefund()
    const { page } = await open(server.url)

    await askForRefund(page)
    await page.getByLabel('Reason').fill('Too much.')
    await page.getByRole('button', { name: 'Reject' }).click()
    await page.getByText('All is settled.').waitFor()

    expect(JSON.stringify(outputs(server))).toContain('Too much.')
  })

  test('is in the inbox, and there after a reload; the chat goes on behind it', async () => {
    const server = await startWithRefund()
    const { page, barriers } = await open(server.url)

    await askForRefund(page)
    await page.getByRole('link', { name: 'Inbox' }).click()
    await page.getByRole('list', { name: 'Your chats that wait' }).getByText('I want my money back').waitFor()
    expect(await barriers()).toEqual([])
    await page.reload()
    await page.getByRole('list', { name: 'Your chats that wait' }).getByText('I want my money back').click()
    await page.getByRole('button', { name: 'Approve' }).click()
    await page.getByText('All is settled.').waitFor()
    server.provider.script([text('You are welcome.')])
    await page.getByRole('textbox', { name: 'Message' }).fill('Thanks')
    await page.keyboard.press('Enter')
    await page.getByText('You are welcome.').waitFor()

    const input = JSON.stringify(server.provider.modelRequests.at(-1)!.body)
    expect(input.split('50 euros are paid back.').length).toBe(2)
    expect(input).toContain('All is settled.')
    await page.getByRole('link', { name: 'Inbox' }).click()
    await page.getByText('Nothing waits for you').waitFor()
  })

  test('keeps the message that was written meanwhile, which is sent when its run has ended', async () => {
    const server = await startTestServer({ agencies: soloAgency({ tools: [refund] }) })
    const gate = server.provider.gate()
    server.provider.script([
      [textDeltas(['One moment', hold(gate), '.']), toolCall('refund', { euros: 50 })],
      text('All is settled.'),
      text('You are welcome.'),
    ])
    const { page } = await open(server.url)

    await page.getByRole('textbox', { name: 'Message' }).fill('I want my money back')
    await page.keyboard.press('Enter')
    await page.getByText('One moment').waitFor()
    await page.getByRole('textbox', { name: 'Message' }).fill('Thanks')
    await page.keyboard.press('Enter')
    gate.release()
    await page.getByRole('button', { name: 'Approve' }).click()
    await page.getByText('You are welcome.').waitFor()

    expect(server.provider.modelRequests.at(-1)!.lastUserText).toBe('Thanks')
  })

  test('is made also when the server has forgotten the run', async () => {
    const server = await startWithRefund({ resumeMs: 1 })
    const { page } = await open(server.url)

    await askForRefund(page)
    await page.getByRole('button', { name: 'Send again', exact: true }).waitFor()
    await page.reload()
    await page.getByRole('button', { name: 'Approve' }).click()
    await page.getByText('All is settled.').waitFor()
    await page.getByText('refund', { exact: true }).click()

    expect(await page.getByRole('group', { name: 'Result' }).innerText()).toBe('50 euros are paid back.')
    expect(outputs(server)).toEqual(['50 euros are paid back.'])
  })
})
